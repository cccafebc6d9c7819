"""The state of MIN, MAX and the DISTINCT forms of COUNT, SUM and AVG: a histogram of the values, by their texts.

Not here: lists of values (`aggregate_lists`).
"""

from collections.abc import Callable, Sequence
from sys import getsizeof

from dataflow.errors import InvariantViolation
from dataflow.ops.aggregate_accumulator import Accumulator
from dataflow.sizing import BUCKET_BYTES, TEXT_BYTES
from dataflow.types import Value

#: About what an accumulator's object takes.
_FIXED = 96


class Extreme:
    """MIN or MAX: a histogram of values, so that taking the extreme one away finds the next."""

    __slots__ = ("_best", "_length", "_rank", "_stale", "_upwards", "values")
    recorded: tuple[str, ...] = ("values", "_length", "_best", "_stale")
    width = 2
    grows = True

    def __init__(self, rank: Callable[[str], bytes], upwards: bool) -> None:
        #: value -> count; no count is zero.
        self.values: dict[str, int] = {}
        #: Characters of the values.
        self._length = 0
        self._rank = rank
        self._upwards = upwards
        self._best: Value = None
        self._stale = False

    def add(self, value: Value, times: int) -> None:
        if value is None:
            return
        before = self.values.get(value, 0)
        count = before + times
        if count:
            self.values[value] = count
            if not before:
                self._length += len(value)
            if times > 0 and not self._stale:
                self._improve(value)
        elif before:
            del self.values[value]
            self._length -= len(value)
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
            raise InvariantViolation(f"the extreme {self._best} is not one of the values")
        return self._best

    def state_bytes(self) -> int:
        return _histogram_bytes(self.values, self._length)


class Distinct:
    """Another aggregate over each value once. Of equal values with several texts, one that is there is used."""

    __slots__ = ("_form", "_inner", "_length", "_texts", "values")
    recorded: tuple[str, ...] = ("values", "_length", "_texts", "_inner")
    width = 2
    grows = True

    def __init__(self, inner: Accumulator, form: Callable[[str], str] | None) -> None:
        #: text -> count; no count is zero.
        self.values: dict[str, int] = {}
        #: Characters of the values.
        self._length = 0
        self._inner = inner
        self._form = form
        #: Where equal values can have several texts: normal form -> the texts that are there, the first in use.
        self._texts: dict[str, dict[str, None]] = {}

    def add(self, value: Value, times: int) -> None:
        if value is None:
            return
        before = self.values.get(value, 0)
        after = before + times
        if after:
            self.values[value] = after
        else:
            self.values.pop(value, None)
        self._length += len(value) * (bool(after) - bool(before))
        if before <= 0 < after:
            self._appeared(value)
        elif after <= 0 < before:
            self._vanished(value)

    def merge(self, partial: Sequence[Value]) -> None:
        self.add(partial[0], int(partial[1] or 0))

    def _appeared(self, value: str) -> None:
        if self._form is None:
            self._inner.add(value, 1)
            return
        texts = self._texts.setdefault(self._form(value), {})
        if not texts:
            self._inner.add(value, 1)
        texts[value] = None

    def _vanished(self, value: str) -> None:
        if self._form is None:
            self._inner.add(value, -1)
            return
        form = self._form(value)
        texts = self._texts[form]
        used = next(iter(texts))
        del texts[value]
        if value == used:
            self._inner.add(value, -1)
            if texts:
                self._inner.add(next(iter(texts)), 1)
        if not texts:
            del self._texts[form]

    def result(self) -> Value:
        return self._inner.result()

    def state_bytes(self) -> int:
        texts = 0
        if self._texts:
            texts = getsizeof(self._texts) + len(self._texts) * (BUCKET_BYTES + TEXT_BYTES) + self._length
        return _histogram_bytes(self.values, self._length) + texts + self._inner.state_bytes()


def _histogram_bytes(values: dict[str, int], length: int) -> int:
    """A histogram of texts, in an object."""
    return _FIXED + getsizeof(values) + TEXT_BYTES * len(values) + length
