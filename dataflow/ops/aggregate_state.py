"""What an aggregate remembers of a group, per call: enough to take rows away again and print the upstream's very
answer.

All aggregates share one frame: an `Accumulator` adds a value so many times (negative: takes it away), merges the
partial columns of a looked-up *state row*, and prints its result. A new aggregate is a new class here, a line in
`ACCUMULATORS` and its partial columns in `plan.lookup`.

State rows, as `plan.lookup` asks the upstream for them, of an aggregate over a chain. Behind the group columns
come, per call:

=========================  ===================================  =====================================
call                       partial columns                      grouped by, beside the group columns
=========================  ===================================  =====================================
``count(*)``               count                                --
``count(x)``               count of x                           --
sum, avg of an integer     count of x, sum of x                 --
sum, avg of numeric        class, count of x, sum of x          class (scale, or NaN and infinities)
min, max                   x, count of x                        x, by its text
=========================  ===================================  =====================================

Group columns whose equal values can differ in text are grouped by that text too (`aggregate.Group.texts`).
The last column of a state row is always the number of rows. A numeric's sum prints with the largest scale of its
inputs, so sums are kept by scale: taking the last value of that scale away makes the scale smaller, as in the
upstream.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from dataflow.errors import EvaluationError, InvariantViolation
from dataflow.ops import numeric
from dataflow.plan.nodes import AggregateCall, AggregateFunction
from dataflow.schema import SqlType
from dataflow.types import Value
from dataflow.values import order_form

_SPECIAL = ("NaN", "Infinity", "-Infinity")
_INTEGERS = {"int2", "int4", "int8"}
_INT8_MAX = 2**63 - 1


class Accumulator(Protocol):
    """One aggregate's state for one group."""

    #: How many partial columns it has in a state row.
    width: int

    def add(self, value: Value, times: int) -> None:
        """Adds `value` `times` times, or takes it away if negative."""
        ...

    def add_partial(self, value: Value, count: int, times: int) -> None:
        """Adds a partial sum of `count` non-NULL values, `times` times."""
        ...

    def merge(self, partial: Sequence[Value]) -> None:
        """Adds the partial columns of a state row."""
        ...

    def result(self) -> Value:
        """The aggregate, as the upstream prints it."""
        ...


class CountRows:
    """COUNT(*)."""

    __slots__ = ("count",)
    width = 1

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

    def result(self) -> Value:
        return str(self.count)


class CountValues(CountRows):
    """COUNT(x): the non-NULL ones."""

    __slots__ = ()

    def add(self, value: Value, times: int) -> None:
        if value is not None:
            self.count += times


class IntegerSum:
    """SUM of an integer type."""

    __slots__ = ("count", "sum")
    width = 2

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

    def result(self) -> Value:
        return str(self.sum) if self.count else None


class BigintSum(IntegerSum):
    """SUM of smallint or integer: a bigint, which can overflow."""

    __slots__ = ()

    def result(self) -> Value:
        if abs(self.sum) > _INT8_MAX:
            raise EvaluationError("bigint out of range in SUM")
        return IntegerSum.result(self)


class IntegerAverage(IntegerSum):
    """AVG of an integer type: a numeric."""

    __slots__ = ()

    def result(self) -> Value:
        return numeric.divide(self.sum, 0, self.count) if self.count else None


class NumericSum:
    """SUM of numeric: sums by scale, and counts of NaN and the infinities."""

    __slots__ = ("by_scale", "special")
    width = 3

    def __init__(self) -> None:
        #: scale -> [count, unscaled sum]; no count is zero.
        self.by_scale: dict[int, list[int]] = {}
        #: NaN, Infinity, -Infinity -> count.
        self.special: dict[str, int] = {}

    def add(self, value: Value, times: int) -> None:
        self.add_partial(value, 1, times)

    def add_partial(self, value: Value, count: int, times: int) -> None:
        if value is None:
            return
        if value in _SPECIAL:
            self.special[value] = self.special.get(value, 0) + count * times
        else:
            unscaled, scale = numeric.parse(value)
            self._add(scale, count * times, unscaled * times)

    def merge(self, partial: Sequence[Value]) -> None:
        self.add_partial(partial[2], int(partial[1] or 0), 1)

    def _add(self, scale: int, count: int, unscaled: int) -> None:
        entry = self.by_scale.setdefault(scale, [0, 0])
        entry[0] += count
        entry[1] += unscaled
        if not entry[0]:
            del self.by_scale[scale]

    def count(self) -> int:
        """Non-NULL values."""
        return sum(c for c, _ in self.by_scale.values()) + sum(self.special.values())

    def not_finite(self) -> Value:
        """What NaN and infinities make of the sum; None if there are none."""
        up, down = self.special.get("Infinity", 0), self.special.get("-Infinity", 0)
        if self.special.get("NaN", 0) or (up and down):
            return "NaN"
        if up or down:
            return "Infinity" if up else "-Infinity"
        return None

    def total(self) -> tuple[int, int]:
        """The finite sum as (unscaled, scale)."""
        scale = max(self.by_scale, default=0)
        return sum(total * 10 ** (scale - s) for s, (_, total) in self.by_scale.items()), scale

    def result(self) -> Value:
        if not self.count():
            return None
        return self.not_finite() or numeric.render(*self.total())


class NumericAverage(NumericSum):
    """AVG of numeric."""

    __slots__ = ()

    def result(self) -> Value:
        count = self.count()
        if not count:
            return None
        return self.not_finite() or numeric.divide(*self.total(), count)


class Extreme:
    """MIN or MAX: a histogram of values, so that taking the extreme one away finds the next."""

    __slots__ = ("_best", "_rank", "_stale", "_upwards", "values")
    width = 2

    def __init__(self, rank: Callable[[str], bytes], upwards: bool) -> None:
        #: value -> count; no count is zero.
        self.values: dict[str, int] = {}
        self._rank = rank
        self._upwards = upwards
        self._best: Value = None
        self._stale = False

    def add(self, value: Value, times: int) -> None:
        if value is None:
            return
        count = self.values.get(value, 0) + times
        if count:
            self.values[value] = count
            if times > 0 and not self._stale:
                self._improve(value)
        else:
            self.values.pop(value, None)
            self._stale = self._stale or value == self._best

    def add_partial(self, value: Value, count: int, times: int) -> None:
        del count
        self.add(value, times)

    def merge(self, partial: Sequence[Value]) -> None:
        self.add(partial[0], int(partial[1] or 0))

    def _improve(self, value: str) -> None:
        if self._best is None or (self._rank(value) > self._rank(self._best)) == self._upwards:
            self._best = value

    def result(self) -> Value:
        if self._stale:
            choose = max if self._upwards else min
            self._best = choose(self.values, key=self._rank, default=None)
            self._stale = False
        if self._best is not None and self._best not in self.values:
            raise InvariantViolation(f"extreme {self._best} is not among the values")
        return self._best


def accumulator_factory(call: AggregateCall, argument: SqlType | None) -> Callable[[], Accumulator]:
    """A function that makes an empty accumulator for `call`, whose argument is of type `argument`."""
    if call.function is AggregateFunction.COUNT_ROWS:
        return CountRows
    if call.function is AggregateFunction.COUNT:
        return CountValues
    if argument is None:
        raise ValueError(f"{call.function} needs an argument")
    if call.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        rank = order_form(argument)
        upwards = call.function is AggregateFunction.MAX
        return lambda: Extreme(rank, upwards)
    if argument.name in _INTEGERS:
        if call.function is AggregateFunction.AVG:
            return IntegerAverage
        return BigintSum if call.type.name == "int8" else IntegerSum
    return NumericAverage if call.function is AggregateFunction.AVG else NumericSum
