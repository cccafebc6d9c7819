"""A GROUP BY whose groups have one row each is a projection: the row's unique keys are among the group columns."""

from dataclasses import replace

from dataflow.plan.expressions import INT8, inline
from dataflow.plan.nodes import Aggregate, AggregateCall, AggregateFunction, Block, Relation
from dataflow.plan.result_types import sum_type
from dataflow.plan.rules.rewriting import determines
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import Catalog, SqlType
from dataflow.values import FLOATS

_FUNCTIONS = frozenset({
    AggregateFunction.COUNT_ROWS, AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG,
    AggregateFunction.MIN, AggregateFunction.MAX, AggregateFunction.BOOL_AND, AggregateFunction.BOOL_OR,
})  # fmt: skip
_ONE = Literal("1", INT8)


def remove_top_aggregate(relation: Relation, catalog: Catalog) -> Relation:
    """Replaces an aggregate over a join by the join, if no two of its rows are of one group."""
    if not isinstance(relation, Aggregate) or relation.scalar or not isinstance(relation.input, Block):
        return relation
    if not all(_simple(call) for call in relation.calls):
        return relation
    block = relation.input
    group = {c.index for g in relation.group if isinstance(c := block.columns[g], ColumnRef)}
    if not determines(block, group, catalog):
        return relation
    values = [block.columns[g] for g in relation.group]
    values += [inline(_of_one_row(call), block.columns) for call in relation.calls]
    return replace(block, columns=tuple(values))


def _simple(call: AggregateCall) -> bool:
    """Whether `_of_one_row` says what the call is."""
    return call.function in _FUNCTIONS and not call.distinct and call.keeps is None and call.type.name not in FLOATS


def _of_one_row(call: AggregateCall) -> Scalar:
    """The call over a group of one row, which counts `weight` times."""
    argument, weight = call.argument, call.weight
    if call.function is AggregateFunction.COUNT_ROWS or argument is None:
        return weight or _ONE
    if call.function is AggregateFunction.COUNT:
        is_null = Call("is null", (argument,), SqlType("bool", "bool"))
        return Call("case", (is_null, Literal("0", INT8), weight or _ONE), INT8)
    if call.function is AggregateFunction.SUM:
        return _times(_as(argument, call.type), weight)
    if call.function is AggregateFunction.AVG:
        total = argument if call.count is not None else _as(argument, sum_type(argument.type))
        return Call("average", (_times(total, weight), _times(call.count or _ONE, weight)), call.type)
    return argument


def _times(value: Scalar, weight: Scalar | None) -> Scalar:
    if weight is None:
        return value
    return weight if value == _ONE else Call("*", (value, _as(weight, value.type)), value.type)


def _as(value: Scalar, sql_type: SqlType) -> Scalar:
    return value if value.type.name == sql_type.name else Call("cast", (value,), sql_type)
