"""Window functions over one partition: a function from its rows to the rows with the calls' values behind them.

Where a window's order leaves a choice, the rows' texts decide. A frame's ends never move backwards from row to row, so
an aggregate's accumulator takes in the rows that enter and gives back those that leave.

Not here: which partitions there are (`partitions`), what aggregates remember (`aggregate_state`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dataflow.errors import EvaluationError
from dataflow.evaluate import compile_scalar
from dataflow.functions.floats import printed
from dataflow.ops.aggregate_call import CompiledCall
from dataflow.ops.top_k import PartitionFunction, rank_function
from dataflow.plan.calls import CallState, state_of
from dataflow.plan.expressions import INT8
from dataflow.plan.nodes import (
    AggregateCall,
    AggregateFunction,
    CallOrder,
    Frame,
    FrameMode,
    OrderTerm,
    Window,
    WindowCall,
    column_types,
)
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.types import Row, Value


@dataclass(slots=True)
class Ordered:
    """A partition in a window's order. Peers are rows that the order leaves in one place."""

    rows: list[Row]
    #: Per row: the number of its group of peers, from 0.
    group: list[int]
    #: Per group of peers: its first row; then the number of rows.
    starts: list[int]

    def bounds(self, frame: Frame, at: int) -> tuple[int, int]:
        """The frame of a row: from, up to (not included). Empty if they meet or cross."""
        match frame.mode:
            case FrameMode.ROWS:
                count = len(self.rows)
                return _moved(at, frame.start, 0, count), _moved(at + 1, frame.end, count, count)
            case FrameMode.RANGE | FrameMode.GROUPS:
                group, groups = self.group[at], len(self.starts) - 1
                first, behind = _moved(group, frame.start, 0, groups), _moved(group + 1, frame.end, groups, groups)
                return self.starts[first], self.starts[behind]


#: A call's values, one per row of the ordered partition.
CallFunction = Callable[[Ordered], list[Value]]


def _moved(place: int, offset: int | None, unbounded: int, last: int) -> int:
    return unbounded if offset is None else min(max(place + offset, 0), last)


def window_rows(window: Window) -> PartitionFunction:
    """The function that adds the calls' columns to a partition's rows.

    ValueError if a call is not computed exactly, with the reason.
    """
    types = column_types(window.input)
    by_order: dict[tuple[OrderTerm, ...], list[tuple[int, CallFunction]]] = {}
    for number, call in enumerate(window.calls):
        by_order.setdefault(call.order, []).append((number, _compile(call, types)))
    orders = [(_order_function(order, types), calls) for order, calls in by_order.items()]

    def computed(rows: Sequence[Row]) -> list[Row]:
        values: list[list[Value]] = [[None] * len(window.calls) for _ in rows]
        for in_order, calls in orders:
            places, ordered = in_order(rows)
            for number, function in calls:
                for place, value in zip(places, function(ordered), strict=True):
                    values[place][number] = value
        return [(*row, *extra) for row, extra in zip(rows, values, strict=True)]

    return computed


def _order_function(
    order: tuple[OrderTerm, ...], types: Sequence[SqlType]
) -> Callable[[Sequence[Row]], tuple[list[int], Ordered]]:
    """Sorts a partition: the places of its rows in order, and the ordered partition."""
    rank = rank_function(order, types)

    def in_order(rows: Sequence[Row]) -> tuple[list[int], Ordered]:
        ranks = [rank(row) for row in rows]
        places = sorted(range(len(rows)), key=ranks.__getitem__)
        ordered = Ordered([rows[i] for i in places], [], [])
        for at, place in enumerate(places):
            if not at or ranks[place][0] != ranks[places[at - 1]][0]:
                ordered.starts.append(at)
            ordered.group.append(len(ordered.starts) - 1)
        ordered.starts.append(len(rows))
        return places, ordered

    return in_order


def _compile(call: WindowCall, types: Sequence[SqlType]) -> CallFunction:
    if call.function in _RANKS:
        return _RANKS[call.function]
    compiler = _COMPILERS.get(call.function)
    if compiler is not None:
        return compiler(call)
    return _aggregate(call, len(types))


# --- ranks ----------------------------------------------------------------------------------------------------------


def _row_number(ordered: Ordered) -> list[Value]:
    return [str(at) for at in range(1, len(ordered.rows) + 1)]


def _rank(ordered: Ordered) -> list[Value]:
    return [str(ordered.starts[group] + 1) for group in ordered.group]


def _dense_rank(ordered: Ordered) -> list[Value]:
    return [str(group + 1) for group in ordered.group]


def _percent_rank(ordered: Ordered) -> list[Value]:
    others = len(ordered.rows) - 1
    return [printed(ordered.starts[group] / others, "float8") if others else "0" for group in ordered.group]


def _cume_dist(ordered: Ordered) -> list[Value]:
    return [printed(ordered.starts[group + 1] / len(ordered.rows), "float8") for group in ordered.group]


_RANKS: dict[str, CallFunction] = {
    "row_number": _row_number,
    "rank": _rank,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
}


def _ntile(call: WindowCall) -> CallFunction:
    (number,) = call.arguments
    if not isinstance(number, Literal):
        raise ValueError("NTILE of anything but a constant is not maintained incrementally")
    buckets = int(number.value) if number.value is not None else None

    def function(ordered: Ordered) -> list[Value]:
        count = len(ordered.rows)
        if buckets is None or not count:
            return [None] * count
        if buckets <= 0:
            raise EvaluationError("argument of ntile must be greater than zero")
        size, larger = divmod(count, buckets)
        in_larger = larger * (size + 1)
        return [
            str(at // (size + 1) + 1 if at < in_larger else larger + (at - in_larger) // size + 1)
            for at in range(count)
        ]

    return function


# --- other rows' values ---------------------------------------------------------------------------------------------


def _offset(call: WindowCall) -> CallFunction:
    """LAG and LEAD: a value of the row so many behind or ahead, in the partition."""
    direction = -1 if call.function == "lag" else 1
    value = compile_scalar(call.arguments[0])
    distance = compile_scalar(call.arguments[1]) if len(call.arguments) > 1 else lambda _row: "1"
    default = compile_scalar(call.arguments[2]) if len(call.arguments) > 2 else lambda _row: None

    def function(ordered: Ordered) -> list[Value]:
        result: list[Value] = []
        for at, row in enumerate(ordered.rows):
            steps = distance(row)
            if steps is None:
                result.append(None)
                continue
            other = at + direction * int(steps)
            result.append(value(ordered.rows[other]) if 0 <= other < len(ordered.rows) else default(row))
        return result

    return function


def _nth_of_frame(call: WindowCall) -> CallFunction:
    """FIRST_VALUE, LAST_VALUE and NTH_VALUE: a value of a row of the frame."""
    value = compile_scalar(call.arguments[0])
    number = compile_scalar(call.arguments[1]) if call.function == "nth_value" else None

    def place(row: Row, first: int, behind: int) -> int | None:
        if number is None:
            return first if call.function == "first_value" else behind - 1
        nth = number(row)
        if nth is None:
            return None
        if int(nth) <= 0:
            raise EvaluationError("argument of nth_value must be greater than zero")
        return first + int(nth) - 1

    def function(ordered: Ordered) -> list[Value]:
        result: list[Value] = []
        for at, row in enumerate(ordered.rows):
            first, behind = ordered.bounds(call.frame, at)
            found = place(row, first, behind)
            result.append(None if found is None or not first <= found < behind else value(ordered.rows[found]))
        return result

    return function


_COMPILERS: dict[str, Callable[[WindowCall], CallFunction]] = {
    "ntile": _ntile,
    "lag": _offset,
    "lead": _offset,
    "first_value": _nth_of_frame,
    "last_value": _nth_of_frame,
    "nth_value": _nth_of_frame,
}


# --- aggregates -----------------------------------------------------------------------------------------------------


def _aggregate(call: WindowCall, width: int) -> CallFunction:
    compiled = CompiledCall(_aggregate_call(call, width))

    def function(ordered: Ordered) -> list[Value]:
        # Behind each row its place, by which lists are ordered.
        rows = [(*row, str(at)) for at, row in enumerate(ordered.rows)]
        accumulator = compiled.make()
        nothing = compiled.make().result()
        entered = left = 0
        result: list[Value] = []
        for at in range(len(rows)):
            first, behind = ordered.bounds(call.frame, at)
            if first >= behind:
                result.append(nothing)
                continue
            for row in rows[entered:behind]:
                compiled.add(accumulator, row, 1)
            for row in rows[left:first]:
                compiled.add(accumulator, row, -1)
            entered, left = max(entered, behind), max(left, first)
            result.append(accumulator.result())
        return result

    return function


def _aggregate_call(call: WindowCall, width: int) -> AggregateCall:
    """A window's aggregate as that of a group: lists are in the window's order."""
    name = "count(*)" if call.function == "count" and not call.arguments else call.function
    try:
        function = AggregateFunction(name)
    except ValueError:
        raise ValueError(f"{name.upper()} as a window function is not maintained incrementally") from None
    argument: Scalar | None = call.arguments[0] if call.arguments else None
    made = AggregateCall(function, argument, call.type, others=call.arguments[1:], keeps=call.keeps)
    return replace(made, order=(CallOrder(ColumnRef(width, INT8)),)) if state_of(made) is CallState.LIST else made
