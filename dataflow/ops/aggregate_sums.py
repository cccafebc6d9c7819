"""The state of COUNT, SUM, AVG, BOOL_AND and BOOL_OR: numbers that values are added to and removed from, exactly.

A numeric's sum prints with the largest scale of its inputs, with a sum for each scale: taking the last value of that
scale away makes the scale smaller, as in the upstream. Floats are summed as exact rationals and rounded once, when
printed: the upstream's own answer depends on the order of rows, ours on the rows alone.

Not here: aggregates that remember values (`aggregate_values`, `aggregate_lists`).
"""

import struct
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce

from dataflow import arithmetic, numeric
from dataflow.calendar import interval_parts, interval_text
from dataflow.errors import EvaluationError
from dataflow.functions.dates import over
from dataflow.functions.floats import printed
from dataflow.sizing import BUCKET_BYTES, NUMBER_BYTES, TEXT_BYTES
from dataflow.types import Value
from dataflow.types.floats import float4

SPECIAL = ("NaN", "Infinity", "-Infinity")
_INT8_MAX = 2**63 - 1
#: Months, days and microseconds of an interval.
_MOST = (2**31 - 1, 2**31 - 1, _INT8_MAX)
_LEAST = (-(2**31), -(2**31), -(2**63))
#: The smallest positive double is 2**-1074: every finite one is a whole number of these.
_UNIT_BITS = 1074
#: About what an accumulator's object takes.
_FIXED = 48
_NOTHING = (0, Decimal(0))
#: Texts of small integers, which many groups share.
_SMALL = tuple(map(str, range(1024)))


def integer_text(number: int) -> str:
    """The text of an integer."""
    return _SMALL[number] if 0 <= number < len(_SMALL) else str(number)


class CountRows:
    """COUNT(*)."""

    __slots__ = ("count",)
    recorded: tuple[str, ...] = ("count",)
    width = 1
    grows = False

    def __init__(self) -> None:
        self.count = 0

    def add(self, value: Value, times: int) -> None:
        del value
        self.count += times

    def add_partial(self, value: Value, count: int, times: int) -> None:
        del value
        self.count += count * times

    def merge(self, partial: Sequence[Value]) -> None:
        self.count += int(partial[0] or 0)

    def state_bytes(self) -> int:
        # Most are small: the number and its text, which is counted with the group's row, are shared.
        return _FIXED - TEXT_BYTES

    def result(self) -> Value:
        return integer_text(self.count)


class CountValues(CountRows):
    """COUNT(x): the non-NULL ones."""

    __slots__ = ()

    def add(self, value: Value, times: int) -> None:
        if value is not None:
            self.count += times


class IntegerSum:
    """SUM of an integer type."""

    __slots__ = ("count", "sum")
    recorded: tuple[str, ...] = ("count", "sum")
    width = 2
    grows = False

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0

    def add(self, value: Value, times: int) -> None:
        if value is not None:
            self.count += times
            self.sum += int(value) * times

    def add_partial(self, value: Value, count: int, times: int) -> None:
        if value is not None:
            self.count += count * times
            self.sum += int(value) * times

    def merge(self, partial: Sequence[Value]) -> None:
        self.count += int(partial[0] or 0)
        self.sum += int(partial[1] or 0)

    def state_bytes(self) -> int:
        # Most counts are small: such numbers are shared.
        return _FIXED + NUMBER_BYTES

    def result(self) -> Value:
        return integer_text(self.sum) if self.count else None


class BigintSum(IntegerSum):
    """SUM of smallint or integer: a bigint, which can overflow."""

    __slots__ = ()

    def result(self) -> Value:
        if not -_INT8_MAX - 1 <= self.sum <= _INT8_MAX:
            raise EvaluationError("bigint out of range in SUM")
        return IntegerSum.result(self)


class IntegerAverage(IntegerSum):
    """AVG of an integer type: a numeric."""

    __slots__ = ()

    def result(self) -> Value:
        return numeric.divide(Decimal(self.sum), 0, self.count) if self.count else None


def not_finite(special: dict[str, int]) -> Value:
    """Returns the sum that NaN and infinities, by their numbers, decide; None without any."""
    up, down = special.get("Infinity", 0), special.get("-Infinity", 0)
    if special.get("NaN", 0) or (up and down):
        return "NaN"
    if up or down:
        return "Infinity" if up else "-Infinity"
    return None


class NumericSum:
    """SUM of numeric: sums by scale, and counts of NaN and the infinities."""

    __slots__ = ("by_scale", "special")
    recorded: tuple[str, ...] = ("by_scale", "special")
    width = 3
    grows = False

    def __init__(self) -> None:
        #: scale -> (count, sum); no count is zero.
        self.by_scale: dict[int, tuple[int, Decimal]] = {}
        #: NaN, Infinity, -Infinity -> count.
        self.special: dict[str, int] = {}

    def add(self, value: Value, times: int) -> None:
        self.add_partial(value, 1, times)

    def add_partial(self, value: Value, count: int, times: int) -> None:
        if value is None:
            return
        if value in SPECIAL:
            self.special[value] = self.special.get(value, 0) + count * times
        else:
            scale = numeric.scale_of(value)
            before, total = self.by_scale.get(scale, _NOTHING)
            if before + count * times:
                added = numeric.EXACT.fma(numeric.parse(value), times, total)
                self.by_scale[scale] = before + count * times, added
            else:
                self.by_scale.pop(scale, None)

    def merge(self, partial: Sequence[Value]) -> None:
        self.add_partial(partial[2], int(partial[1] or 0), 1)

    def count(self) -> int:
        """Non-NULL values."""
        return sum(c for c, _ in self.by_scale.values()) + sum(self.special.values())

    def not_finite(self) -> Value:
        """Returns the sum that NaN and infinities decide; None without any."""
        return not_finite(self.special)

    def total(self) -> Decimal:
        """The finite sum. Its scale is the largest one."""
        return reduce(numeric.EXACT.add, (total for _, total in self.by_scale.values()), Decimal(0))

    def state_bytes(self) -> int:
        return _FIXED + 2 * BUCKET_BYTES + 5 * NUMBER_BYTES

    def result(self) -> Value:
        if not self.count():
            return None
        return self.not_finite() or arithmetic.printed(self.total())


class NumericAverage(NumericSum):
    """AVG of numeric."""

    __slots__ = ()

    def result(self) -> Value:
        count = self.count()
        if not count:
            return None
        # The server makes a numeric of the sum first.
        return self.not_finite() or numeric.divide(arithmetic.fitting(self.total()), max(self.by_scale), count)


class FloatSum:
    """SUM of a float: exactly, in units of 2**-1074; NaN and the infinities are counted."""

    __slots__ = ("count", "negative_zeros", "special", "units")
    recorded: tuple[str, ...] = ("count", "negative_zeros", "special", "units")
    width = 2
    grows = False

    def __init__(self) -> None:
        #: Finite values.
        self.count = 0
        self.units = 0
        #: Values -0: a sum of nothing else is one.
        self.negative_zeros = 0
        #: NaN, Infinity, -Infinity -> count.
        self.special: dict[str, int] = {}

    def add(self, value: Value, times: int) -> None:
        self.add_partial(value, 1, times)

    def add_partial(self, value: Value, count: int, times: int) -> None:
        if value is None:
            return
        if value in SPECIAL:
            self.special[value] = self.special.get(value, 0) + count * times
        else:
            self.count += count * times
            self.negative_zeros += count * times * (value == "-0")
            self.units += self._units_of(value) * times

    def merge(self, partial: Sequence[Value]) -> None:
        if partial[0] is not None:
            self.add(partial[0], int(partial[1] or 0))

    def _units_of(self, text: str) -> int:
        return _units(float(text))

    def not_finite(self) -> Value:
        """Returns the sum that NaN and infinities decide; None without any."""
        return not_finite(self.special)

    def values(self) -> int:
        """Non-NULL values."""
        return self.count + sum(self.special.values())

    def zero(self) -> Value:
        """The sum of negative zeros only; None if there is another value."""
        return "-0" if self.count == self.negative_zeros else None

    def rounded(self, divisor: int) -> float:
        """The finite sum by `divisor`, rounded once."""
        try:
            # The sum itself must be in range, as in the upstream; Python divides integers with correct rounding.
            _ = self.units / (1 << _UNIT_BITS)
            return self.units / (divisor << _UNIT_BITS)
        except OverflowError:
            raise EvaluationError("value out of range: overflow") from None

    def state_bytes(self) -> int:
        return _FIXED + BUCKET_BYTES + NUMBER_BYTES + _UNIT_BITS // 6

    def result(self) -> Value:
        if not self.values():
            return None
        return self.not_finite() or self.zero() or printed(self.rounded(1), "float8")


class FloatAverage(FloatSum):
    """AVG of a double."""

    __slots__ = ()

    def result(self) -> Value:
        if not self.values():
            return None
        return self.not_finite() or printed(self.rounded(self.count), "float8")


class RealSum(FloatSum):
    """SUM of a real: a real."""

    __slots__ = ()

    def _units_of(self, text: str) -> int:
        return _units(float4(text))

    def result(self) -> Value:
        if not self.values():
            return None
        return self.not_finite() or self.zero() or printed(self._single(), "float4")

    def _single(self) -> float:
        try:
            single: float = struct.unpack(">f", struct.pack(">f", self.rounded(1)))[0]
        except OverflowError:
            raise EvaluationError("value out of range: overflow") from None
        return single


class RealAverage(FloatAverage):
    """AVG of a real: a double."""

    __slots__ = ()

    def _units_of(self, text: str) -> int:
        return _units(float4(text))


def _units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_UNIT_BITS + 1 - denominator.bit_length())


class IntervalSum:
    """SUM of intervals: months, days and microseconds each on their own; infinities are counted.

    The server adds values up as they come, and fails where a sum on the way is out of range. In which order it reads
    the rows is its business, so what could be out of range in any order is not computed.

    *State*: `_above` and `_below` are the sums of the positive and of the negative parts.
    """

    __slots__ = ("_above", "_below", "count", "special")
    recorded: tuple[str, ...] = ("_above", "_below", "count", "special")
    width = 2
    grows = False

    def __init__(self) -> None:
        #: Finite values.
        self.count = 0
        self._above = (0, 0, 0)
        self._below = (0, 0, 0)
        #: infinity, -infinity -> count.
        self.special: dict[str, int] = {}

    def add(self, value: Value, times: int) -> None:
        if value is None:
            return
        parts = interval_parts(value)
        if isinstance(parts, str):
            self.special[parts] = self.special.get(parts, 0) + times
            return
        self.count += times
        (m, d, u), (a, b, c), (x, y, z) = parts, self._above, self._below
        self._above = (a + max(m, 0) * times, b + max(d, 0) * times, c + max(u, 0) * times)
        self._below = (x + min(m, 0) * times, y + min(d, 0) * times, z + min(u, 0) * times)

    def merge(self, partial: Sequence[Value]) -> None:
        self.add(partial[0], int(partial[1] or 0))

    def state_bytes(self) -> int:
        return _FIXED + BUCKET_BYTES + 7 * NUMBER_BYTES

    def result(self) -> Value:
        up, down = self.special.get("infinity", 0), self.special.get("-infinity", 0)
        total = [above + below for above, below in zip(self._above, self._below, strict=True)]
        # The finite part must be in range even where an infinity decides.
        if not _fits(total, total) or (up and down):
            raise EvaluationError("interval out of range")
        if not _fits(self._below, self._above):
            raise EvaluationError("not computed: the order decides whether a sum of intervals is out of range")
        if self._above == _MOST or self._below == _LEAST:
            raise EvaluationError("not computed: the sum is infinity to newer servers and an interval to older ones")
        if up or down:
            return "infinity" if up else "-infinity"
        return interval_text(*total) if self.count else None


def _fits(lowest: Sequence[int], highest: Sequence[int]) -> bool:
    """Return whether parts from the lowest ones to the highest are those of intervals."""
    return all(
        least <= low and high <= most for least, low, high, most in zip(_LEAST, lowest, highest, _MOST, strict=True)
    )


class IntervalAverage(IntervalSum):
    """AVG of intervals."""

    __slots__ = ()

    def result(self) -> Value:
        total = IntervalSum.result(self)
        return None if total is None else over(total, str(self.count + sum(self.special.values())))


class Truths:
    """BOOL_AND and BOOL_OR: how many are TRUE and how many FALSE."""

    __slots__ = ("_all", "false", "true")
    recorded: tuple[str, ...] = ("false", "true")
    width = 2
    grows = False

    def __init__(self, of_all: bool) -> None:
        self.true = 0
        self.false = 0
        #: BOOL_AND; else BOOL_OR.
        self._all = of_all

    def add(self, value: Value, times: int) -> None:
        if value == "t":
            self.true += times
        elif value is not None:
            self.false += times

    def merge(self, partial: Sequence[Value]) -> None:
        self.true += int(partial[0] or 0)
        self.false += int(partial[1] or 0)

    def state_bytes(self) -> int:
        return _FIXED + 2 * NUMBER_BYTES

    def result(self) -> Value:
        if not self.true and not self.false:
            return None
        holds = not self.false if self._all else self.true > 0
        return "t" if holds else "f"
