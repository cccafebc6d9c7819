"""Comparisons of a column with the current time: ``created_at > now() - interval '1 hour'``, ``day = CURRENT_DATE``.

A condition without the time beside one, as in ``expires_at IS NULL OR expires_at > now()``, gives the column another
value where it holds: one that is behind, or before, every time.

Not here: which calls are the current time (the dialects), text that may become it (`clock`), what becomes of the
bounds (`conditions`, `dataflow.plan.clock_bounds`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from dataflow.errors import EvaluationError, UnsupportedQuery
from dataflow.evaluate import compile_scalar
from dataflow.plan.clock_bounds import MOMENTS, BoundAt, bound_at, ends_of_time, is_coarse
from dataflow.scalar import Call, Literal, Scalar
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.scope import Scope
from dataflow.sql.syntax.spans import span_of

_RANGES: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.LT: ("<",),
    exp.LTE: ("<=",),
    exp.GT: (">",),
    exp.GTE: (">=",),
    exp.EQ: (">=", "<="),
}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: What stands for other rows or values than the time.
_ROWS = (exp.Column, exp.Placeholder, exp.Query, exp.AggFunc, exp.Window)
#: Hours in which a bound must have a value: of a leap day, at the start of a year, and far ahead (2024 to 2100).
_SAMPLES_US = (1_709_164_800_000_000, 1_735_689_600_000_000, 4_102_444_800_000_000)
_YEAR_END_US = 1_735_689_599_999_999


@dataclass(frozen=True, slots=True)
class CurrentBound:
    """The value that a column is compared with, over the row of a time, and as it is written."""

    value: Scalar
    sql: str
    #: Whether many reads have the same value.
    coarse: bool
    #: The comparison.
    node: exp.Expr = field(compare=False, repr=False)


class _TimeBinder(Binder):
    """Binds expressions of the current time."""

    def bind(self, node: exp.Expr | None) -> Scalar:
        """The scalar that `node` means over the row of a time."""
        found = None if node is None else self.dialect.current_time(node, self.sql)
        return super().bind(node) if found is None else found


def reads_clock(node: exp.Expr, binder: Binder) -> bool:
    """Return whether the current time stands in `node`, outside of subqueries."""
    found = node.walk(prune=lambda n: isinstance(n, exp.Query))
    return any(binder.dialect.current_time(n, binder.sql) is not None for n in found)


def clock_bounds(node: Any, binder: Binder) -> Iterator[tuple[str, Scalar, CurrentBound]]:
    """The bounds that a conjunct is: comparison, column and value. None if it is something else, which may still have
    the current time in it. Raises UnsupportedQuery."""
    if isinstance(node, exp.Or):
        yield from _alternatives(node, binder)
        return
    operators = _RANGES.get(type(node), ())
    sides = [_is_clock(side, binder) for side in (node.this, node.expression)] if operators else []
    if sides.count(True) != 1:
        return
    other, side = (node.expression, node.this) if sides[0] else (node.this, node.expression)
    if reads_clock(other, binder) or other.find(exp.Placeholder, exp.Query) is not None:
        return
    value = _value(side, binder)
    column = binder.value(other)
    if not (_is_moment(column) and _is_moment(value)):
        raise UnsupportedQuery(
            f"Comparing {column.type.sql} with the current time as {value.type.sql} is not kept up to date.",
            span_of(node),
        )
    for operator in operators:
        turned = TURNED[operator] if sides[0] else operator
        bound = bound_at(compile_scalar(value), turned, column.type)
        _check_values(bound, node)
        coarse = is_coarse(bound, _SAMPLES_US)
        yield turned, column, CurrentBound(value, side.sql(binder.dialect.printer), coarse, node)


def _alternatives(node: exp.Or, binder: Binder) -> Iterator[tuple[str, Scalar, CurrentBound]]:
    """The bounds that ``condition OR column > time`` is: of an expression, which is an end of time where the condition
    holds."""
    sides = [side.unnest() for side in node.flatten()]
    timed = [side for side in sides if reads_clock(side, binder)]
    others = [side for side in sides if side not in timed]
    if len(timed) != 1 or any(other.find(exp.Placeholder, exp.Query) is not None for other in others):
        return
    for operator, column, bound in clock_bounds(timed[0], binder):
        end = Literal(ends_of_time(column.type)[operator in (">", ">=")], column.type)
        cases = [part for other in others for part in (binder.condition(other), end)]
        yield operator, Call("case", (*cases, column), column.type), bound


def _is_clock(node: exp.Expr, binder: Binder) -> bool:
    return node.find(*_ROWS) is None and reads_clock(node, binder)


def _value(node: exp.Expr, binder: Binder) -> Scalar:
    def refuse(call: exp.Expr, _: Binder) -> Scalar:
        raise UnsupportedQuery("An aggregate of the current time is not kept up to date.", span_of(call))

    return _TimeBinder(binder.sql, Scope(), binder.dialect, refuse, catalog=binder.catalog).value(node)


def _is_moment(expression: Scalar) -> bool:
    return expression.type.kind == "base" and expression.type.name in MOMENTS


def _check_values(bound: BoundAt, node: exp.Expr) -> None:
    """Refuses a value that the upstream may have no finite moment for."""
    try:
        for unix_us in (*_SAMPLES_US, _YEAR_END_US):
            bound(unix_us)
    except (EvaluationError, ValueError) as error:
        raise UnsupportedQuery(f"The bound of a time window has no finite value: {error}.", span_of(node)) from None
