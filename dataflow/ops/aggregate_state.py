"""The state of an aggregate's group, per call: enough to remove rows again and to print the upstream's very answer.

All aggregates share one frame (`aggregate_accumulator`): an accumulator adds a value so many times (negative: takes it
away), merges the partial columns of a looked-up *state row*, and prints its result.

State rows, as `lookups` asks the upstream for them, of an aggregate over a chain. Behind the group columns
come, per call:

=============================  ===================================  =====================================
call                           partial columns                      grouped by, beside the group columns
=============================  ===================================  =====================================
``count(*)``                   count                                --
``count(x)``                   count of x                           --
sum, avg of an integer         count of x, sum of x                 --
sum, avg of numeric            class, count of x, sum of x          class (scale, or NaN and infinities)
sum, avg of a float            x, count of x                        x, by its text
sum, avg of an interval        x, count of x                        x, by its text
bool_and, bool_or              count of TRUE, count of FALSE        --
min, max                       x, count of x                        x, by its text
stddev, variance               x, count of x                        x, by its text
DISTINCT of one argument       x, count of x                        x, by its text
lists                          columns, count of rows               the columns, by their texts
=============================  ===================================  =====================================

The columns of a list are its arguments and ORDER BY expressions (`plan.calls.list_columns`). With `keeps`, what is
counted and summed is FILTERed. Several calls with groupings of their own make a state row for each combination that
occurs, so never more than there are rows; each merges its own columns, and counts add up.

Group columns whose equal values can differ in text are grouped by that text too (`groups.LargeGroup.texts`).
The last column of a state row is always the number of rows.
"""

from collections.abc import Callable

from dataflow.functions.mysql_numbers import scale_of
from dataflow.ops.aggregate_accumulator import Accumulator
from dataflow.ops.aggregate_decimals import CutIntegerAverage, CutNumericAverage
from dataflow.ops.aggregate_lists import ListKind, ValueList
from dataflow.ops.aggregate_spreads import NumericSpread
from dataflow.ops.aggregate_sums import (
    BigintSum,
    CountRows,
    CountValues,
    FloatAverage,
    FloatSum,
    IntegerAverage,
    IntegerSum,
    IntervalAverage,
    IntervalSum,
    NumericAverage,
    NumericSum,
    RealAverage,
    RealSum,
    Truths,
)
from dataflow.ops.aggregate_values import Distinct, Extreme
from dataflow.plan.calls import argument_of
from dataflow.plan.nodes import AggregateCall, AggregateFunction
from dataflow.schema import SqlType

#: A function that makes an empty accumulator.
Factory = Callable[[], Accumulator]
#: Beside those of integers: by the argument's type, SUM and AVG.
_SUMS: dict[str, tuple[Factory, Factory]] = {
    "numeric": (NumericSum, NumericAverage),
    "float8": (FloatSum, FloatAverage),
    "float4": (RealSum, RealAverage),
    "interval": (IntervalSum, IntervalAverage),
}


def accumulator_factory(call: AggregateCall) -> Factory:
    """A function that makes an empty accumulator for `call`. ValueError, with the reason, if it is not
    computed exactly."""
    match call.function:
        case AggregateFunction.COUNT_ROWS:
            return CountRows
        case AggregateFunction.COUNT:
            return _distinct(call, CountValues)
        case AggregateFunction.SUM | AggregateFunction.AVG as function:
            return _distinct(call, _sum(call, argument_of(call).type, function is AggregateFunction.AVG))
        case AggregateFunction.MIN:
            return _extreme(argument_of(call).type, upwards=False)
        case AggregateFunction.MAX:
            return _extreme(argument_of(call).type, upwards=True)
        case AggregateFunction.STDDEV_SAMP | AggregateFunction.STDDEV_POP as function:
            return _spread(call, sample=function is AggregateFunction.STDDEV_SAMP, root=True)
        case AggregateFunction.VAR_SAMP | AggregateFunction.VAR_POP as function:
            return _spread(call, sample=function is AggregateFunction.VAR_SAMP, root=False)
        case AggregateFunction.BOOL_AND | AggregateFunction.BOOL_OR as function:
            return lambda: Truths(function is AggregateFunction.BOOL_AND)
        case _:
            return _list(call)


def _spread(call: AggregateCall, *, sample: bool, root: bool) -> Factory:
    argument = argument_of(call).type
    if not argument.is_integer and not argument.is_decimal:
        raise ValueError(f"{call.function.value.upper()} of {argument.sql} is not maintained incrementally")
    return _distinct(call, lambda: NumericSpread(sample, root))


def _list(call: AggregateCall) -> Factory:
    kind = ListKind(call)
    return lambda: ValueList(kind)


def _extreme(argument: SqlType, upwards: bool) -> Factory:
    form = argument.compared_form
    if argument.normal_form is None:
        return lambda: Extreme(form, upwards)
    # Of equal values that print differently, the text decides.
    return lambda: Extreme(lambda text: form(text) + text.encode(), upwards)


def _distinct(call: AggregateCall, inner: Factory) -> Factory:
    """`inner`, once for each value if the call says so."""
    argument = argument_of(call).type
    if not call.distinct:
        return inner
    if not argument.comparable:
        raise ValueError(f"DISTINCT of {argument.sql} is not maintained incrementally: its equality is not computed")
    form = argument.normal_form
    return lambda: Distinct(inner(), form)


def _sum(call: AggregateCall, argument: SqlType, averages: bool) -> Factory:
    if averages and call.type.is_decimal and (scale := scale_of(call.type)):
        cut = CutNumericAverage if argument.is_decimal else CutIntegerAverage
        return lambda: cut(scale)
    if argument.is_integer:
        if averages:
            return IntegerAverage
        return BigintSum if call.type.name == "int8" else IntegerSum
    factories = _SUMS.get(argument.name) if argument.rules.sum else None
    if factories is None:
        raise ValueError(f"{call.function.value.upper()} of {argument.sql} is not maintained incrementally")
    return factories[averages]
