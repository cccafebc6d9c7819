"""Parts of keys: how a leaf's covered intervals grow.

A part is fetched by a lookup that is told the order, where to begin and how many rows to give; what it gave is covered
as far as the last row, ties included. A leaf over a block is extended along its ordered route: first the driving
input's interval, then the keys that its rows look up.

*Invariants*: a leaf's rows are known exactly for its covered intervals; what a covered interval's rows look up on the
ordered route is covered (I3).

Not here: intervals as such (`state.intervals`), whole keys (`upquery`), installing a part's rows (`installation`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.effects import Effect, LeafExtend
from dataflow.engine.events import Ahead, Extent
from dataflow.engine.key_sizes import KeySizes
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import RouteUse, Store, Stored
from dataflow.plan.parts import END, Cut, Interval, Part
from dataflow.sizing import sampled_bytes
from dataflow.state.intervals import OrderedCover, OrderedCoverage
from dataflow.types import Columns, Key, Row


@dataclass(frozen=True, slots=True)
class Beyond:
    """Coverage without a gap from `start` on, further than `base` (None: that begins at all), by about `rows` rows."""

    start: Cut
    base: Cut | None
    rows: int


#: What a demand wants of a key: an interval, or more than there is.
Goal = Interval | Beyond


def goal_of(leaf: Leaf, key: Key, extent: Extent) -> Goal | None:
    """Translates a read's extent, given what is covered when the read comes; None is the whole key."""
    if leaf.ordered is None or extent is None:
        return None
    if isinstance(extent, Ahead):
        return Beyond(extent.start, _coverage(leaf).reaching(key, extent.start), max(extent.rows, 1))
    return extent


class KeyUpqueries(Protocol):
    """Part of `upquery.Upqueries` that extensions use."""

    def ensure(self, node: Stored, columns: Columns, key: Key) -> bool:
        """Return whether a whole key is covered now; if not, the flights it needs are noted."""
        ...

    def want(self, node: Stored, columns: Columns, key: Key, part: Part | None = None) -> None:
        """A lookup is needed."""
        ...

    def complete(self, use: RouteUse, driving: Mapping[Row, int]) -> list[Row] | None:
        """The block's rows that come of rows of its driving input; None if a lookup on the way is not covered."""
        ...

    def extended(self, leaf: Leaf, key: Key, rows: list[Row]) -> None:
        """A leaf's key has these rows more."""
        ...

    def refuse(self, node: Stored, columns: Columns, key: Key) -> None:
        """A key has more rows than may be stored."""
        ...


class Extensions:
    """Extends covered intervals of leaves."""

    def __init__(self, upqueries: KeyUpqueries, effects: Callable[[Effect], None]) -> None:
        self._upqueries = upqueries
        self._emit = effects

    def ensure(self, leaf: Leaf, key: Key, goal: Goal) -> bool:
        """Return whether the goal is met now; if not, the flights it needs are noted."""
        if self._met(leaf, key, goal):
            return True
        use = self._use(leaf)
        if use is None:
            for gap, rows in self._gaps(_coverage(leaf), key, goal):
                self._upqueries.want(leaf, leaf.coverage.columns, key, _part(_cover(leaf), gap, rows))
            return False
        grown = True
        while grown and not self._met(leaf, key, goal):
            gaps = self._gaps(_coverage(leaf), key, goal)
            extended = [self._extend(leaf, use, key, gap, rows) for gap, rows in gaps]
            grown = any(extended)
        return self._met(leaf, key, goal)

    def install(self, leaf: Leaf, key: Key, interval: Interval, rows: list[Row]) -> bool:
        """Covers an interval of a leaf's key, whose rows are exactly `rows` now; some may be covered already. False if
        the key may not have so many."""
        coverage = _coverage(leaf)
        new = [row for row in rows if not coverage.holds(key, row)]
        if leaf.sizes is not None and not _holds(leaf.sizes, coverage, key, new):
            self._upqueries.refuse(leaf, coverage.columns, key)
            return False
        coverage.extend(key, interval)
        self._upqueries.extended(leaf, key, new)
        self._emit(LeafExtend(leaf.view_id, key, new, coverage.covered(key)))
        return True

    @staticmethod
    def _use(leaf: Leaf) -> RouteUse | None:
        return None if isinstance(leaf.source, ChainNode) else leaf.uses[_cover(leaf)]

    @staticmethod
    def _met(leaf: Leaf, key: Key, goal: Goal) -> bool:
        coverage = _coverage(leaf)
        if isinstance(goal, Interval):
            return not coverage.gaps(key, goal)
        reached = coverage.reaching(key, goal.start)
        if reached is None:
            return False
        return reached == END or goal.base is None or coverage.beyond(reached, goal.base)

    @staticmethod
    def _gaps(coverage: OrderedCoverage, key: Key, goal: Goal) -> list[tuple[Interval, int | None]]:
        """Intervals to fetch, and how many rows of each."""
        if isinstance(goal, Interval):
            return [(gap, None) for gap in coverage.gaps(key, goal)]
        start = coverage.reaching(key, goal.start) or goal.start
        return [(Interval(start, coverage.next_start(key, start)), goal.rows)]

    # Over a block

    def _extend(self, leaf: Leaf, use: RouteUse, key: Key, gap: Interval, rows: int | None) -> bool:
        """Covers a gap of the leaf as far as the driving input is covered there, or notes what is needed for that.
        Whether the leaf has grown."""
        cover, route = use.covers[0], use.route
        driver = use.block.inputs[route.driver]
        assert isinstance(cover, OrderedCover)
        assert isinstance(driver, Store)
        part = tuple(key[p] for p in route.key_positions)
        coverage = driver.materialization.ordered[cover]
        if driver.knows_whole(cover.columns, part):
            coverage.add(part)
        reached = coverage.reaching(part, gap.start)
        if reached is None:
            wanted = Interval(gap.start, _nearer(coverage, coverage.next_start(part, gap.start), gap.end))
            self._upqueries.want(driver, cover.columns, part, _part(cover, wanted, rows))
            return False
        interval = Interval(gap.start, _nearer(coverage, reached, gap.end))
        driving = _within(driver, cover, part, interval)
        found = self._upqueries.complete(use, driving)
        if found is None:
            return False
        return self.install(leaf, key, interval, found)


def _holds(sizes: KeySizes, coverage: OrderedCoverage, key: Key, more: list[Row]) -> bool:
    """Return whether a key may have these rows beside those that it has."""
    size_bytes = coverage.keys.get(key, 0) + sampled_bytes(more)
    return sizes.limits.hold(sizes.rows.get(key, 0) + len(more), size_bytes)


def _cover(leaf: Leaf) -> OrderedCover:
    assert leaf.ordered is not None
    return leaf.ordered


def _coverage(leaf: Leaf) -> OrderedCoverage:
    assert isinstance(leaf.coverage, OrderedCoverage)
    return leaf.coverage


def _part(cover: OrderedCover, interval: Interval, rows: int | None) -> Part:
    return Part(cover.order, interval.start, interval.end, rows)


def _nearer(coverage: OrderedCoverage, a: Cut, b: Cut) -> Cut:
    return b if coverage.beyond(a, b) else a


def _within(driver: Store, cover: OrderedCover, key: Key, interval: Interval) -> dict[Row, int]:
    """Known rows of a key that are in an interval."""
    ordering = driver.materialization.ordered[cover].ordering
    start, end = ordering.place(interval.start), ordering.place(interval.end)
    found: dict[Row, int] = {}
    for row, times in driver.materialization.indexes[cover.columns].get(key).items():
        place = ordering.place_of_row(row)
        if start is not None and start <= place and (end is None or place < end):
            found[row] = times
    return found
