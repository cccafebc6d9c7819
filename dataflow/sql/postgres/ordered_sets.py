"""Ordered-set aggregates of PostgreSQL: PERCENTILE_CONT, PERCENTILE_DISC and MODE (manual, 9.21, table 9.64).

Not here: their values (`dataflow.ops.aggregate_ordered_sets`); those of hypothetical rows (RANK … WITHIN GROUP).
"""

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import used_columns
from dataflow.plan.nodes import AggregateCall, AggregateFunction, CallOrder
from dataflow.scalar import Literal, Scalar
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.aggregates import WrittenCall
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import FLOAT8, UNKNOWN
from dataflow.sql.syntax.spans import span_of

FUNCTIONS = frozenset({AggregateFunction.PERCENTILE_CONT, AggregateFunction.PERCENTILE_DISC, AggregateFunction.MODE})
#: Between two values, any other fraction is rounded once by some processors and twice by others: those that multiply
#: and add in one instruction.
_EXACT_FRACTIONS = frozenset({0.0, 0.5, 1.0})


def ordered_set_call(
    function: AggregateFunction, written: WrittenCall, kept: Scalar | None, binder: Binder
) -> AggregateCall:
    """The call of an ordered-set aggregate, bound. `kept`: its FILTER."""
    name = written.name.upper()
    if written.distinct or written.order or len(written.within) != 1:
        raise UnsupportedQuery(f"{name} takes WITHIN GROUP (ORDER BY …) of one expression.")
    (term,) = written.within
    value = functions.sortable(functions.settled(binder.value(term.this)))
    if not used_columns(value):
        raise UnsupportedQuery(f"{name} of a constant is not kept up to date.", span_of(term.this))
    others = _fraction(function, written, binder)
    if function is AggregateFunction.PERCENTILE_CONT:
        if not value.type.is_integer and not value.type.is_decimal:
            raise UnsupportedQuery(f"{name} of {value.type.sql} is not kept up to date.", span_of(term.this))
        value = functions.cast(value, FLOAT8)
    elif not value.type.one_text:
        raise UnsupportedQuery(
            f"{name} of {value.type.sql} is not kept up to date: equal values may print differently.",
            span_of(term.this),
        )
    if kept is not None:
        value = functions.case([(kept, value)], Literal(None, UNKNOWN))
    order = CallOrder(value, bool(term.args.get("desc")), bool(term.args.get("nulls_first")))
    result = functions.plain_type(value.type)
    return AggregateCall(function, value, result, others=others, order=(order,))


def _fraction(function: AggregateFunction, written: WrittenCall, binder: Binder) -> tuple[Scalar, ...]:
    """The argument within the parentheses."""
    name, arguments = written.name.upper(), written.arguments or ()
    if len(arguments) != (0 if function is AggregateFunction.MODE else 1):
        raise UnsupportedQuery(f"{name} of {len(arguments)} arguments is not kept up to date.")
    if not arguments:
        return ()
    (node,) = arguments
    bound = binder.bind(node)
    value = bound.value if isinstance(bound, Literal) and bound.type.is_number else None
    if value is None or not 0 <= float(value) <= 1:
        raise UnsupportedQuery(f"{name} is kept up to date for one constant fraction.", span_of(node))
    if function is AggregateFunction.PERCENTILE_CONT and float(value) not in _EXACT_FRACTIONS:
        reason = f"{name} of other fractions than 0, 0.5 and 1 depends on the server's processor in its last digit."
        raise UnsupportedQuery(reason, span_of(node))
    return (functions.cast(bound, FLOAT8),)
