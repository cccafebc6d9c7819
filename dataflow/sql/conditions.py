"""WHERE, ON and HAVING: a list of conjuncts, and the parameters among them.

A parameter is compared with an expression over the row, by ``=``, as a list (``IN (:ids)``, ``= ANY(:ids)``), as one
member of a list (``IN (:a, :b, 1)``) or by one of ``< <= > >=``. Anything else that has a parameter in it is a
condition like others, in which the parameter is *free* (`free_parameters`). A comparison with the current time is a
range, whose value no read gives (`current_time`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from dataflow.errors import EvaluationError, Span, UnsupportedParameter, UnsupportedQuery
from dataflow.evaluate import compile_scalar
from dataflow.plan.clock_bounds import ClockBound, compared_by
from dataflow.plan.expressions import TRUE, used_columns
from dataflow.plan.nodes import Members
from dataflow.scalar import Literal, Scalar
from dataflow.sql.current_time import TURNED, CurrentBound, clock_bounds, reads_clock
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import array_of, cast_type
from dataflow.sql.free_parameters import FreeParameters, exact_text
from dataflow.sql.syntax.parse import parameter_name, parameter_span, placeholder_of
from dataflow.sql.syntax.spans import span_of

_RANGES: dict[type[exp.Expr], str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


@dataclass(frozen=True, slots=True)
class BoundParameter:
    """``expression <operator> :name``, over the joined row (or over an aggregate's, in HAVING)."""

    name: str
    expression: Scalar
    span: Span | None
    #: ``expression IN (:name)``: a list.
    many: bool = False
    operator: str = "="
    #: The list is made of these; `name` is the first of their names.
    members: Members | None = None
    #: A correlation: what it equals of the row around the subquery. It goes where a parameter goes, until it is joined.
    outer: Scalar | None = None
    #: A comparison with the current time; `name` is then none that can be written.
    current: CurrentBound | None = None

    @property
    def title(self) -> str:
        """The parameter as the subject of an error."""
        return f"The parameter :{self.name}" if self.current is None else "The condition on the current time"

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that are written."""
        return (self.name,) if self.members is None else self.members.names

    @property
    def kind(self) -> tuple[bool, bool, Members | None]:
        """A name has one kind of comparison: by ``=``, as a list, with others, or as the end of a range."""
        return self.operator == "=", self.many, self.members

    def refused(self, reason: str) -> UnsupportedParameter:
        """Returns the refusal of the parameter in its place: a range could be of a free one."""
        one_value = True
        bound, sql_type = None, self.expression.type
        if self.many and self.members is None:
            sql_type = array_of(sql_type)
        if self.current is not None:
            one_value = self.current.coarse
            bound = ClockBound(0, self.operator, self.current.value, self.current.sql)
        free = sql_type if self.outer is None and one_value else None
        return UnsupportedParameter(reason, self.span, self.name, free, bound=bound)

    @property
    def single(self) -> bool:
        """True if it fixes one value: what is computed for each value of the column is then computed for the key."""
        return self.operator == "=" and not self.many


def bind_conditions(node: exp.Expr, binder: Binder, free: FreeParameters) -> tuple[list[Scalar], list[BoundParameter]]:
    """The conjuncts and parameters of a condition."""
    keyed, others = (bind_parts(parts, binder, free) for parts in split_by_keys(node, binder))
    return [*keyed[0], *others[0]], [*keyed[1], *others[1]]


def split_by_keys(node: exp.Expr, binder: Binder) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The conjuncts of a condition: those by which a parameter is a key, and the others."""
    keyed: list[exp.Expr] = []
    others: list[exp.Expr] = []
    for part in _parts(node, binder):
        (keyed if _is_comparison(part) and isinstance(part, exp.EQ | exp.In) else others).append(part)
    return keyed, others


def bind_parts(
    parts: Sequence[exp.Expr], binder: Binder, free: FreeParameters
) -> tuple[list[Scalar], list[BoundParameter]]:
    """The conjuncts and parameters of some conjuncts."""
    conjuncts: list[Scalar] = []
    parameters: list[BoundParameter] = []
    for part in parts:
        if _is_comparison(part) and not _is_free(part, binder, free):
            parameters.append(_parameter(part, binder))
            continue
        bounds = [_current(part, *bound) for bound in clock_bounds(part, binder)]
        if bounds:
            conjuncts += [_compared_freely(p, p.current, binder) for p in bounds if p.current and p.name in free]
            parameters += [p for p in bounds if p.name not in free]
            continue
        bound = _folded(binder.condition(part))
        if bound != TRUE:
            conjuncts.append(bound)
    return conjuncts, parameters


def _is_comparison(node: exp.Expr) -> bool:
    """Return whether a conjunct compares something without parameters with one, or with a list."""
    if node.find(exp.Placeholder) is None or node.find(exp.Select) is not None:
        return False
    if isinstance(node, exp.In):
        sides = [node.this, *(m for m in node.expressions if _bare_parameter(m) is None)]
        return all(side.find(exp.Placeholder) is None for side in sides)
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        return _bare_parameter(node.expression.this) is not None and node.this.find(exp.Placeholder) is None
    if not isinstance(node, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return False
    sides = [node.this, node.expression]
    known = [side for side in sides if side.find(exp.Placeholder) is None]
    return len(known) == 1 and any(_bare_parameter(side) is not None for side in sides)


def _is_free(node: exp.Expr, binder: Binder, free: FreeParameters) -> bool:
    """Return whether a comparison is a condition with free parameters: a range, a list, or one with an exact text,
    which is not the column's value."""
    names = [parameter_name(placeholder) for placeholder in node.find_all(exp.Placeholder)]
    types = [free[name] for name in names if name in free]
    listed = isinstance(node, exp.In) or isinstance(node.args.get("expression"), exp.Any)
    if type(node) in _RANGES or listed:
        return bool(types)
    return isinstance(node, exp.EQ) and exact_text(binder) in types


def _folded(condition: Scalar) -> Scalar:
    """A condition without columns as its value, unless it fails: upstream it fails only if there are rows."""
    if used_columns(condition):
        return condition
    try:
        return Literal(compile_scalar(condition)(()), condition.type)
    except EvaluationError:
        return condition


def _parts(node: exp.Expr, binder: Binder) -> Iterator[exp.Expr]:
    """The conjuncts of a condition; BETWEEN is two comparisons."""
    if isinstance(node, exp.And):
        for part in node.flatten():
            yield from _parts(part, binder)
    elif isinstance(node, exp.Paren):
        yield from _parts(node.this, binder)
    elif isinstance(node, exp.Between) and not node.args.get("symmetric") and _has_open_ends(node, binder):
        yield exp.GTE(this=node.this, expression=node.args["low"])
        yield exp.LTE(this=node.this, expression=node.args["high"])
    else:
        yield node


def _has_open_ends(node: exp.Between, binder: Binder) -> bool:
    """Return whether a parameter or the current time is at an end."""
    ends = (node.args["low"], node.args["high"])
    return any(end.find(exp.Placeholder) or reads_clock(end, binder) for end in ends)


def _current(node: exp.Expr, operator: str, expression: Scalar, bound: CurrentBound) -> BoundParameter:
    """The comparison with the current time as a parameter: one for each type, operator and value."""
    if not used_columns(expression):
        raise UnsupportedQuery("The current time must be compared with a column.", span_of(node))
    name = f":{expression.type.name} {operator} {bound.sql}"
    return BoundParameter(name, expression, span_of(node), operator=operator, current=bound)


def _compared_freely(parameter: BoundParameter, bound: CurrentBound, binder: Binder) -> Scalar:
    """The comparison with the current time as a condition: its value is a free parameter."""
    compared = compared_by(parameter.operator, parameter.expression.type)
    value = binder.parameter(placeholder_of(parameter.name, parameter.span, bound.node), binder)
    return functions.comparison(compared, parameter.expression, value)


# --- one parameter --------------------------------------------------------------------------------------------------


def _parameter(node: Any, binder: Binder) -> BoundParameter:
    """The comparison with a parameter that a conjunct is."""
    if isinstance(node, exp.In):
        return _listed(node, node.expressions, binder)
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        return _listed(node, [node.expression.this], binder)
    operator = "=" if isinstance(node, exp.EQ) else _RANGES[type(node)]
    placeholder = _bare_parameter(node.this)
    if placeholder is not None:
        return _compared(TURNED.get(operator, operator), node.expression, node.this, placeholder, binder)
    placeholder = _bare_parameter(node.expression)
    assert placeholder is not None
    return _compared(operator, node.this, node.expression, placeholder, binder)


def _listed(node: Any, members: Sequence[exp.Expr], binder: Binder) -> BoundParameter:
    """``column IN (:list)``, or several parameters and constants."""
    placeholders = [p for m in members if (p := _bare_parameter(m)) is not None]
    constants = [m for m in members if _bare_parameter(m) is None and not isinstance(m, exp.Null)]
    is_fixed = not any(constant.find(exp.Placeholder, exp.Column) for constant in constants)
    if not placeholders or not is_fixed or node.this.find(exp.Placeholder):
        raise UnsupportedQuery("IN takes a list, or parameters and constants.", span_of(node))
    expression = binder.dialect.parameter(binder.value(node.this))
    for member in members:
        if (placeholder := _bare_parameter(member)) is not None:
            _check(expression, "=", member, placeholder, binder)
    names = sorted({parameter_name(placeholder) for placeholder in placeholders})
    listed = None
    if len(members) > 1:
        if any("." in name for name in names):
            raise UnsupportedQuery("A claim of the token cannot be one of several members of IN.", span_of(node))
        texts = {_text(constant, expression, binder) for constant in constants}
        listed = Members(tuple(names), tuple(sorted(texts)))
    return BoundParameter(names[0], expression, parameter_span(placeholders[0]), many=True, members=listed)


def _text(constant: exp.Expr, expression: Scalar, binder: Binder) -> str:
    """A constant among the members, as keys have it: it compares as a parameter of that value does."""
    sql_type = expression.type
    number = isinstance(constant.this, exp.Literal) if isinstance(constant, exp.Neg) else not constant.is_string
    known = isinstance(constant, exp.Literal | exp.Neg) and sql_type.kind in ("base", "enum")
    try:
        if not (known and sql_type.takes_parameters and binder.dialect.constant_fits(sql_type, number)):
            raise ValueError("compared in another way")
        bound = _folded(binder.value(constant))
        if not isinstance(bound, Literal) or bound.value is None:
            raise ValueError("no constant")
        text = sql_type.parse(bound.value)
    except ValueError:
        reason = f"Beside parameters in IN, constants must be of type {sql_type.sql}."
        raise UnsupportedQuery(reason, span_of(constant)) from None
    return text if sql_type.normal_form is None else sql_type.normal_form(text)


def _compared(
    operator: str, other: exp.Expr, side: exp.Expr, placeholder: exp.Placeholder, binder: Binder
) -> BoundParameter:
    """``other <operator> side``, of which `side` is a parameter."""
    expression = binder.dialect.parameter(binder.value(other))
    _check(expression, operator, side, placeholder, binder)
    return BoundParameter(parameter_name(placeholder), expression, parameter_span(placeholder), operator=operator)


def _bare_parameter(node: exp.Expr) -> exp.Placeholder | None:
    """The parameter that `node` is, apart from parentheses and casts."""
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    return node if isinstance(node, exp.Placeholder) else None


def _check(expression: Scalar, operator: str, side: exp.Expr, placeholder: exp.Placeholder, binder: Binder) -> None:
    name, span = parameter_name(placeholder), parameter_span(placeholder)
    sql_type = expression.type
    if not used_columns(expression):
        raise UnsupportedQuery(f"The parameter :{name} must be compared with a column.", span)
    if not sql_type.comparable or sql_type.kind == "array":
        raise UnsupportedQuery(f"A parameter cannot be of type {sql_type.sql}.", span)
    if operator != "=" and not sql_type.orderable:
        raise UnsupportedQuery(
            f"The order of {sql_type.sql} values depends on a collation that is not byte order.", span
        )
    for cast in side.find_all(exp.Cast):
        target = _element(cast_type, cast.args["to"])
        if target.family != sql_type.family:
            raise UnsupportedQuery(f"The parameter :{name} is cast to another type than {sql_type.sql}.", span)
        if not binder.dialect.cast_keeps_value(target):
            raise UnsupportedQuery(f"The cast may make another value of the parameter :{name}.", span)


def _element(read: Any, node: Any) -> Any:
    """The type that a cast names, or that of the elements of an array."""
    array = isinstance(node, exp.DataType) and node.args.get("nested") and len(node.expressions) == 1
    return read(node.expressions[0] if array else node)


# --- several --------------------------------------------------------------------------------------------------------


def unify(parameters: Sequence[BoundParameter]) -> tuple[list[BoundParameter], list[Scalar]]:
    """Each parameter once; where a name is compared with several expressions, these equal the first.

    A range keeps each of its comparisons; a name has one kind of comparison.
    """
    first: dict[str, BoundParameter] = {}
    ranges: dict[BoundParameter, None] = {}
    conjuncts: list[Scalar] = []
    for parameter in parameters:
        known = first.setdefault(parameter.name, parameter)
        if known.kind != parameter.kind:
            raise UnsupportedQuery(f"{parameter.title} is compared in two ways.", parameter.span)
        if parameter.operator != "=":
            ranges.setdefault(parameter)
        elif known.expression != parameter.expression:
            conjuncts.append(_equal(known, parameter))
    return [*(p for p in first.values() if p.operator == "="), *_once(ranges)], conjuncts


def _equal(known: BoundParameter, parameter: BoundParameter) -> Scalar:
    if parameter.many or known.expression.type.family != parameter.expression.type.family:
        what = "two columns as a list" if parameter.many else "columns of two types"
        raise UnsupportedQuery(f"The parameter :{parameter.name} is compared with {what}.", parameter.span)
    return functions.comparison("=", known.expression, parameter.expression)


def _once(ranges: dict[BoundParameter, None]) -> list[BoundParameter]:
    """Range parameters without repetitions that differ in their place only."""
    return list({(p.name, p.expression, p.operator): p for p in reversed(ranges)}.values())[::-1]
