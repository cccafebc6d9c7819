"""MEDIAN, PERCENTILE_CONT and PERCENTILE_DISC of MariaDB, which are window functions only.

*Theory* (``sql/item_windowfunc.h``): MEDIAN is PERCENTILE_CONT of 0.5. PERCENTILE_CONT is a ``DOUBLE(n,10)``; n is 17
and the number of decimals with which the fraction is written. So a median has ten decimals, and 100000000 stands for
what is greater. An expression of a percentile prints decimals by rules of its own, and one of PERCENTILE_CONT, also
above a query in FROM, sees a number that may be next to the one that is printed: both are refused.

Not here: the values (`dataflow.ops.aggregate_ordered_sets`).
"""

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import INT8, used_columns
from dataflow.plan.nodes import AggregateCall, AggregateFunction, CallOrder
from dataflow.scalar import Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions.aggregates import WrittenCall
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import FLOAT8
from dataflow.sql.mysql.values import UINT8, as_type, constant_of, digits, prints_as_number, refuse_printed
from dataflow.sql.syntax.spans import span_of

FUNCTIONS = {
    "median": AggregateFunction.MARIADB_PERCENTILE_CONT,
    "percentile_cont": AggregateFunction.MARIADB_PERCENTILE_CONT,
    "percentile_disc": AggregateFunction.MARIADB_PERCENTILE_DISC,
}
#: Between two values, any other fraction is rounded once by some processors and twice by others: those that multiply
#: and add in one instruction.
_EXACT_FRACTIONS = frozenset({0.0, 0.5, 1.0})
#: Digits before the point in the type of a percentile, and how many more there are for each decimal of the fraction.
_WHOLE_DIGITS = 7


def percentile_call(written: WrittenCall, binder: Binder) -> AggregateCall:
    """The call of one of `FUNCTIONS`, bound; its order is the window's."""
    name, function = written.name.upper(), FUNCTIONS[written.name]
    if binder.catalog.dialect != "mariadb" or written.filter is not None:
        raise UnsupportedQuery(f"{name} is not kept up to date.")
    median = written.name == "median"
    nodes = written.arguments or ()
    if len(nodes) != 1 or written.distinct or len(written.within) != (0 if median else 1):
        raise InvalidQuery(f"{name} takes {'one expression' if median else 'WITHIN GROUP (ORDER BY …)'}.")
    term = None if median else written.within[0]
    node = nodes[0] if term is None else term.this
    value = refuse_printed(binder.value(node), name)
    if not _is_exact(value.type, function):
        raise UnsupportedQuery(f"{name} of {value.type.sql} is not kept up to date.", span_of(node))
    if not used_columns(value):
        raise UnsupportedQuery(f"{name} of a constant is not kept up to date.", span_of(node))
    others = _fraction(name, exp.Literal.number("0.5") if median else nodes[0], function)
    order = (CallOrder(value, term is not None and bool(term.args.get("desc"))),)
    if function is AggregateFunction.MARIADB_PERCENTILE_CONT:
        value = as_type(value, FLOAT8)
    return AggregateCall(function, value, value.type, others=others, order=order)


def _is_exact(sql_type: SqlType, function: AggregateFunction) -> bool:
    """Return whether percentiles of the type are computed here: of no BIGINT UNSIGNED, which the server takes for a
    signed number, and of no floats, whose expressions may have decimals."""
    if function is AggregateFunction.MARIADB_PERCENTILE_DISC and not prints_as_number(sql_type):
        return False
    whole = sql_type.is_whole and sql_type.name != UINT8.name and not sql_type.sql.startswith("year")
    return whole or sql_type.is_decimal


def _fraction(name: str, node: exp.Expr, function: AggregateFunction) -> tuple[Scalar, ...]:
    """The fraction and, if values are computed, the bound of their type."""
    fraction = constant_of(str(node.this)) if isinstance(node, exp.Literal) and not node.is_string else None
    if fraction is None or not 0 <= float(fraction.value or 0) <= 1:
        raise UnsupportedQuery(f"{name} is kept up to date for one constant fraction.", span_of(node))
    share = Literal(fraction.value, FLOAT8)
    if function is AggregateFunction.MARIADB_PERCENTILE_DISC:
        return (share,)
    if fraction.type.is_float or float(fraction.value or 0) not in _EXACT_FRACTIONS:
        reason = f"{name} of other fractions than 0, 0.5 and 1 depends on the server's processor in its last digit."
        raise UnsupportedQuery(reason, span_of(node))
    return share, Literal(f"{10 ** (_WHOLE_DIGITS + digits(fraction.type)[1])}", INT8)
