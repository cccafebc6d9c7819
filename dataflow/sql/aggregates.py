"""Aggregate functions of a SELECT: collected while its expressions are bound, and the grouping of what stands beside.

While binding, the result of the k-th call is column `FIRST_CALL` + k; `Grouping` turns that, and group columns, into
columns of the aggregate.
"""

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import INT8, NUMERIC, substitute
from dataflow.plan.nodes import AggregateCall, AggregateFunction
from dataflow.plan.result_types import sum_type, summable
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql import functions
from dataflow.sql.bind import Binder
from dataflow.sql.spans import span_of
from dataflow.sql.types import UNKNOWN
from dataflow.values import one_text

FIRST_CALL = 1_000_000
#: Called for a column that is not grouped: raises unless the group columns determine it.
OnMissing = Callable[[ColumnRef], None]
_FUNCTIONS: dict[type[exp.Expr], AggregateFunction] = {
    exp.Count: AggregateFunction.COUNT,
    exp.Sum: AggregateFunction.SUM,
    exp.Avg: AggregateFunction.AVG,
    exp.Min: AggregateFunction.MIN,
    exp.Max: AggregateFunction.MAX,
}
#: Types without MIN and MAX in some supported version of the upstream.
_NO_EXTREMES = frozenset({"bool", "uuid", "bytea", "name"})


class Calls:
    """The aggregate calls of one SELECT."""

    def __init__(self) -> None:
        self.calls: dict[AggregateCall, int] = {}
        self._depth = 0

    def bind(self, node: exp.Expr, binder: Binder) -> Scalar:
        """The result of an aggregate function, as a column."""
        if self._depth:
            raise InvalidQuery("Aggregate functions cannot be nested.", span_of(node))
        self._depth += 1
        try:
            call = self._call(node, binder)
        finally:
            self._depth -= 1
        return ColumnRef(FIRST_CALL + self.calls.setdefault(call, len(self.calls)), call.type)

    def _call(self, node: Any, binder: Binder) -> AggregateCall:
        kept: Scalar | None = None
        if isinstance(node, exp.Filter):
            kept = functions.condition(binder.bind(node.expression.this))
            node = node.this
        function = _FUNCTIONS.get(type(node))
        if function is None or binder.written_name(node) != function.value:
            raise UnsupportedQuery(f"{binder.written_name(node).upper()} is not kept up to date yet.", span_of(node))
        if isinstance(node.this, exp.Distinct | exp.Order) or any(
            v for k, v in node.args.items() if k not in ("this", "big_int")
        ):
            raise UnsupportedQuery(
                f"{function.value.upper()} with DISTINCT, ORDER BY or several arguments is not kept up to date yet.",
                span_of(node),
            )
        if isinstance(node.this, exp.Star):
            if function is not AggregateFunction.COUNT:
                raise InvalidQuery(f"{function.value.upper()} takes an expression, not *.", span_of(node))
            return _count_rows(kept)
        argument = functions.settled(binder.bind(node.this))
        _check(function, argument.type)
        if kept is not None:
            argument = functions.case([(kept, argument)], Literal(None, UNKNOWN))
        return AggregateCall(function, argument, _result(function, argument.type))


def _count_rows(kept: Scalar | None) -> AggregateCall:
    if kept is None:
        return AggregateCall(AggregateFunction.COUNT_ROWS, None, INT8)
    one = functions.case([(kept, Literal("1", INT8))], Literal(None, UNKNOWN))
    return AggregateCall(AggregateFunction.COUNT, one, INT8)


def _check(function: AggregateFunction, argument: SqlType) -> None:
    name = function.value.upper()
    if function in (AggregateFunction.SUM, AggregateFunction.AVG) and not summable(argument):
        floats = " depends on the order of rows, which is the upstream's choice." if "float" in argument.name else ""
        raise UnsupportedQuery(f"{name} of {argument.sql}{floats or ' is not kept up to date yet.'}")
    if function in (AggregateFunction.MIN, AggregateFunction.MAX):
        functions.sortable(Literal(None, argument))
        if argument.name in _NO_EXTREMES:
            raise UnsupportedQuery(f"{name} of {argument.sql} is not kept up to date yet.")
        if not one_text(argument):
            raise UnsupportedQuery(
                f"{name} of {argument.sql}: equal values may print differently, and which of them the upstream prints"
                " depends on the order of rows."
            )


def _result(function: AggregateFunction, argument: SqlType) -> SqlType:
    match function:
        case AggregateFunction.COUNT:
            return INT8
        case AggregateFunction.SUM:
            return sum_type(argument)
        case AggregateFunction.AVG:
            return NUMERIC
    return SqlType("text", "text", collation=argument.collation) if argument.name == "varchar" else argument


def refuse_aggregate(node: exp.Expr, binder: Binder) -> Scalar:
    """In WHERE, ON and GROUP BY there are none."""
    if isinstance(node, exp.Filter | exp.WithinGroup) or type(node) in _FUNCTIONS:
        raise InvalidQuery("Aggregate functions cannot stand in WHERE, ON or GROUP BY.", span_of(node))
    raise UnsupportedQuery(f"{binder.written_name(node).upper()} is not kept up to date yet.", span_of(node))


class Grouping:
    """The group columns: expressions over the joined row.

    Maintains: `expressions` has no expression twice.
    """

    def __init__(self) -> None:
        self.expressions: list[Scalar] = []

    def add(self, expression: Scalar) -> int:
        """The place of a group column."""
        if expression not in self.expressions:
            self.expressions.append(expression)
        return self.expressions.index(expression)

    def place(self, expression: Scalar, missing: OnMissing) -> Scalar:
        """An expression of the grouped SELECT over the group columns; calls keep their numbers for `settle`."""
        if expression in self.expressions:
            return ColumnRef(self.expressions.index(expression), expression.type)
        if isinstance(expression, ColumnRef):
            if expression.index >= FIRST_CALL:
                return expression
            missing(expression)
            return ColumnRef(self.add(expression), expression.type)
        if isinstance(expression, Literal):
            return expression
        arguments = tuple(self.place(a, missing) for a in expression.arguments)
        return Call(expression.function, arguments, expression.type)

    def settle(self, expression: Scalar) -> Scalar:
        """Numbers of calls as columns behind the group columns, once no group column comes any more."""

        def behind(ref: ColumnRef) -> Scalar:
            if ref.index < FIRST_CALL:
                return ref
            return ColumnRef(len(self.expressions) + ref.index - FIRST_CALL, ref.type)

        return substitute(expression, behind)
