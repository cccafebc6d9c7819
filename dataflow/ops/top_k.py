"""ORDER BY … LIMIT within a partition: its rows in order, and the first of them.

Where the order leaves a choice, the rows' texts decide: the answer is a function of the rows, not of their history.

Not here: which partitions there are and what is known of them (`partitions`).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from operator import itemgetter

from dataflow.errors import InvariantViolation
from dataflow.plan.nodes import OrderTerm, TopK, column_types
from dataflow.schema import SqlType
from dataflow.state.index import Bag
from dataflow.state.ordering import Ordering
from dataflow.types import Row

#: What a partition's rows become.
PartitionFunction = Callable[[Sequence[Row]], list[Row]]
#: A row's place in the order, then its texts.
Rank = tuple[bytes, tuple[tuple[bool, str], ...]]

_rank_of = itemgetter(0)


def rank_function(order: Sequence[OrderTerm], types: Sequence[SqlType]) -> Callable[[Row], Rank]:
    """A total order of rows that refines ORDER BY. ValueError if the order of a type is not known."""
    place = Ordering(order, types).place_of_row
    return lambda row: (place(row), tuple([(value is None, value or "") for value in row]))


class TopRows:
    """The compiled parts of a `TopK`, shared by its partitions."""

    __slots__ = ("limit", "offset", "rank", "with_ties")

    def __init__(self, top: TopK) -> None:
        """ValueError if the order of a type is not known."""
        self.rank = rank_function(top.order, column_types(top))
        self.limit = top.limit_rows
        self.offset = top.offset_rows
        self.with_ties = top.with_ties


class TopPartition:
    """One partition's rows in order: an inserted or deleted row costs its search, not a sort."""

    __slots__ = ("_ordered", "_top", "rows")

    def __init__(self, top: TopRows) -> None:
        self._top = top
        #: With their multiplicities; none is zero.
        self.rows: Bag = {}
        #: Ranks and rows, in order; those that are there once or more.
        self._ordered: list[tuple[Rank, Row]] = []

    def add(self, row: Row, times: int) -> None:
        """Adds a row, or takes it away."""
        before = self.rows.get(row, 0)
        after = before + times
        if after:
            self.rows[row] = after
        else:
            self.rows.pop(row, None)
        if before <= 0 < after:
            insort(self._ordered, (self._top.rank(row), row), key=_rank_of)
        elif after <= 0 < before:
            del self._ordered[bisect_left(self._ordered, self._top.rank(row), key=_rank_of)]

    def clear(self) -> None:
        """Takes all rows away."""
        self.rows = {}
        self._ordered = []

    def output(self) -> Bag:
        """The first rows, in order."""
        if len(self._ordered) != len(self.rows):
            raise InvariantViolation("a row's count in its partition is negative")
        kept: Bag = {}
        skipped, wanted = self._top.offset, self._top.limit
        last: bytes | None = None
        for rank, row in self._ordered:
            if wanted == 0 and (last is None or rank[0] != last):
                break
            there = self.rows[row]
            passed = min(skipped, there)
            skipped -= passed
            there -= passed
            taken = there if wanted is None or last is not None else min(there, wanted)
            if wanted:
                wanted -= taken
                if not wanted and self._top.with_ties:
                    # All that is in the last row's place comes too.
                    last, taken = rank[0], there
            if taken:
                kept[row] = taken
        return kept


def top_rows(top: TopK) -> PartitionFunction:
    """The function that keeps a partition's first rows. ValueError if the order of a type is not known."""
    common = TopRows(top)

    def kept(rows: Sequence[Row]) -> list[Row]:
        partition = TopPartition(common)
        for row in rows:
            partition.add(row, 1)
        return [row for row, times in partition.output().items() for _ in range(times)]

    return kept
