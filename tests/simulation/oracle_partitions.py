"""Window functions and ORDER BY … LIMIT, computed anew from all rows of a partition.

Where an order leaves a choice, any answer is right; the engine takes the rows' texts, and so does the oracle.
"""

from collections.abc import Sequence
from functools import cmp_to_key
from itertools import pairwise

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
        """Return whether the order leaves a choice between them."""
        return self.compare(a, b) == 0

    def places(self, rows: Sequence[Row]) -> list[int]:
        """Return the rows' places in the order; ties by their texts."""
        by_text = sorted(range(len(rows)), key=lambda i: [(value is None, value or "") for value in rows[i]])

        def compare(i: int, j: int) -> int:
            return self.compare(rows[i], rows[j])

        return sorted(by_text, key=cmp_to_key(compare))


def float_text(value: float) -> str:
    """A number between 0 and 1 as the upstream prints it."""
    return str(value).removesuffix(".0")


class CompiledWindowCall:
    """One window function."""

    def __init__(self, call: WindowCall, types: Sequence[SqlType]) -> None:
        self.call = call
        self.order = RowOrder(call.order, types)
        self.arguments = [compile_scalar(a) for a in call.arguments]
        name = "count(*)" if call.function == "count" and not call.arguments else call.function
        self.aggregate = None
        if name in set(AggregateFunction):
            argument, others = (call.arguments[0], call.arguments[1:]) if call.arguments else (None, ())
            self.aggregate = CompiledCall(
                AggregateCall(AggregateFunction(name), argument, call.type, others=others, keeps=call.keeps)
            )

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
        if self.call.function == "cume_dist":
            return float_text((peers[-1] + 1) / len(rows))
        if self.call.function == "percent_rank":
            return float_text(peers[0] / (len(rows) - 1)) if len(rows) > 1 else "0"
        if self.call.function == "ntile":
            return self.bucket(rows, at)
        if self.call.function in ("lag", "lead"):
            return self.other_row(rows, at)
        frame = self.frame(rows, at, peers, self.call.frame)
        if self.aggregate is not None:
            return self.aggregate.evaluate(frame)
        place = {"first_value": 0, "last_value": len(frame) - 1}.get(self.call.function)
        if place is None:
            place = int(self.arguments[1](rows[at]) or 0) - 1
        return self.arguments[0](frame[place]) if 0 <= place < len(frame) else None

    def bucket(self, rows: list[Row], at: int) -> Value:
        """NTILE: as many buckets, the first ones one row larger where it does not come out even."""
        buckets = int(self.arguments[0](rows[at]) or 1)
        sizes = [len(rows) // buckets + (i < len(rows) % buckets) for i in range(buckets)]
        return str(next(i for i in range(1, buckets + 1) if at < sum(sizes[:i])))

    def other_row(self, rows: list[Row], at: int) -> Value:
        """LAG and LEAD."""
        value, *others = self.arguments
        steps = others[0](rows[at]) if others else "1"
        if steps is None:
            return None
        other = at + int(steps) * (-1 if self.call.function == "lag" else 1)
        if 0 <= other < len(rows):
            return value(rows[other])
        return others[1](rows[at]) if len(others) > 1 else None

    def frame(self, rows: list[Row], at: int, peers: list[int], frame: Frame) -> list[Row]:
        """The rows of a row's frame: ROWS and GROUPS by distance, RANGE from and to UNBOUNDED or the current row."""
        if frame.mode is FrameMode.GROUPS:
            return self.groups_frame(rows, at, frame)
        first, last = at, at
        if frame.mode is not FrameMode.ROWS:
            first, last = peers[0], peers[-1]
        start = 0 if frame.start is None else first + frame.start
        end = len(rows) if frame.end is None else last + frame.end + 1
        return rows[max(start, 0) : max(end, 0)]

    def groups_frame(self, rows: list[Row], at: int, frame: Frame) -> list[Row]:
        """The rows whose group of peers is near enough."""
        numbers = [0]
        for before, row in pairwise(rows):
            numbers.append(numbers[-1] + (not self.order.ties(before, row)))
        distances = [number - numbers[at] for number in numbers]
        return [
            row
            for row, distance in zip(rows, distances, strict=True)
            if (frame.start is None or distance >= frame.start) and (frame.end is None or distance <= frame.end)
        ]
