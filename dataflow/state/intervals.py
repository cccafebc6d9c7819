"""Covered intervals of keys: ordered coverage.

A key that is covered in part has some intervals of its rows' order for which all rows are known. Hash coverage
(`coverage`) is the special case that there is one interval, the whole.

*Invariants*: a key's intervals are disjoint, ascending and not adjacent; none is empty.

Not here: cuts and places (`ordering`), what to do about a gap (`engine.upquery`).
"""

from bisect import bisect_right
from collections.abc import Sequence
from sys import getsizeof
from typing import NamedTuple

from dataflow.plan.nodes import OrderTerm
from dataflow.plan.parts import END, START, WHOLE, Cut, Interval
from dataflow.state.coverage import Coverage
from dataflow.state.ordering import Ordering
from dataflow.types import Columns, Key, Row


class OrderedCover(NamedTuple):
    """Names an ordered coverage of a node: the key's columns, and the order of the rows under a key."""

    columns: Columns
    order: tuple[OrderTerm, ...]


#: Names a coverage of a node: keys on columns that are covered whole, or in part.
Cover = Columns | OrderedCover


class Intervals:
    """The covered intervals of one key."""

    __slots__ = ("_ends", "_starts", "cuts")

    def __init__(self) -> None:
        self.cuts: list[Interval] = []
        #: Places of the starts and ends; None is behind everything.
        self._starts: list[bytes] = []
        self._ends: list[bytes | None] = []

    @property
    def whole(self) -> bool:
        """True if everything is covered."""
        return self.cuts == [WHOLE]

    def contains(self, place: bytes) -> bool:
        """Return whether a row at `place` is in a covered interval."""
        return self._at(place) is not None

    def at(self, place: bytes) -> Interval | None:
        """The interval that `place` is in."""
        i = self._at(place)
        return None if i is None else self.cuts[i]

    def _at(self, place: bytes) -> int | None:
        i = bisect_right(self._starts, place) - 1
        if i < 0:
            return None
        end = self._ends[i]
        return i if end is None or place < end else None

    def add(self, interval: Interval, ordering: Ordering) -> None:
        """Covers `interval` too; it may overlap others."""
        start, end = ordering.place(interval.start), ordering.place(interval.end)
        if start is None or (end is not None and start >= end):
            return
        first, last = interval
        kept: list[tuple[bytes, bytes | None, Interval]] = []
        for i, cut in enumerate(self.cuts):
            own_start, own_end = self._starts[i], self._ends[i]
            if (own_end is not None and own_end < start) or (end is not None and end < own_start):
                kept.append((own_start, own_end, cut))
                continue
            if own_start < start:
                start, first = own_start, cut.start
            if own_end is None or (end is not None and own_end > end):
                end, last = own_end, cut.end
        merged = Interval(START if not start else first, END if end is None else last)
        kept.append((start, end, merged))
        kept.sort(key=lambda entry: entry[0])
        self._starts = [entry[0] for entry in kept]
        self._ends = [entry[1] for entry in kept]
        self.cuts = [entry[2] for entry in kept]

    def gaps(self, interval: Interval, ordering: Ordering) -> list[Interval]:
        """The parts of `interval` that are not covered, ascending."""
        gaps: list[Interval] = []
        position, place = interval.start, ordering.place(interval.start)
        end = ordering.place(interval.end)
        for i, cut in enumerate(self.cuts):
            own_end = self._ends[i]
            if place is None or (end is not None and self._starts[i] >= end):
                break
            if own_end is not None and own_end <= place:
                continue
            if self._starts[i] > place:
                gaps.append(Interval(position, cut.start))
            position, place = cut.end, own_end
        if place is not None and (end is None or place < end):
            gaps.append(Interval(position, interval.end))
        return gaps

    def next_start(self, cut: Cut, ordering: Ordering) -> Cut:
        """Returns the start of the first interval that begins behind `cut`, or END."""
        place = ordering.place(cut)
        if place is None:
            return END
        i = bisect_right(self._starts, place)
        return self.cuts[i].start if i < len(self.cuts) else END


_NOTHING = Intervals()
#: What a key's intervals take, and each of them; less for the first, which often begins at the very start.
_INTERVALS_BYTES, _INTERVAL_BYTES = 90, 600


class OrderedCoverage(Coverage):
    """Keys of which some intervals, or the whole, are covered.

    *Maintains*: `intervals` has exactly the keys that are not covered whole.
    """

    __slots__ = ("_cuts", "intervals", "ordering")

    def __init__(self, columns: Columns, ordering: Ordering) -> None:
        super().__init__(columns)
        self.ordering = ordering
        #: Of the keys that are covered in part. Most are covered whole, which needs no list of intervals.
        self.intervals: dict[Key, Intervals] = {}
        #: The number of these intervals.
        self._cuts = 0

    def add(self, key: Key) -> None:
        """Covers `key` whole."""
        if key not in self.keys:
            super().add(key)
        self._forget(key)

    def extend(self, key: Key, interval: Interval) -> None:
        """Covers an interval of `key` too."""
        if interval == WHOLE:
            self.add(key)
            return
        if key not in self.keys:
            super().add(key)
            self.intervals[key] = Intervals()
        intervals = self.intervals.get(key)
        if intervals is None:
            return
        before = len(intervals.cuts)
        intervals.add(interval, self.ordering)
        self._cuts += len(intervals.cuts) - before
        if intervals.whole:
            self._forget(key)

    def restore_parts(
        self, keys: Sequence[Key], sizes: Sequence[int], parts: Sequence[Sequence[Interval] | None]
    ) -> None:
        """Does as `restore`; the intervals of keys that are covered in part are `parts`."""
        self.restore(keys, sizes)
        for key, intervals in zip(keys, parts, strict=True):
            if intervals is not None:
                self.intervals[key] = Intervals()
                for interval in intervals:
                    self.extend(key, interval)

    def discard(self, key: Key) -> None:
        """Makes all of `key` a hole."""
        super().discard(key)
        self._forget(key)

    def _forget(self, key: Key) -> None:
        gone = self.intervals.pop(key, None)
        if gone is not None:
            self._cuts -= len(gone.cuts)

    def state_bytes(self) -> int:
        parts = _INTERVALS_BYTES * len(self.intervals) + _INTERVAL_BYTES * self._cuts
        return super().state_bytes() + getsizeof(self.intervals) + parts

    def covered(self, key: Key) -> tuple[Interval, ...]:
        intervals = self.intervals.get(key)
        return (WHOLE,) if intervals is None else tuple(intervals.cuts)

    def whole(self, key: Key) -> bool:
        """Return whether all of `key` is covered."""
        return key in self.keys and key not in self.intervals

    def contains(self, key: Key, place: bytes) -> bool:
        """Return whether `place` is in an interval of `key` that is covered."""
        if key not in self.keys:
            return False
        intervals = self.intervals.get(key)
        return intervals is None or intervals.contains(place)

    def holds(self, key: Key, row: Row) -> bool:
        """Return whether `row`, which is under `key`, is in a covered interval."""
        if key not in self.keys:
            return False
        intervals = self.intervals.get(key)
        return intervals is None or intervals.contains(self.ordering.place_of_row(row))

    def gaps(self, key: Key, interval: Interval) -> list[Interval]:
        """The parts of an interval of `key` that are not covered."""
        if self.whole(key):
            return []
        return self.intervals.get(key, _NOTHING).gaps(interval, self.ordering)

    def reaching(self, key: Key, start: Cut) -> Cut | None:
        """How far `key` is covered without a gap from `start` on; None if it is not covered there."""
        place = self.ordering.place(start)
        if place is None or self.whole(key):
            return END
        found = self.intervals.get(key, _NOTHING).at(place)
        return None if found is None else found.end

    def next_start(self, key: Key, cut: Cut) -> Cut:
        """Returns the start of the next covered interval of `key` behind `cut`, or END."""
        return self.intervals.get(key, _NOTHING).next_start(cut, self.ordering)

    def beyond(self, a: Cut, b: Cut) -> bool:
        """Return whether cut `a` is further than cut `b`."""
        place_a, place_b = self.ordering.place(a), self.ordering.place(b)
        return place_b is not None and (place_a is None or place_a > place_b)
