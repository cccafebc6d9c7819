"""ORDER BY … LIMIT within a partition: a function from a partition's rows to those that are kept.

Where the order leaves a choice, the rows' texts decide: the answer is a function of the rows, not of their history.

Not here: which partitions there are and what is known of them (`partitioned`).
"""

from collections.abc import Callable, Sequence

from dataflow.plan.nodes import OrderTerm, TopK, column_types
from dataflow.schema import SqlType
from dataflow.state.ordering import Ordering
from dataflow.types import Row

#: What a partition's rows become.
PartitionFunction = Callable[[Sequence[Row]], list[Row]]
#: Sorts rows: by the order's place, then by their texts.
Rank = Callable[[Row], tuple[bytes, tuple[tuple[bool, str], ...]]]


def rank_function(order: Sequence[OrderTerm], types: Sequence[SqlType]) -> Rank:
    """A total order of rows that refines ORDER BY. ValueError if the order of a type is not known."""
    place = Ordering(order, types).place_of_row
    return lambda row: (place(row), tuple([(value is None, value or "") for value in row]))


def top_rows(top: TopK) -> PartitionFunction:
    """The function that keeps a partition's first rows. ValueError if the order of a type is not known."""
    rank = rank_function(top.order, column_types(top))
    start, limit = top.offset_rows, top.limit_rows
    end = None if limit is None else start + limit

    def kept(rows: Sequence[Row]) -> list[Row]:
        ordered = sorted(rows, key=rank)
        if end is None or not top.with_ties or not limit or end >= len(ordered):
            return ordered[start:end]
        last = end
        place = rank(ordered[last - 1])[0]
        while last < len(ordered) and rank(ordered[last])[0] == place:
            last += 1
        return ordered[start:last]

    return kept
