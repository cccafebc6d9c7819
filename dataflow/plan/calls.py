"""The state of aggregate calls, for those who store it (`ops.aggregate_state`) and who look it up (`lookups`)."""

from enum import Enum, auto

from dataflow.plan.nodes import AggregateCall, AggregateFunction
from dataflow.scalar import Scalar


class CallState(Enum):
    """The state of an aggregate call for a group; `ops.aggregate_state` has the partial columns of each."""

    #: The number of rows.
    ROWS = auto()
    #: The number of values.
    COUNT = auto()
    #: The number of values, and their sum.
    SUM = auto()
    #: The numbers of TRUE and FALSE.
    TRUTHS = auto()
    #: Each value, and how often it occurs.
    VALUES = auto()
    #: Each combination of the `list_columns`, and how often it occurs.
    LIST = auto()


def state_of(call: AggregateCall) -> CallState:
    """The state that a call needs."""
    match call.function:
        case AggregateFunction.COUNT_ROWS:
            return CallState.ROWS
        case AggregateFunction.COUNT:
            return CallState.VALUES if call.distinct else CallState.COUNT
        case AggregateFunction.SUM | AggregateFunction.AVG:
            by_value = call.distinct or argument_of(call).type.rules.summed_by_value
            return CallState.VALUES if by_value else CallState.SUM
        case AggregateFunction.MIN | AggregateFunction.MAX:
            return CallState.VALUES
        case AggregateFunction.STDDEV_SAMP | AggregateFunction.STDDEV_POP:
            return CallState.VALUES
        case AggregateFunction.VAR_SAMP | AggregateFunction.VAR_POP:
            return CallState.VALUES
        case AggregateFunction.BOOL_AND | AggregateFunction.BOOL_OR:
            return CallState.TRUTHS
        case (
            AggregateFunction.STRING_AGG
            | AggregateFunction.ARRAY_AGG
            | AggregateFunction.JSON_AGG
            | AggregateFunction.JSONB_AGG
            | AggregateFunction.JSON_OBJECT_AGG
            | AggregateFunction.JSONB_OBJECT_AGG
            | AggregateFunction.JSON_ARRAYAGG
            | AggregateFunction.JSON_OBJECTAGG
            | AggregateFunction.PERCENTILE_CONT
            | AggregateFunction.PERCENTILE_DISC
            | AggregateFunction.MODE
            | AggregateFunction.MARIADB_PERCENTILE_CONT
            | AggregateFunction.MARIADB_PERCENTILE_DISC
        ):
            return CallState.LIST


def argument_of(call: AggregateCall) -> Scalar:
    """The argument. ValueError if there is none."""
    if call.argument is None:
        raise ValueError(f"{call.function} needs an argument")
    return call.argument


def list_columns(call: AggregateCall) -> tuple[Scalar, ...]:
    """The columns of a list's state: its arguments, then the expressions of its ORDER BY, none twice."""
    return tuple(dict.fromkeys((argument_of(call), *call.others, *(term.expression for term in call.order))))
