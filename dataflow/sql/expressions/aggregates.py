"""Aggregate functions of a SELECT: collected while its expressions are bound, and the grouping of what stands beside.

While binding, the result of the k-th call is column `FIRST_CALL` + k; `GroupBy` turns that, and group columns, into
columns of the aggregate.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import substitute
from dataflow.plan.nodes import AggregateCall
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.sql.syntax.spans import span_of

if TYPE_CHECKING:
    from dataflow.sql.expressions.bind import Binder

FIRST_CALL = 1_000_000
#: Results of window functions have numbers from here on (`windows`); grouping leaves them alone.
FIRST_WINDOW = 2_000_000
#: Called for a column that is not grouped: raises unless the group columns determine it.
OnMissing = Callable[[ColumnRef], None]


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A function call as the SQL has it, taken apart."""

    name: str
    #: None for ``count(*)``.
    arguments: tuple[exp.Expr, ...] | None
    distinct: bool = False
    order: tuple[exp.Expr, ...] = ()
    filter: exp.Expr | None = None
    #: ORDER BY of WITHIN GROUP.
    within: tuple[exp.Expr, ...] = ()


def written_call(node: Any, binder: "Binder") -> WrittenCall:
    """The call of an aggregate's (or window's) function as written, perhaps with FILTER."""
    condition: exp.Expr | None = None
    if isinstance(node, exp.Filter):
        condition, node = node.expression.this, node.this
    if isinstance(node, exp.WithinGroup):
        within = tuple(node.expression.expressions)
        return replace(written_call(node.this, binder), within=within, filter=condition)
    name = binder.written_name(node)
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        raise UnsupportedQuery("IGNORE NULLS and RESPECT NULLS are not kept up to date.", span_of(node))
    if isinstance(node.this, exp.Star):
        return WrittenCall(name, None, filter=condition)
    arguments: list[exp.Expr] = []
    order: tuple[exp.Expr, ...] = ()
    distinct = False
    for part in _parts(node):
        inner = part
        if isinstance(inner, exp.Order):
            order, inner = tuple(inner.expressions), inner.this
        if isinstance(inner, exp.Distinct):
            distinct = True
            arguments += inner.expressions
        else:
            arguments.append(inner)
    return WrittenCall(name, tuple(arguments), distinct, order, condition)


def _parts(node: exp.Expr) -> list[Any]:
    """A function's arguments in the order in which they are written."""
    known = ("this", "expressions", "expression", "separator", "offset", "default")
    if any(v for k, v in node.args.items() if k not in (*known, "big_int")):
        raise UnsupportedQuery(f"{node.sql('postgres')} is not kept up to date.", span_of(node))
    parts: list[Any] = []
    for key in known:
        value = node.args.get(key)
        if isinstance(value, list):
            parts += value
        elif isinstance(value, exp.Expr):
            parts.append(value)
    return parts


class Calls:
    """The aggregate calls of one SELECT."""

    def __init__(self) -> None:
        self.calls: dict[AggregateCall, int] = {}
        self._depth = 0

    @property
    def inside(self) -> bool:
        """True if the arguments of an aggregate are being bound."""
        return self._depth > 0

    def bind(self, node: exp.Expr, binder: "Binder") -> Scalar:
        """The result of an aggregate function, as a column."""
        if self._depth:
            raise InvalidQuery("Aggregate functions cannot be nested.", span_of(node))
        self._depth += 1
        try:
            call = binder.dialect.aggregate_call(written_call(node, binder), binder)
        finally:
            self._depth -= 1
        result = ColumnRef(FIRST_CALL + self.calls.setdefault(call, len(self.calls)), call.type)
        return binder.dialect.aggregate_value(result, call)


def refuse_aggregate(node: exp.Expr, binder: "Binder") -> Scalar:
    """In WHERE, ON and GROUP BY there are none."""
    if isinstance(node, exp.Window):
        raise InvalidQuery("Window functions cannot stand in WHERE, ON or GROUP BY.", span_of(node))
    if isinstance(node, exp.Filter | exp.WithinGroup) or binder.written_name(node) in binder.dialect.aggregates:
        raise InvalidQuery("Aggregate functions cannot stand in WHERE, ON or GROUP BY.", span_of(node))
    raise UnsupportedQuery(f"{binder.written_name(node).upper()} is not kept up to date.", span_of(node))


class GroupBy:
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
            if not FIRST_CALL <= ref.index < FIRST_WINDOW:
                return ref
            return ColumnRef(len(self.expressions) + ref.index - FIRST_CALL, ref.type)

        return substitute(expression, behind)
