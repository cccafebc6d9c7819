"""What aggregate calls remember, for those who keep it (`ops.aggregate_state`) and who look it up (`plan.lookup`)."""

from dataflow.plan.nodes import AggregateCall, AggregateFunction
from dataflow.scalar import Scalar

LISTS = frozenset(
    {
        AggregateFunction.STRING_AGG,
        AggregateFunction.ARRAY_AGG,
        AggregateFunction.JSON_AGG,
        AggregateFunction.JSONB_AGG,
        AggregateFunction.JSON_OBJECT_AGG,
        AggregateFunction.JSONB_OBJECT_AGG,
    }
)
EXTREMES = frozenset({AggregateFunction.MIN, AggregateFunction.MAX})
TRUTHS = frozenset({AggregateFunction.BOOL_AND, AggregateFunction.BOOL_OR})
_SUMS = frozenset({AggregateFunction.SUM, AggregateFunction.AVG})
#: Types whose sums are made of the values: the upstream's own sum of them is not exact, or has no inverse.
_SUMMED_BY_VALUE = frozenset({"float4", "float8", "interval"})


def list_columns(call: AggregateCall) -> tuple[Scalar, ...]:
    """What a list remembers of an input row: arguments first, then what it is ordered by, none twice."""
    assert call.argument is not None
    return tuple(dict.fromkeys((call.argument, *call.others, *(term.expression for term in call.order))))


def remembers_values(call: AggregateCall) -> bool:
    """Whether a call's state is its argument's values, with how often each comes."""
    if call.argument is None or call.function in LISTS | TRUTHS:
        return False
    by_value = call.function in _SUMS and call.argument.type.name in _SUMMED_BY_VALUE
    return call.distinct or call.function in EXTREMES or by_value
