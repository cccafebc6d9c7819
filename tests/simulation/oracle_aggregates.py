"""Aggregate functions, computed anew from all rows of a group."""

from collections.abc import Sequence
from functools import cmp_to_key
from math import fsum, isqrt

from dataflow.plan.nodes import AggregateCall, AggregateFunction, CallOrder
from dataflow.types import Row, Value
from tests.simulation.oracle_values import (
    ERROR,
    FLOATS,
    SPECIAL,
    boolean,
    compile_scalar,
    divide_numeric,
    normal_of,
    order_of,
    parse_numeric,
    print_numeric,
    sum_numeric,
)

SPREADS = (
    AggregateFunction.STDDEV_SAMP,
    AggregateFunction.STDDEV_POP,
    AggregateFunction.VAR_SAMP,
    AggregateFunction.VAR_POP,
)
LISTS = (AggregateFunction.STRING_AGG, AggregateFunction.ARRAY_AGG)


def compare_values(a: Value, b: Value, term: CallOrder) -> int:
    """Two values as ORDER BY has them."""
    if a is None or b is None:
        nulls = (a is None) - (b is None)
        return -nulls if term.nulls_first else nulls
    if ERROR in (a, b):
        return (a == ERROR) - (b == ERROR)
    order = order_of(term.expression.type)
    x, y = order(a), order(b)
    result: int = (x > y) - (x < y)  # type: ignore[operator]
    return -result if term.descending else result


class CompiledCall:
    """One aggregate function over the rows of a group."""

    def __init__(self, call: AggregateCall) -> None:
        self.call = call
        self.function = call.function
        self.argument = None if call.argument is None else compile_scalar(call.argument)
        self.argument_type = None if call.argument is None else call.argument.type
        self.weight = None if call.weight is None else compile_scalar(call.weight)
        self.count = None if call.count is None else compile_scalar(call.count)
        self.keeps = None if call.keeps is None else compile_scalar(call.keeps)
        self.others = [compile_scalar(other) for other in call.others]
        self.order = [(compile_scalar(term.expression), term) for term in call.order]

    def evaluate(self, rows: Sequence[Row]) -> Value:
        """The function's result; `rows` may be empty only without GROUP BY."""
        if self.keeps is not None:
            rows = [row for row in rows if self.keeps(row) == "t"]
        if self.function in LISTS:
            return self.collected(rows)
        weights = [1 if self.weight is None else int(self.weight(row) or 0) for row in rows]
        if self.function is AggregateFunction.COUNT_ROWS:
            return str(sum(weights))
        assert self.argument is not None
        values = [
            (value, weight, 1 if self.count is None else int(self.count(row) or 0))
            for row, weight in zip(rows, weights, strict=True)
            if weight and (value := self.argument(row)) is not None
        ]
        if self.call.distinct:
            assert self.argument_type is not None
            normal = normal_of(self.argument_type)
            values = [(value, 1, 1) for value in {normal(value): value for value, _, _ in values}.values()]
        return self.of_values(values)

    def collected(self, rows: Sequence[Row]) -> Value:
        """string_agg and array_agg; their order is that of ORDER BY, which must leave no choice."""
        assert self.argument is not None
        assert self.argument_type is not None
        strings = self.function is AggregateFunction.STRING_AGG
        kept = [row for row in rows if not strings or self.argument(row) is not None]
        kept.sort(key=cmp_to_key(self.compare))
        items = [(self.argument(row), *[other(row) for other in self.others]) for row in kept]
        if self.call.distinct:
            items = list(dict.fromkeys(items))
        if not items:
            return None
        if not strings:
            return "{" + ",".join("NULL" if item[0] is None else item[0] or '""' for item in items) + "}"
        text = items[0][0] or ""
        for value, separator in items[1:]:
            text += (separator or "") + (value or "")
        return text

    def compare(self, a: Row, b: Row) -> int:
        """By ORDER BY."""
        for expression, term in self.order:
            if result := compare_values(expression(a), expression(b), term):
                return result
        return 0

    def of_values(self, values: list[tuple[str, int, int]]) -> Value:
        """The function of the group's non-NULL (value, weight, count of values summed up in it)."""
        if self.function is AggregateFunction.COUNT:
            return str(sum(weight * count for _, weight, count in values))
        if not values:
            return None
        if any(value == ERROR for value, _, _ in values):
            return ERROR
        if self.function is AggregateFunction.SUM:
            return self.sum([(value, weight) for value, weight, _ in values])
        if self.function is AggregateFunction.AVG:
            return self.average(values)
        if self.function in SPREADS:
            return self.spread([value for value, weight, _ in values for _ in range(weight)])
        if self.function in (AggregateFunction.BOOL_AND, AggregateFunction.BOOL_OR):
            every = self.function is AggregateFunction.BOOL_AND
            return boolean((all if every else any)(value == "t" for value, _, _ in values))
        assert self.argument_type is not None
        order = order_of(self.argument_type)
        if self.function not in (AggregateFunction.MIN, AggregateFunction.MAX):
            raise NotImplementedError(f"the oracle does not compute {self.function}")
        pick = min if self.function is AggregateFunction.MIN else max
        return pick((v for v, _, _ in values), key=order)  # type: ignore[arg-type]

    def sum(self, weighted: list[tuple[str, int]]) -> str:
        """SUM of at least one value."""
        if self.argument_type is not None and self.argument_type.name in FLOATS:
            return repr(fsum(float(value) for value, weight in weighted for _ in range(weight)))
        return sum_numeric(weighted)

    def spread(self, values: list[str]) -> Value:
        """STDDEV or VARIANCE of at least one integer or numeric."""
        sample = self.function in (AggregateFunction.STDDEV_SAMP, AggregateFunction.VAR_SAMP)
        if len(values) <= sample:
            return None
        if any(value in SPECIAL for value in values):
            return "NaN"
        parsed = [parse_numeric(value) for value in values]
        scale = max(s for _, s in parsed)
        units = [n * 10 ** (scale - s) for n, s in parsed]
        above = len(units) * sum(n * n for n in units) - sum(units) ** 2
        if not above:
            return "0"
        variance = divide_numeric(print_numeric(above, 2 * scale), len(units) * (len(units) - sample))
        if self.function in (AggregateFunction.VAR_SAMP, AggregateFunction.VAR_POP):
            return variance
        n, decimals = parse_numeric(variance)
        # Twice the root in units of the last decimal, cut, decides how to round.
        return print_numeric((isqrt(4 * n * 10**decimals) + 1) // 2, decimals)

    def average(self, values: list[tuple[str, int, int]]) -> str:
        """AVG of at least one value."""
        total = self.sum([(value, weight) for value, weight, _ in values])
        number = sum(weight * count for _, weight, count in values)
        if self.argument_type is not None and self.argument_type.name in FLOATS:
            return repr(float(total) / number)
        return divide_numeric(total, number)
