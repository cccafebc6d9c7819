"""WHERE, ON and HAVING: a list of conjuncts, and the parameters among them (``column = :name``)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dataflow.errors import Span, UnsupportedQuery
from dataflow.evaluate import compile_scalar
from dataflow.plan.expressions import TRUE, used_columns
from dataflow.scalar import Literal, Scalar
from dataflow.sql import functions
from dataflow.sql.bind import Binder
from dataflow.sql.parse import parameter_name, parameter_span
from dataflow.sql.spans import span_of
from dataflow.sql.types import cast_type
from dataflow.values import comparable, family


@dataclass(frozen=True, slots=True)
class BoundParameter:
    """``expression = :name``, over the joined row (or over an aggregate's, in HAVING)."""

    name: str
    expression: Scalar
    span: Span | None


def bind_conditions(node: exp.Expr, binder: Binder) -> tuple[list[Scalar], list[BoundParameter]]:
    """The conjuncts and parameters of a condition."""
    conjuncts: list[Scalar] = []
    parameters: list[BoundParameter] = []
    for part in _parts(node):
        parameter = _parameter(part, binder)
        if parameter is not None:
            parameters.append(parameter)
            continue
        bound = _folded(binder.condition(part))
        if bound != TRUE:
            conjuncts.append(bound)
    return conjuncts, parameters


def _folded(condition: Scalar) -> Scalar:
    """A condition without columns as its value."""
    if used_columns(condition):
        return condition
    return Literal(compile_scalar(condition)(()), condition.type)


def _parts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.And):
        for part in node.flatten():
            yield from _parts(part)
    elif isinstance(node, exp.Paren):
        yield from _parts(node.this)
    else:
        yield node


def _parameter(node: exp.Expr, binder: Binder) -> BoundParameter | None:
    placeholder = node.find(exp.Placeholder)
    if placeholder is None or node.find(exp.Select) is not None:
        return None
    span = span_of(node)
    if not isinstance(node, exp.EQ):
        raise UnsupportedQuery(_why_not(node, parameter_name(placeholder)), span)
    sides = [_bare_parameter(node.this), _bare_parameter(node.expression)]
    if sides.count(None) != 1:
        raise UnsupportedQuery(_why_not(node, parameter_name(placeholder)), span)
    other, side = (node.expression, node.this) if sides[0] is not None else (node.this, node.expression)
    expression = binder.bind(other)
    _check(expression, side, placeholder)
    return BoundParameter(parameter_name(placeholder), expression, parameter_span(placeholder))


def _bare_parameter(node: exp.Expr) -> exp.Placeholder | None:
    """The parameter that `node` is, apart from parentheses and casts."""
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    return node if isinstance(node, exp.Placeholder) else None


def _check(expression: Scalar, side: exp.Expr, placeholder: exp.Placeholder) -> None:
    name, span = parameter_name(placeholder), parameter_span(placeholder)
    sql_type = expression.type
    if isinstance(expression, Literal):
        raise UnsupportedQuery(f"The parameter :{name} must be compared with a column.", span)
    if not comparable(sql_type) or sql_type.kind == "array":
        raise UnsupportedQuery(f"A parameter cannot be of type {sql_type.sql}.", span)
    for cast in side.find_all(exp.Cast):
        if family(cast_type(cast.args["to"])) != family(sql_type):
            raise UnsupportedQuery(f"The parameter :{name} is cast to another type than {sql_type.sql}.", span)


def _why_not(node: exp.Expr, name: str) -> str:
    if isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.Between):
        return f"Range parameters are not kept up to date yet: :{name} is not compared with `=`."
    if isinstance(node, exp.In):
        return f"Lists of parameters are not kept up to date yet (:{name})."
    return f"The parameter :{name} may only stand in a condition `column = :{name}` that is ANDed with the others, yet."


def unify(parameters: Sequence[BoundParameter]) -> tuple[list[BoundParameter], list[Scalar]]:
    """Each parameter once; where a name is compared with several expressions, these equal the first."""
    first: dict[str, BoundParameter] = {}
    conjuncts: list[Scalar] = []
    for parameter in parameters:
        known = first.setdefault(parameter.name, parameter)
        if known.expression != parameter.expression:
            if family(known.expression.type) != family(parameter.expression.type):
                raise UnsupportedQuery(
                    f"The parameter :{parameter.name} is compared with columns of two types.", parameter.span
                )
            conjuncts.append(functions.comparison("=", known.expression, parameter.expression))
    return list(first.values()), conjuncts
