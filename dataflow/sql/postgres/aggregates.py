"""Aggregate functions of PostgreSQL: the calls that they are, and the types of their results."""

from collections.abc import Sequence

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import BOOL, INT8, NUMERIC, used_columns
from dataflow.plan.nodes import AggregateCall, AggregateFunction, CallOrder
from dataflow.plan.result_types import average_type, sum_type, summable
from dataflow.scalar import Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.aggregates import WrittenCall
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import TEXT, UNKNOWN
from dataflow.sql.postgres import ordered_sets
from dataflow.sql.syntax.spans import span_of

#: The parser may take these for functions of any other kind.
NAMES = frozenset({*(f.value for f in AggregateFunction), "every", "stddev", "variance", "grouping"})
_FUNCTIONS = {f.value: f for f in AggregateFunction if f is not AggregateFunction.COUNT_ROWS}
_FUNCTIONS["every"] = AggregateFunction.BOOL_AND
_FUNCTIONS["stddev"] = AggregateFunction.STDDEV_SAMP
_FUNCTIONS["variance"] = AggregateFunction.VAR_SAMP
_ARGUMENTS = {
    AggregateFunction.STRING_AGG: 2,
    AggregateFunction.JSON_OBJECT_AGG: 2,
    AggregateFunction.JSONB_OBJECT_AGG: 2,
}
#: Where a NULL counts, FILTER cannot make a NULL of what it drops.
_COUNTING_NULLS = frozenset(
    {
        AggregateFunction.ARRAY_AGG,
        AggregateFunction.JSON_AGG,
        AggregateFunction.JSONB_AGG,
        AggregateFunction.JSON_OBJECT_AGG,
        AggregateFunction.JSONB_OBJECT_AGG,
    }
)
#: The order of the rows makes a difference.
_ORDERED = _COUNTING_NULLS | {AggregateFunction.STRING_AGG}
#: Of floats, the server's depend on the order of the rows.
_SPREADS = frozenset(
    {
        AggregateFunction.STDDEV_SAMP,
        AggregateFunction.STDDEV_POP,
        AggregateFunction.VAR_SAMP,
        AggregateFunction.VAR_POP,
    }
)
#: Counting a value twice makes a difference.
_COUNTING = _ORDERED | _SPREADS | {AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG}


def aggregate_call(written: WrittenCall, binder: Binder) -> AggregateCall:
    """The call of an aggregate function, bound."""
    function = _FUNCTIONS.get(written.name)
    if function is None:
        raise UnsupportedQuery(f"{written.name.upper()} is not kept up to date.")
    kept = None if written.filter is None else functions.condition(binder.bind(written.filter))
    if function in ordered_sets.FUNCTIONS:
        return ordered_sets.ordered_set_call(function, written, kept, binder)
    if written.within:
        raise UnsupportedQuery(f"{written.name.upper()} WITHIN GROUP is not kept up to date.")
    if written.arguments is None:
        if function is not AggregateFunction.COUNT:
            raise InvalidQuery(f"{written.name.upper()} takes an expression, not *.")
        return _count_rows(kept)
    if len(written.arguments) != _ARGUMENTS.get(function, 1):
        raise UnsupportedQuery(f"{written.name.upper()} of {len(written.arguments)} arguments is not kept up to date.")
    arguments = [binder.value(a) for a in written.arguments]
    if function is AggregateFunction.STRING_AGG:
        arguments = _strings(written.name, arguments)
    arguments[0] = _argument(function, arguments[0])
    order = _order(written, binder, arguments)
    distinct = written.distinct and function in _COUNTING
    if distinct:
        _check_distinct(arguments)
    result = _result(function, arguments[0].type)
    if kept is not None and function not in _COUNTING_NULLS:
        arguments[0] = functions.case([(kept, arguments[0])], Literal(None, UNKNOWN))
        kept = None
    return AggregateCall(
        function,
        arguments[0],
        result,
        others=tuple(arguments[1:]),
        distinct=distinct,
        order=order if function in _ORDERED else (),
        keeps=kept,
    )


def _count_rows(kept: Scalar | None) -> AggregateCall:
    if kept is None:
        return AggregateCall(AggregateFunction.COUNT_ROWS, None, INT8)
    one = functions.case([(kept, Literal("1", INT8))], Literal(None, UNKNOWN))
    return AggregateCall(AggregateFunction.COUNT, one, INT8)


def _argument(function: AggregateFunction, argument: Scalar) -> Scalar:
    """The first argument as the function takes it."""
    sql_type, name = argument.type, function.value.upper()
    match function:
        case AggregateFunction.SUM | AggregateFunction.AVG if not summable(sql_type):
            raise UnsupportedQuery(f"{name} of {sql_type.sql} is not kept up to date.")
        case AggregateFunction.MIN | AggregateFunction.MAX:
            if not sql_type.rules.extremes:
                raise UnsupportedQuery(f"{name} of {sql_type.sql} is not kept up to date.")
            return functions.sortable(argument)
        case AggregateFunction.BOOL_AND | AggregateFunction.BOOL_OR:
            return functions.condition(argument)
        case (
            AggregateFunction.STDDEV_SAMP
            | AggregateFunction.STDDEV_POP
            | AggregateFunction.VAR_SAMP
            | AggregateFunction.VAR_POP
        ):
            if not sql_type.is_integer and not sql_type.is_decimal:
                raise UnsupportedQuery(f"{name} of {sql_type.sql} is not kept up to date.")
            return argument
        case _:
            return argument


def _strings(name: str, arguments: Sequence[Scalar]) -> list[Scalar]:
    """The arguments of STRING_AGG, by that or another name: texts, or byte strings."""
    if all(argument.type.is_bytes for argument in arguments):
        return list(arguments)
    for argument in arguments:
        if not argument.type.is_string:
            raise UnsupportedQuery(f"{name.upper()} of {argument.type.sql} is not kept up to date.")
    return [functions.cast(argument, TEXT) for argument in arguments]


def _order(written: WrittenCall, binder: Binder, arguments: Sequence[Scalar]) -> tuple[CallOrder, ...]:
    """ORDER BY inside the parentheses; constants order nothing."""
    terms: list[CallOrder] = []
    for term in written.order:
        expression = functions.settled(binder.bind(term.this))
        if written.distinct and expression not in arguments:
            raise UnsupportedQuery(
                "With DISTINCT, an aggregate's ORDER BY is about its arguments.", span_of(term) or span_of(term.this)
            )
        if used_columns(expression):
            functions.sortable(expression)
            terms.append(CallOrder(expression, bool(term.args.get("desc")), bool(term.args.get("nulls_first"))))
    return tuple(terms)


def _check_distinct(arguments: Sequence[Scalar]) -> None:
    for argument in arguments:
        if not argument.type.comparable:
            raise UnsupportedQuery(f"When {argument.type.sql} values are equal is not known exactly.")


def _result(function: AggregateFunction, argument: SqlType) -> SqlType:
    match function:
        case AggregateFunction.COUNT_ROWS | AggregateFunction.COUNT:
            return INT8
        case AggregateFunction.SUM:
            return sum_type(argument)
        case AggregateFunction.AVG:
            return average_type(argument)
        case AggregateFunction.BOOL_AND | AggregateFunction.BOOL_OR:
            return BOOL
        case (
            AggregateFunction.STDDEV_SAMP
            | AggregateFunction.STDDEV_POP
            | AggregateFunction.VAR_SAMP
            | AggregateFunction.VAR_POP
        ):
            return NUMERIC
        case AggregateFunction.ARRAY_AGG:
            return _array_type(argument)
        case AggregateFunction.JSON_AGG | AggregateFunction.JSON_OBJECT_AGG:
            return SqlType("json", "json")
        case AggregateFunction.JSONB_AGG | AggregateFunction.JSONB_OBJECT_AGG:
            return SqlType("jsonb", "jsonb")
        case _:
            if argument.name == "varchar":
                return SqlType("text", "text", collation=argument.collation)
            return functions.plain_type(argument)


def _array_type(element: SqlType) -> SqlType:
    """The type of arrays of `element`."""
    if element.kind == "array":
        raise UnsupportedQuery("Arrays of arrays are not kept up to date.")
    plain = functions.plain_type(element)
    return SqlType(plain.name, f"{plain.sql}[]", "array", plain)
