"""An aggregate call over input rows, compiled: which value a row adds to the call's accumulator, and how often.

Not here: what becomes of the values (`aggregate_state`), groups (`aggregate`).
"""

from collections.abc import Callable
from typing import Any, cast

from dataflow.evaluate import compile_predicate, compile_scalar
from dataflow.ops.aggregate_accumulator import Accumulator, PartialAccumulator
from dataflow.ops.aggregate_state import accumulator_factory
from dataflow.plan.calls import CallState, list_columns, state_of
from dataflow.plan.nodes import AggregateCall, AggregateFunction
from dataflow.types import Row

_OF_PARTIALS = (AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG)


class CompiledCall:
    """One call's expressions over an input row, compiled."""

    __slots__ = ("argument", "count", "counts_rows", "keeps", "make", "simple", "weight")

    def __init__(self, call: AggregateCall) -> None:
        """ValueError, with the reason, if the call is not computed exactly."""
        if call.count is not None and (call.function not in _OF_PARTIALS or call.distinct):
            raise ValueError(f"{call.function.value.upper()} has no partial sums")
        self.argument = _argument(call)
        self.keeps = compile_predicate(call.keeps) if call.keeps is not None else None
        self.weight = compile_scalar(call.weight) if call.weight is not None else None
        self.count = compile_scalar(call.count) if call.count is not None else None
        #: Whether each input row counts once.
        self.simple = self.weight is None and self.count is None and self.keeps is None
        #: Whether the number of a group's rows is all that it needs.
        self.counts_rows = self.simple and call.function is AggregateFunction.COUNT_ROWS
        self.make: Callable[[], Accumulator] = accumulator_factory(call)

    def add(self, accumulator: Accumulator, row: Row, sign: int) -> None:
        """Adds or takes away what `row` stands for."""
        if self.keeps is not None and not self.keeps(row):
            return
        times = sign if self.weight is None else sign * int(self.weight(row) or 0)
        value = self.argument(row) if self.argument is not None else None
        if self.count is None:
            accumulator.add(value, times)
        else:
            cast(PartialAccumulator, accumulator).add_partial(value, int(self.count(row) or 0), times)


def _argument(call: AggregateCall) -> Callable[[Row], Any] | None:
    if call.argument is None:
        return None
    if state_of(call) is not CallState.LIST:
        return compile_scalar(call.argument)
    columns = [compile_scalar(column) for column in list_columns(call)]
    return lambda row: tuple([column(row) for column in columns])
