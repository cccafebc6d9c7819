"""The meaning of PostgreSQL's expressions: columns, constants, comparisons, logic, choices and casts.

Not here: plain functions and operators (`calls`).
"""

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import TRUE
from dataflow.scalar import Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import UNKNOWN, cast_type, enum_type, type_of
from dataflow.sql.expressions.written_calls import has_others, is_parameter_list
from dataflow.sql.postgres import calls

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "is not distinct from",
    exp.NullSafeNEQ: "is distinct from",
}


def _column(binder: Binder, node: Any) -> Scalar:
    if isinstance(node.this, exp.Star):
        raise UnsupportedQuery("A whole row as one value is not kept up to date yet.")
    return binder.scope.resolve(node)


def _literal(_: Binder, node: Any) -> Scalar:
    return Literal(str(node.this), UNKNOWN) if node.is_string else functions.constant_of(str(node.this))


def _boolean(_: Binder, node: Any) -> Scalar:
    return Literal("t" if node.this else "f", TRUE.type)


def _comparison(binder: Binder, node: Any) -> Scalar:
    operator = _COMPARISONS[type(node)]
    rows = [_row(side) for side in (node.this, node.expression)]
    if rows[0] is not None and rows[1] is not None:
        return functions.row_comparison(operator, binder.all(rows[0]), binder.all(rows[1]))
    quantified = _quantifier(node.expression)
    if quantified is not None:
        quantifier, array = quantified
        return functions.quantified(quantifier, operator, binder.bind(node.this), binder.bind(array))
    return functions.comparison(operator, binder.bind(node.this), binder.bind(node.expression))


def _row(node: Any) -> list[exp.Expr] | None:
    """The members of ``(a, b)`` or ``ROW(a, b)``."""
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "row":
        return list(node.expressions)
    return None


def _quantifier(node: Any) -> tuple[str, exp.Expr] | None:
    """``any`` or ``all``, and the array behind it; not of a subquery."""
    if not isinstance(node, exp.Any | exp.All) or isinstance(node.this, exp.Query):
        return None
    return "any" if isinstance(node, exp.Any) else "all", node.this


def _logical(binder: Binder, node: Any) -> Scalar:
    parts = [binder.bind(part) for part in node.flatten()]
    return functions.logical("and" if isinstance(node, exp.And) else "or", parts)


def _not(binder: Binder, node: Any) -> Scalar:
    return functions.logical("not", [binder.bind(node.this)])


def _is(binder: Binder, node: Any) -> Scalar:
    words = {exp.Null: "null", exp.Boolean: "true"}
    word = words.get(type(node.expression))
    if word is None or _row(node.this) is not None:
        raise UnsupportedQuery(f"{node.sql('postgres')} is not on the list of exact expressions.")
    if isinstance(node.expression, exp.Boolean) and not node.expression.this:
        word = "false"
    return functions.test(binder.bind(node.this), f"is {'not ' if node.args.get('negate') else ''}{word}")


def _in(binder: Binder, node: Any) -> Scalar:
    if has_others(node, "this", "expressions"):
        raise UnsupportedQuery("IN takes a list of values here.")
    if not node.expressions:
        raise InvalidQuery("IN takes at least one value.")
    row = _row(node.this)
    rows = _values(node.expressions)
    if rows is not None:
        return _in_values(binder, [node.this] if row is None else row, rows)
    if row is None:
        subject, members = binder.bind(node.this), binder.all(node.expressions)
        if is_parameter_list(node):
            return functions.quantified("any", "=", subject, members[0])
        return functions.in_list(subject, members)
    subjects = binder.all(row)
    others = [_row(e) or [] for e in node.expressions]
    return functions.logical("or", [functions.row_comparison("=", subjects, binder.all(other)) for other in others])


def _in_values(binder: Binder, subject: list[exp.Expr], rows: list[exp.Expr]) -> Scalar:
    """``subject IN (VALUES …)``. Unlike members of a list, constants there have types of their own."""
    subjects = binder.all(subject)
    members = [[binder.value(part) for part in row.expressions] for row in rows]
    if any(len({value.type for value in column}) > 1 for column in zip(*members, strict=False)):
        raise UnsupportedQuery("IN of VALUES of different types is not on the list of exact expressions.")
    if len(subjects) == 1 and all(len(row) == 1 for row in members):
        return functions.in_list(subjects[0], [value for (value,) in members])
    return functions.logical("or", [functions.row_comparison("=", subjects, row) for row in members])


def _values(members: list[exp.Expr]) -> list[exp.Expr] | None:
    """The rows of ``(VALUES (a, b), (c, d))``; None for other members of an IN."""
    first = members[0]
    if len(members) > 1 or not isinstance(first, exp.Values) or first.args.get("alias") is not None:
        return None
    return list(first.expressions)


def _between(binder: Binder, node: Any) -> Scalar:
    if has_others(node, "this", "low", "high", "symmetric"):
        raise UnsupportedQuery(f"{node.sql('postgres')} is not on the list of exact expressions.")
    bind = functions.between_symmetric if node.args.get("symmetric") else functions.between
    return bind(binder.bind(node.this), binder.bind(node.args["low"]), binder.bind(node.args["high"]))


def _coalesce(binder: Binder, node: Any) -> Scalar:
    binder.check_function(node, "this", "expressions")
    return functions.coalesce([binder.bind(node.this), *binder.all(node.expressions)])


def _nullif(binder: Binder, node: Any) -> Scalar:
    binder.check_function(node, "this", "expression")
    return functions.nullif(binder.bind(node.this), binder.bind(node.expression))


def _case(binder: Binder, node: Any) -> Scalar:
    subject = None if node.this is None else binder.bind(node.this)
    branches = []
    for branch in node.args["ifs"]:
        when = binder.bind(branch.this)
        if subject is not None:
            when = functions.comparison("=", subject, when)
        branches.append((when, binder.bind(branch.args["true"])))
    default = node.args.get("default")
    return functions.case(branches, Literal(None, UNKNOWN) if default is None else binder.bind(default))


def _cast(binder: Binder, node: Any) -> Scalar:
    target = enum_type(node.args["to"], binder.catalog) or cast_type(node.args["to"])
    if node.args.get("format") or node.args.get("default"):
        raise UnsupportedQuery("This cast is not on the list of exact functions.")
    array = node.this.unnest()
    if target.kind == "array" and isinstance(array, exp.Array) and array.expressions:
        # The elements are cast themselves: to text, a constant would be text first.
        return functions.array_of_type(binder.all(array.expressions), target, binder.text)
    bound = binder.bind(node.this)
    return bound if _is_list_of(bound.type, target, binder) else functions.cast_to(bound, target, binder.text)


def _is_list_of(given: SqlType, target: SqlType, binder: Binder) -> bool:
    """Return whether a cast to an array leaves a list what it is."""
    if given.element is None or target.element is None:
        return False
    return given.element.family == target.element.family and binder.dialect.cast_keeps_value(target.element)


def _date(binder: Binder, node: Any) -> Scalar:
    """``date(x)`` is a cast."""
    binder.check_function(node, "this")
    return functions.cast(binder.bind(node.this), type_of("date"))


BINDERS: dict[type[exp.Expr], Callable[[Binder, Any], Scalar]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.RawString: lambda _binder, node: Literal(str(node.this), UNKNOWN),
    exp.Boolean: _boolean,
    exp.Null: lambda _binder, _node: Literal(None, UNKNOWN),
    exp.Paren: lambda binder, node: binder.bind(node.this),
    **dict.fromkeys(_COMPARISONS, _comparison),
    exp.And: _logical,
    exp.Or: _logical,
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Date: _date,
    exp.Placeholder: lambda binder, node: binder.parameter(node, binder),
    **calls.BINDERS,
}
