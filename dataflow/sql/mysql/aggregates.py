"""Aggregate functions of MariaDB and MySQL.

SUM of integers is a DECIMAL; AVG has four decimals more than its argument, and more than it prints where it is computed
with further (`arithmetic`).
"""

from collections.abc import Sequence

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.functions.mysql_numbers import quotient_scale
from dataflow.plan.expressions import INT8, used_columns
from dataflow.plan.nodes import AggregateCall, AggregateFunction, CallOrder
from dataflow.scalar import Call, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.aggregates import FIRST_CALL, WrittenCall
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import FLOAT8, UNKNOWN
from dataflow.sql.mysql import documents, percentiles, texts
from dataflow.sql.mysql.arithmetic import INCREMENT
from dataflow.sql.mysql.values import (
    MAX_PRECISION,
    MAX_SCALE,
    as_type,
    decimal,
    digits,
    printed,
    refuse_printed,
)
from dataflow.types.documents import MARIADB_JSON

#: Every aggregate function, also those that are refused.
NAMES = frozenset(
    {
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "count",
        "group_concat",
        "json_arrayagg",
        "json_objectagg",
        "max",
        "median",
        "min",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "sum",
        "var_pop",
        "var_samp",
        "variance",
        "any_value",
    }
)
_FUNCTIONS = {
    "avg": AggregateFunction.AVG,
    "count": AggregateFunction.COUNT,
    "max": AggregateFunction.MAX,
    "min": AggregateFunction.MIN,
    "sum": AggregateFunction.SUM,
}
#: Those that make documents, and the number of their arguments.
_DOCUMENTS = {
    "json_arrayagg": (AggregateFunction.JSON_ARRAYAGG, 1),
    "json_objectagg": (AggregateFunction.JSON_OBJECTAGG, 2),
}
#: Those that the server ends with an error, or cuts, at group_concat_max_len.
_CONCATENATED = frozenset({AggregateFunction.STRING_AGG, *(function for function, _ in _DOCUMENTS.values())})
_COUNTING = frozenset({AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG})


def aggregate_call(written: WrittenCall, binder: Binder) -> AggregateCall:
    """The call of an aggregate function, bound."""
    if written.name == "group_concat":
        return _group_concat(written, binder)
    if written.name in _DOCUMENTS:
        return _documents(written, binder)
    if written.name in percentiles.FUNCTIONS:
        return percentiles.percentile_call(written, binder)
    function = _FUNCTIONS.get(written.name)
    shown = written.name.upper()
    if function is None or written.filter is not None or written.order:
        raise UnsupportedQuery(f"{shown} is not kept up to date.")
    if written.arguments is None:
        if function is not AggregateFunction.COUNT:
            raise InvalidQuery(f"{shown} takes an expression, not *.")
        return AggregateCall(AggregateFunction.COUNT_ROWS, None, INT8)
    if len(written.arguments) != 1:
        raise UnsupportedQuery(f"{shown} of {len(written.arguments)} arguments is not kept up to date.")
    argument = binder.value(written.arguments[0])
    if function is not AggregateFunction.COUNT:
        refuse_printed(argument, shown)
    argument = _argument(function, argument)
    distinct = written.distinct and function in _COUNTING
    if distinct and not argument.type.comparable:
        raise UnsupportedQuery(f"When {argument.type.sql} values are equal is not known exactly.")
    return AggregateCall(function, argument, _result(function, argument.type), distinct=distinct)


def _group_concat(written: WrittenCall, binder: Binder) -> AggregateCall:
    """GROUP_CONCAT of one argument, up to the default of ``group_concat_max_len``."""
    if binder.catalog.dialect != "mariadb":
        raise UnsupportedQuery("GROUP_CONCAT is cut at group_concat_max_len, which is short by default.")
    node, *separators = written.arguments or ()
    separator = Literal(",", UNKNOWN) if not separators else binder.bind(separators[0])
    value = refuse_printed(binder.value(node), "GROUP_CONCAT")
    if isinstance(value, Literal):
        raise UnsupportedQuery("GROUP_CONCAT of a constant is not kept up to date.")
    argument = texts.printed_text("GROUP_CONCAT", value, binder.text)
    order = [_term(term, binder) for term in written.order]
    if written.distinct and any(term.expression != value for term in order):
        raise UnsupportedQuery("With DISTINCT, GROUP_CONCAT is ordered by its argument.")
    if written.distinct and not argument.type.comparable:
        raise UnsupportedQuery(f"When {argument.type.sql} values are equal is not known exactly.")
    others = (functions.typed(separator, argument.type),)
    return AggregateCall(
        AggregateFunction.STRING_AGG,
        argument,
        argument.type,
        others=others,
        distinct=written.distinct,
        order=tuple(order),
    )


def _documents(written: WrittenCall, binder: Binder) -> AggregateCall:
    """The call of an aggregate function that makes a document of a group's values."""
    function, count = _DOCUMENTS[written.name]
    shown = written.name.upper()
    documents.check_server(shown, binder)
    nodes = written.arguments or ()
    if len(nodes) != count or written.distinct or written.filter is not None or (written.order and count > 1):
        raise UnsupportedQuery(f"This {shown} is not kept up to date.")
    name, *others = documents.elements(shown, [binder.bind(node) for node in nodes])
    if others:
        name = texts.printed_text(shown, name, binder.text)
    if not used_columns(name):
        raise UnsupportedQuery(f"{shown} of a constant is not kept up to date.")
    order = tuple(_term(term, binder) for term in written.order)
    return AggregateCall(function, name, documents.BUILT, others=tuple(others), order=order)


def _term(term: exp.Expr, binder: Binder) -> CallOrder:
    expression = binder.value(term.this)
    if not used_columns(expression):
        raise UnsupportedQuery("A list ordered by a constant is not kept up to date.")
    functions.sortable(expression)
    return CallOrder(expression, bool(term.args.get("desc")), bool(term.args.get("nulls_first")))


def _argument(function: AggregateFunction, argument: Scalar) -> Scalar:
    sql_type = argument.type
    if function in (AggregateFunction.SUM, AggregateFunction.AVG):
        if not sql_type.is_number or sql_type.sql.startswith(("year", "bit")):
            raise UnsupportedQuery(f"{function.value.upper()} of {sql_type.sql} is not kept up to date.")
        if sql_type.is_float:
            return as_type(argument, FLOAT8)
        return as_type(argument, decimal(20, 0)) if sql_type.is_whole and not sql_type.is_integer else argument
    if function in (AggregateFunction.MIN, AggregateFunction.MAX):
        # Unlike PostgreSQL, these servers have extremes of conditions and byte strings.
        if sql_type.name == MARIADB_JSON or not (sql_type.rules.extremes or sql_type.is_boolean or sql_type.is_bytes):
            raise UnsupportedQuery(f"{function.value.upper()} of {sql_type.sql} is not kept up to date.")
        return functions.sortable(argument)
    return argument


def _result(function: AggregateFunction, argument: SqlType) -> SqlType:
    match function:
        case AggregateFunction.COUNT:
            return INT8
        case AggregateFunction.SUM:
            if argument.is_float:
                return FLOAT8
            precision, scale = digits(argument)
            return decimal(min(precision + 22, MAX_PRECISION), scale)
        case AggregateFunction.AVG:
            if argument.is_float:
                return FLOAT8
            scale = digits(argument)[1]
            if scale + INCREMENT > MAX_SCALE:
                raise UnsupportedQuery("AVG of numbers of so many digits is not kept up to date.")
            return decimal(MAX_PRECISION, quotient_scale(scale, 0, INCREMENT))
        case AggregateFunction.MIN | AggregateFunction.MAX:
            return argument
        case _:
            raise UnsupportedQuery(f"{function.value.upper()} is not maintained incrementally.")


def aggregate_value(result: Scalar, call: AggregateCall) -> Scalar:
    """A call's result as the value that expressions see: an average prints fewer decimals than it has."""
    if call.function in percentiles.FUNCTIONS.values():
        raise InvalidQuery("MEDIAN and percentiles are window functions: they need OVER.")
    if call.function in _CONCATENATED:
        return Call("GROUP_CONCAT", (result,), result.type)
    if call.function is not AggregateFunction.AVG or not call.type.is_decimal or call.argument is None:
        return result
    precision, scale = digits(call.argument.type)
    return printed(result, min(precision + INCREMENT, MAX_PRECISION), scale + INCREMENT)


def window_value(function: str, arguments: Sequence[Scalar], result: Scalar, shown: bool) -> Scalar:
    """The result of a window function; UnsupportedQuery for one that is not exact."""
    if function in percentiles.FUNCTIONS.values() and not shown:
        raise UnsupportedQuery("A percentile in an expression or an inner query is not kept up to date.")
    if function in ("percent_rank", "cume_dist"):
        raise UnsupportedQuery(f"{function.upper()} prints other digits than are computed here.")
    if function in ("sum", "avg") and arguments[0].type.is_float:
        raise UnsupportedQuery("Floats are added in the order of the server's frames.")
    if function != "avg" or not result.type.is_decimal:
        return result
    # What is computed with it sees the decimals that it prints.
    precision, scale = digits(arguments[0].type)
    target = decimal(min(precision + INCREMENT, MAX_PRECISION), scale + INCREMENT)
    return Call("ROUND", (result, Literal(str(scale + INCREMENT), INT8)), target)


def inner(expression: Scalar) -> Scalar:
    """Refuse a quotient shown by a query in FROM or in an expression. The servers may merge the query with the outer
    one or not, and the digits that it does not print then count or not. An aggregate is never merged."""
    if _has_quotient(expression):
        raise UnsupportedQuery("A quotient that a query in FROM or in an expression shows is not computed exactly.")
    return expression


def _has_quotient(expression: Scalar) -> bool:
    if not isinstance(expression, Call):
        return False
    if expression.function == "printed" and all(c < FIRST_CALL for c in used_columns(expression)):
        return True
    return any(map(_has_quotient, expression.arguments))


__all__ = ["NAMES", "aggregate_call", "aggregate_value", "inner", "window_value"]
