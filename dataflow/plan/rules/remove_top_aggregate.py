"""A GROUP BY whose groups have one row each is a projection: the row's unique keys are among the group columns."""

from dataclasses import replace

from dataflow.plan.expressions import INT8, inline
from dataflow.plan.nodes import Aggregate, AggregateCall, AggregateFunction, Relation, Union
from dataflow.plan.result_types import sum_type
from dataflow.plan.rewriting import at_most_one
from dataflow.scalar import Call, Literal, Scalar
from dataflow.schema import Catalog, SqlType

_FUNCTIONS = frozenset(
    {
        AggregateFunction.COUNT_ROWS,
        AggregateFunction.COUNT,
        AggregateFunction.SUM,
        AggregateFunction.AVG,
        AggregateFunction.MIN,
        AggregateFunction.MAX,
        AggregateFunction.BOOL_AND,
        AggregateFunction.BOOL_OR,
    }
)
_ONE = Literal("1", INT8)


def remove_top_aggregate(relation: Relation, catalog: Catalog) -> Relation:
    """Replaces an aggregate by what it is over, if no two rows of that are of one group."""
    if not isinstance(relation, Aggregate) or relation.scalar or isinstance(relation.input, Union):
        return relation
    source = relation.input
    if not all(_simple(call) for call in relation.calls) or not at_most_one(source, set(relation.group), catalog):
        return relation
    values = [source.columns[g] for g in relation.group]
    values += [inline(_of_one_row(call), source.columns) for call in relation.calls]
    return replace(source, columns=tuple(values))


def _simple(call: AggregateCall) -> bool:
    """Return whether `_of_one_row` says what the call is."""
    plain = call.function in _FUNCTIONS and not call.distinct and call.keeps is None
    return plain and not call.type.is_float and not call.type.is_interval


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
