"""Typed calls: which functions and operators a plan may use on which types, with the types PostgreSQL resolves them to.

Constants take the type of their surroundings as in PostgreSQL, and their text is the type's output form. What is not
here, or not exactly PostgreSQL's on these types, is an UnsupportedQuery.
"""

from collections.abc import Sequence
from dataclasses import replace

from dataflow.errors import UnsupportedQuery
from dataflow.evaluate import castable, comparison_forms, compile_scalar, like_pattern
from dataflow.plan.expressions import BOOL, INT4, INT8, NUMERIC
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.types import TEXT, UNKNOWN
from dataflow.values import FLOATS, INTEGERS, comparable, family, orderable, parse_parameter

_WIDTHS = {"int2": 2, "int4": 4, "int8": 8}
_TEXTS = frozenset({"text", "varchar"})


def constant_of(text: str) -> Literal:
    """A number as it is written in SQL, with the type PostgreSQL gives it."""
    if text.isdecimal():
        for sql_type, limit in ((INT4, 2**31), (INT8, 2**63)):
            if int(text) < limit:
                return Literal(str(int(text)), sql_type)
    return Literal(_parsed(NUMERIC, text), NUMERIC)


def _parsed(sql_type: SqlType, text: str) -> str:
    try:
        return parse_parameter(sql_type, text)
    except ValueError as error:
        raise UnsupportedQuery(f"The constant {text!r} is not read as {sql_type.sql}: {error}.") from error


def typed(expression: Scalar, sql_type: SqlType) -> Scalar:
    """A constant of no type yet as one of `sql_type`; anything else as it is."""
    if not isinstance(expression, Literal) or expression.type != UNKNOWN:
        return expression
    target = plain_type(sql_type)
    return Literal(None if expression.value is None else _parsed(target, expression.value), target)


def plain_type(sql_type: SqlType) -> SqlType:
    """The type without a length or scale."""
    return replace(sql_type, sql=sql_type.name) if sql_type.kind == "base" else sql_type


def settled(expression: Scalar) -> Scalar:
    """The expression, text if nothing else has decided its type."""
    return typed(expression, TEXT)


# --- comparisons ----------------------------------------------------------------------------------------------------


def comparison(operator: str, left: Scalar, right: Scalar) -> Scalar:
    """A comparison (also ``is distinct from`` and its negation)."""
    left, right = _comparable_sides(left, right)
    try:
        comparison_forms("=" if operator in ("=", "<>") or "distinct" in operator else "<", left.type, right.type)
    except ValueError as error:
        raise UnsupportedQuery(_why_not(operator, left.type, right.type)) from error
    return Call(operator, (left, right), BOOL)


def _comparable_sides(left: Scalar, right: Scalar) -> tuple[Scalar, Scalar]:
    if left.type == UNKNOWN and right.type == UNKNOWN:
        return settled(left), settled(right)
    left, right = typed(left, right.type), typed(right, left.type)
    return _retyped(left, right.type), _retyped(right, left.type)


def _retyped(expression: Scalar, other: SqlType) -> Scalar:
    """An integer constant as one of the number type it is compared with: the same comparison, one spelling."""
    if not isinstance(expression, Literal) or expression.value is None or expression.type.name not in INTEGERS:
        return expression
    if other.kind == "base" and (other.name in INTEGERS or other.name == "numeric"):
        try:
            return Literal(parse_parameter(other, expression.value), plain_type(other))
        except ValueError:
            return expression
    return expression


def _why_not(operator: str, left: SqlType, right: SqlType) -> str:
    if family(left) != family(right):
        return f"Comparing {left.sql} with {right.sql} is not on the list of exact functions."
    if operator in ("=", "<>") or "distinct" in operator or not comparable(left):
        return f"When two values of type {left.sql} are equal is not known exactly."
    return f"The order of {left.sql} values depends on a collation that is not byte order."


def in_list(subject: Scalar, members: Sequence[Scalar]) -> Scalar:
    """``subject IN (members)``."""
    pairs = [_comparable_sides(subject, m) for m in members]
    same = all(family(s.type) == family(m.type) and comparable(s.type) for s, m in pairs)
    if same and all(isinstance(m, Literal) for _, m in pairs):
        return Call("in", (pairs[0][0], *(m for _, m in pairs)), BOOL)
    equalities = [comparison("=", subject, m) for m in members]
    return logical("or", equalities)


def between(subject: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """``subject BETWEEN low AND high``."""
    return logical("and", [comparison(">=", subject, low), comparison("<=", subject, high)])


# --- logic and choices ----------------------------------------------------------------------------------------------


def logical(operator: str, parts: Sequence[Scalar]) -> Scalar:
    """AND, OR or NOT."""
    arguments = tuple(condition(p) for p in parts)
    return arguments[0] if len(arguments) == 1 and operator != "not" else Call(operator, arguments, BOOL)


def condition(expression: Scalar) -> Scalar:
    """The expression where a boolean must stand."""
    expression = typed(expression, BOOL)
    if expression.type.name != "bool":
        raise UnsupportedQuery(f"A condition must be a boolean, this is {expression.type.sql}.")
    return expression


def test(expression: Scalar, name: str) -> Scalar:
    """``is null``, ``is true`` and the like."""
    subject = settled(expression) if name.endswith("null") else condition(expression)
    return Call(name, (subject,), BOOL)


def coalesce(parts: Sequence[Scalar]) -> Scalar:
    """The first that is not NULL."""
    arguments = same_type("COALESCE", parts)
    return arguments[0] if len(arguments) == 1 else Call("coalesce", tuple(arguments), arguments[0].type)


def case(branches: Sequence[tuple[Scalar, Scalar]], otherwise: Scalar) -> Scalar:
    """CASE WHEN … THEN … ELSE … END."""
    values = same_type("CASE", [*(value for _, value in branches), otherwise])
    arguments: list[Scalar] = []
    for (when, _), value in zip(branches, values[:-1], strict=True):
        arguments += [condition(when), value]
    return Call("case", (*arguments, values[-1]), values[-1].type)


def nullif(left: Scalar, right: Scalar) -> Scalar:
    """NULLIF."""
    compared = comparison("=", left, right)
    assert isinstance(compared, Call)
    first = compared.arguments[0]
    if isinstance(left, Literal) or first.type.name != left.type.name:
        raise UnsupportedQuery("NULLIF of a constant is not on the list of exact functions.")
    return Call("nullif", compared.arguments, plain_type(first.type))


def same_type(what: str, parts: Sequence[Scalar]) -> list[Scalar]:
    """The parts in their common type."""
    types = list(dict.fromkeys(p.type for p in parts if p.type != UNKNOWN)) or [TEXT]
    target = types[0] if len(types) == 1 else _common_type(what, types, parts)
    return [cast(typed(p, target), target) for p in parts]


def _common_type(what: str, types: Sequence[SqlType], parts: Sequence[Scalar]) -> SqlType:
    names = {t.name for t in types}
    if all(t.kind == "base" for t in types):
        if names <= INTEGERS:
            return plain_type(max(types, key=lambda t: _WIDTHS[t.name]))
        if names <= INTEGERS | {"numeric"}:
            return NUMERIC
        if names <= _TEXTS:
            collation = text_collation(parts)
            return (
                replace(TEXT, collation=collation)
                if "text" in names
                else SqlType("varchar", "varchar", collation=collation)
            )
        if len(names) == 1:
            return plain_type(types[0])
    raise UnsupportedQuery(f"{what} of {', '.join(t.sql for t in types)} is not on the list of exact functions.")


def text_collation(parts: Sequence[Scalar]) -> str:
    """What is known of the collation of text made of `parts`: byte order only if it is everywhere."""
    collations = {p.type.collation for p in parts if not isinstance(p, Literal) and p.type.name in _TEXTS}
    if "nondeterministic" in collations:
        return "nondeterministic"
    return "bytes" if collations == {"bytes"} else "deterministic"


# --- numbers and text -----------------------------------------------------------------------------------------------


def arithmetic(operator: str, left: Scalar, right: Scalar) -> Scalar:
    """+, - or *."""
    left, right = typed(left, right.type), typed(right, left.type)
    names = {left.type.name, right.type.name}
    if names <= INTEGERS:
        result = max(left.type, right.type, key=lambda t: _WIDTHS[t.name])
        return Call(operator, (left, right), plain_type(result))
    if names <= INTEGERS | {"numeric"}:
        return Call(operator, (cast(left, NUMERIC), cast(right, NUMERIC)), NUMERIC)
    raise UnsupportedQuery(f"{left.type.sql} {operator} {right.type.sql} is not on the list of exact functions.")


def negation(expression: Scalar) -> Scalar:
    """Unary minus."""
    if isinstance(expression, Literal) and expression.value is not None and expression.type.name in _WIDTHS:
        return Literal(str(-int(expression.value)), expression.type)
    if expression.type.name not in INTEGERS | {"numeric"}:
        raise UnsupportedQuery(f"- {expression.type.sql} is not on the list of exact functions.")
    call = Call("neg", (expression,), plain_type(expression.type))
    return Literal(compile_scalar(call)(()), call.type) if isinstance(expression, Literal) else call


def concatenation(left: Scalar, right: Scalar) -> Scalar:
    """``||`` of text with text, or with what casts to text exactly."""
    if not {left.type.name, right.type.name} & (_TEXTS | {"unknown"}):
        raise UnsupportedQuery(f"{left.type.sql} || {right.type.sql} is not on the list of exact functions.")
    target = replace(TEXT, collation=text_collation((left, right)))
    return Call("||", (_as_text(left, target), _as_text(right, target)), target)


def _as_text(expression: Scalar, target: SqlType) -> Scalar:
    expression = typed(expression, target)
    return expression if expression.type.name in _TEXTS else cast(expression, target)


def length(expression: Scalar) -> Scalar:
    """Characters of a text."""
    return Call("length", (_text_argument("LENGTH", expression),), INT4)


def like(subject: Scalar, pattern: Scalar) -> Scalar:
    """LIKE with a constant pattern."""
    pattern = settled(pattern)
    if not isinstance(pattern, Literal):
        raise UnsupportedQuery("LIKE with a pattern that is no constant is not on the list of exact functions.")
    if pattern.value is not None:
        try:
            like_pattern(pattern.value)
        except ValueError as error:
            raise UnsupportedQuery(f"{error}.") from error
    return Call("like", (_text_argument("LIKE", subject), pattern), BOOL)


def _text_argument(what: str, expression: Scalar) -> Scalar:
    expression = settled(expression)
    if expression.type.name not in _TEXTS or expression.type.collation == "nondeterministic":
        raise UnsupportedQuery(f"{what} of {expression.type.sql} is not on the list of exact functions.")
    return expression


def cast(expression: Scalar, target: SqlType) -> Scalar:
    """``expression::target``."""
    if expression.type == UNKNOWN:
        return typed(expression, target)
    if expression.type == target:
        return expression
    source = expression.type
    if target.name in _TEXTS and source.name in _TEXTS:
        target = replace(target, collation=source.collation)
    if source.name == target.name and source.kind == target.kind == "base" and not target.sql.endswith(")"):
        return _renamed(expression, target)
    if not castable(source, target):
        raise UnsupportedQuery(f"A cast from {source.sql} to {target.sql} is not on the list of exact functions.")
    call = Call("cast", (expression,), target)
    return Literal(compile_scalar(call)(()), target) if isinstance(expression, Literal) else call


def _renamed(expression: Scalar, target: SqlType) -> Scalar:
    """``numeric(10,2)`` as ``numeric``: the same values."""
    if isinstance(expression, ColumnRef):
        return expression
    return replace(expression, type=target)


def sortable(expression: Scalar) -> Scalar:
    """The expression where its order matters."""
    if not orderable(expression.type):
        raise UnsupportedQuery(_why_not("<", expression.type, expression.type))
    return expression


__all__ = [
    "FLOATS", "arithmetic", "between", "case", "cast", "coalesce", "comparison", "concatenation", "condition",
    "constant_of", "in_list", "length", "like", "logical", "negation", "nullif", "settled", "sortable", "test", "typed",
]  # fmt: skip
