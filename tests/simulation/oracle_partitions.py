"""What window functions and ORDER BY … LIMIT make of a partition, computed anew from all its rows.

Where an order leaves a choice, any answer is right; the engine takes the rows' texts, and so does the oracle.
"""

from collections.abc import Sequence
from functools import cmp_to_key

from dataflow.plan.nodes import (
    AggregateCall,
    AggregateFunction,
    CallOrder,
    Frame,
    FrameMode,
    OrderTerm,
    TopK,
    Window,
    WindowCall,
)
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.types import Key, Row, Value
from tests.simulation.oracle_aggregates import CompiledCall, compare_values
from tests.simulation.oracle_values import compile_scalar, normals_of


class Partition:
    """PARTITION BY."""

    def __init__(self, relation: Window | TopK) -> None:
        self.columns = relation.partition
        self.normals = normals_of(relation.input, relation.partition)

    def split(self, rows: Sequence[Row]) -> list[list[Row]]:
        """The rows of each partition."""
        found: dict[Key, list[Row]] = {}
        for row in rows:
            key = tuple([n(row[c]) for c, n in zip(self.columns, self.normals, strict=True)])
            found.setdefault(key, []).append(row)
        return list(found.values())


class RowOrder:
    """ORDER BY."""

    def __init__(self, order: Sequence[OrderTerm], types: Sequence[SqlType]) -> None:
        self.terms = [
            (t.column, CallOrder(ColumnRef(t.column, types[t.column]), t.descending, t.nulls_first)) for t in order
        ]

    def compare(self, a: Row, b: Row) -> int:
        """By the terms alone."""
        for column, term in self.terms:
            if result := compare_values(a[column], b[column], term):
                return result
        return 0

    def ties(self, a: Row, b: Row) -> bool:
        """Whether the order leaves a choice between them."""
        return self.compare(a, b) == 0

    def places(self, rows: Sequence[Row]) -> list[int]:
        """Where the rows stand, in order; ties by their texts."""
        by_text = sorted(range(len(rows)), key=lambda i: [(value is None, value or "") for value in rows[i]])

        def compare(i: int, j: int) -> int:
            return self.compare(rows[i], rows[j])

        return sorted(by_text, key=cmp_to_key(compare))


class CompiledWindowCall:
    """One window function."""

    def __init__(self, call: WindowCall, types: Sequence[SqlType]) -> None:
        self.call = call
        self.order = RowOrder(call.order, types)
        self.arguments = [compile_scalar(a) for a in call.arguments]
        name = "count(*)" if call.function == "count" and not call.arguments else call.function
        self.aggregate = None
        if name in set(AggregateFunction):
            argument = call.arguments[0] if call.arguments else None
            self.aggregate = CompiledCall(AggregateCall(AggregateFunction(name), argument, call.type, keeps=call.keeps))

    def evaluate(self, rows: Sequence[Row]) -> list[Value]:
        """The function's value for each of the partition's rows, in their order."""
        places = self.order.places(rows)
        ordered = [rows[place] for place in places]
        values: list[Value] = [None] * len(rows)
        for at, place in enumerate(places):
            values[place] = self.value(ordered, at)
        return values

    def value(self, rows: list[Row], at: int) -> Value:
        """The function's value for one row of the ordered partition."""
        peers = [i for i, row in enumerate(rows) if self.order.ties(row, rows[at])]
        if self.call.function == "row_number":
            return str(at + 1)
        if self.call.function == "rank":
            return str(peers[0] + 1)
        if self.call.function == "dense_rank":
            return str(1 + sum(not self.order.ties(rows[i], rows[i + 1]) for i in range(peers[0])))
        if self.call.function in ("lag", "lead"):
            other = at + (-1 if self.call.function == "lag" else 1)
            return self.arguments[0](rows[other]) if 0 <= other < len(rows) else None
        frame = self.frame(rows, at, peers, self.call.frame)
        if self.call.function == "first_value":
            return self.arguments[0](frame[0]) if frame else None
        assert self.aggregate is not None
        return self.aggregate.evaluate(frame)

    def frame(self, rows: list[Row], at: int, peers: list[int], frame: Frame) -> list[Row]:
        """The rows of a row's frame: ROWS, or RANGE from and to UNBOUNDED or the current row."""
        first, last = at, at
        if frame.mode is not FrameMode.ROWS:
            first, last = peers[0], peers[-1]
        start = 0 if frame.start is None else first + frame.start
        end = len(rows) if frame.end is None else last + frame.end + 1
        return rows[max(start, 0) : max(end, 0)]
