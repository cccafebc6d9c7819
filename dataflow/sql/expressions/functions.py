"""Typed expressions that are no plain calls: comparisons, logic, choices, and what is folded while it is bound.

Constants take the type of their surroundings as in PostgreSQL, and their text is the type's output form. What is not
here, or not exactly PostgreSQL's on these types, is an UnsupportedQuery.

Not here: plain functions and operators (`postgres.resolve`), casts (`coercion`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from dataflow.errors import UnsupportedQuery
from dataflow.evaluate import compile_scalar
from dataflow.functions import arrays
from dataflow.functions.comparison import comparison_forms
from dataflow.functions.conversions import common_type
from dataflow.functions.folding import ASCII
from dataflow.plan.expressions import BOOL, INT4
from dataflow.scalar import Call, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions.cast_types import TEXT, UNKNOWN, array_of, type_of
from dataflow.sql.expressions.coercion import cast, constant_of, plain_type, settled, text_collation, text_type, typed

_BYTE_ORDER = ("C", "POSIX")
_CONCATENATED = frozenset({"base", "enum", "array"})


# --- comparisons ----------------------------------------------------------------------------------------------------


def comparison(operator: str, left: Scalar, right: Scalar) -> Scalar:
    """A comparison (also ``is distinct from`` and its negation)."""
    left, right = _comparable_sides(left, right)
    _check_comparable(operator, left.type, right.type)
    return Call(operator, (left, right), BOOL)


def _check_comparable(operator: str, left: SqlType, right: SqlType) -> None:
    equality = operator in ("=", "<>") or "distinct" in operator
    try:
        comparison_forms("=" if equality else "<", left, right)
    except ValueError as error:
        raise UnsupportedQuery(_why_not(operator, left, right)) from error


def _comparable_sides(left: Scalar, right: Scalar) -> tuple[Scalar, Scalar]:
    if left.type == UNKNOWN and right.type == UNKNOWN:
        return settled(left), settled(right)
    left, right = typed(left, right.type), typed(right, left.type)
    left, right = _retyped(left, right.type), _retyped(right, left.type)
    left, right = _in_one_type(left, right)
    return _collated(left, right), _collated(right, left)


def _retyped(expression: Scalar, other: SqlType) -> Scalar:
    """An integer constant as one of the number type it is compared with: the same comparison, one spelling."""
    if not isinstance(expression, Literal) or expression.value is None or not expression.type.is_integer:
        return expression
    if other.is_integer or other.is_decimal:
        try:
            return Literal(other.parse(expression.value), plain_type(other))
        except ValueError:
            return expression
    return expression


def _in_one_type(left: Scalar, right: Scalar) -> tuple[Scalar, Scalar]:
    """char(n) with text as text."""
    names = (left.type.name, right.type.name)
    if left.type.is_string and right.type.is_string and left.type.is_text != right.type.is_text:
        # With varchar, the operator is that of char(n); with text, it is that of text.
        target = type_of("bpchar" if "varchar" in names else "text")
        return cast(left, target), cast(right, target)
    return left, right


def _collated(expression: Scalar, other: Scalar) -> Scalar:
    """A constant, or anything beside an explicit COLLATE "C", compares in the other side's collation."""
    if not expression.type.is_string or expression.type.collation == other.type.collation:
        return expression
    if isinstance(expression, Literal) and other.type.is_string:
        return replace(
            expression, type=replace(expression.type, collation=other.type.collation, folding=other.type.folding)
        )
    if isinstance(other, Call) and other.function == "collate":
        return collate(expression, _BYTE_ORDER[0])
    return expression


def collate(expression: Scalar, name: str) -> Scalar:
    """``expression COLLATE "name"``."""
    expression = settled(expression)
    if name not in _BYTE_ORDER:
        raise UnsupportedQuery(f'COLLATE "{name}" is not on the list of exact collations ("C" and "POSIX" are).')
    if not expression.type.is_string:
        raise UnsupportedQuery(f"COLLATE of {expression.type.sql} is not on the list of exact functions.")
    return Call("collate", (expression,), replace(expression.type, collation="bytes", folding=ASCII))


def _why_not(operator: str, left: SqlType, right: SqlType) -> str:
    if left.family != right.family:
        return f"Comparing {left.sql} with {right.sql} is not on the list of exact functions."
    if operator in ("=", "<>") or "distinct" in operator or not left.comparable:
        return f"When two values of type {left.sql} are equal is not known exactly."
    return f"The order of {left.sql} values depends on a collation that is not byte order."


def in_list(subject: Scalar, members: Sequence[Scalar]) -> Scalar:
    """``subject IN (members)``."""
    pairs = [_comparable_sides(subject, m) for m in members]
    same = all(s.type.family == m.type.family and s.type.comparable and s == pairs[0][0] for s, m in pairs)
    if same and all(isinstance(m, Literal) for _, m in pairs):
        return Call("in", (pairs[0][0], *(m for _, m in pairs)), BOOL)
    return logical("or", [comparison("=", subject, m) for m in members])


def quantified(quantifier: str, operator: str, subject: Scalar, array: Scalar) -> Scalar:
    """``subject <operator> ANY (array)``, ALL alike."""
    if array.type == UNKNOWN:
        subject = settled(subject)
        array = typed(array, array_of(plain_type(subject.type)))
    element = array.type.element
    if array.type.kind != "array" or element is None:
        raise UnsupportedQuery(f"{quantifier.upper()} of {array.type.sql} is not on the list of exact expressions.")
    subject = typed(subject, element)
    if isinstance(array, Literal) and array.value is not None:
        members = [Literal(e, plain_type(element)) for e in arrays.flat(array.value)]
        return _quantified_list(quantifier, operator, subject, members)
    if isinstance(array, Call) and array.function == "array":
        return _quantified_list(quantifier, operator, subject, array.arguments)
    _check_comparable(operator, subject.type, element)
    return Call(f"{quantifier} {operator}", (subject, array), BOOL)


def _quantified_list(quantifier: str, operator: str, subject: Scalar, members: Sequence[Scalar]) -> Scalar:
    if not members:
        return Literal("f" if quantifier == "any" else "t", BOOL)
    if (quantifier, operator) == ("any", "="):
        return in_list(subject, members)
    if (quantifier, operator) == ("all", "<>"):
        return logical("not", [in_list(subject, members)])
    return logical("or" if quantifier == "any" else "and", [comparison(operator, subject, m) for m in members])


def between(subject: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """``subject BETWEEN low AND high``."""
    return logical("and", [comparison(">=", subject, low), comparison("<=", subject, high)])


def between_symmetric(subject: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """``subject BETWEEN SYMMETRIC low AND high``."""
    return logical("or", [between(subject, low, high), between(subject, high, low)])


def row_comparison(operator: str, left: Sequence[Scalar], right: Sequence[Scalar]) -> Scalar:
    """``(a, b) = (c, d)`` and the other operators, from left to right."""
    if len(left) != len(right) or not left:
        raise UnsupportedQuery("Rows of different lengths are not compared.")
    pairs = list(zip(left, right, strict=True))
    if operator in ("=", "<>", "is distinct from", "is not distinct from"):
        joined = "and" if operator in ("=", "is not distinct from") else "or"
        return logical(joined, [comparison(operator, a, b) for a, b in pairs])
    return row_order(operator, pairs, comparison, logical)


def row_order(
    operator: str,
    pairs: Sequence[tuple[Scalar, Scalar]],
    compare: Callable[[str, Scalar, Scalar], Scalar],
    combine: Callable[[str, Sequence[Scalar]], Scalar],
) -> Scalar:
    """``(a, b) < (c, d)``, by a dialect's comparison and logic: ``a < c OR (a = c AND b < d)``."""
    (a, b), *rest = pairs
    if not rest:
        return compare(operator, a, b)
    tied = combine("and", [compare("=", a, b), row_order(operator, rest, compare, combine)])
    return combine("or", [compare(operator[0], a, b), tied])


# --- logic and choices ----------------------------------------------------------------------------------------------


def logical(operator: str, parts: Sequence[Scalar]) -> Scalar:
    """AND, OR or NOT."""
    arguments = tuple(condition(p) for p in parts)
    return arguments[0] if len(arguments) == 1 and operator != "not" else Call(operator, arguments, BOOL)


def condition(expression: Scalar) -> Scalar:
    """The expression where a boolean must stand."""
    expression = typed(expression, BOOL)
    if not expression.type.is_boolean:
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


def extreme(name: str, parts: Sequence[Scalar]) -> Scalar:
    """GREATEST or LEAST."""
    arguments = [sortable(a) for a in same_type(name.upper(), parts)]
    return arguments[0] if len(arguments) == 1 else Call(name, tuple(arguments), arguments[0].type)


def case(branches: Sequence[tuple[Scalar, Scalar]], otherwise: Scalar) -> Scalar:
    """CASE WHEN … THEN … ELSE … END."""
    # PostgreSQL looks at the ELSE first.
    last, *values = same_type("CASE", [otherwise, *(value for _, value in branches)])
    arguments: list[Scalar] = []
    for (when, _), value in zip(branches, values, strict=True):
        arguments += [condition(when), value]
    return Call("case", (*arguments, last), last.type)


def nullif(left: Scalar, right: Scalar) -> Scalar:
    """NULLIF."""
    compared = comparison("=", left, right)
    assert isinstance(compared, Call)
    first = compared.arguments[0]
    if isinstance(left, Literal) or first.type.name != left.type.name:
        raise UnsupportedQuery("NULLIF of a constant is not on the list of exact functions.")
    return Call("nullif", compared.arguments, plain_type(first.type))


def same_type(what: str, parts: Sequence[Scalar]) -> list[Scalar]:
    """The parts in their common type, which never has a length or scale."""
    types = list(dict.fromkeys(plain_type(p.type) for p in parts if p.type != UNKNOWN)) or [TEXT]
    target = types[0] if len(types) == 1 else _common_type(what, types, parts)
    return [cast(typed(p, target), target) for p in parts]


def _common_type(what: str, types: Sequence[SqlType], parts: Sequence[Scalar]) -> SqlType:
    if all(t.kind == "base" for t in types):
        names = [t.name for t in types]
        # varchar and text are the same to everything but a column's declared type.
        name = "text" if all(t.is_text for t in types) and "text" in names else common_type(names)
        if name is not None:
            found = type_of(name) if len(set(names)) > 1 or types[0].is_string else types[0]
            if not found.is_string:
                return found
            text = text_type(parts)
            return replace(found, collation=text.collation, folding=text.folding)
    raise UnsupportedQuery(f"{what} of {', '.join(t.sql for t in types)} is not on the list of exact functions.")


# --- the rest -------------------------------------------------------------------------------------------------------


def concatenated(name: str, parts: Sequence[Scalar], text: SqlType) -> Scalar:
    """CONCAT, CONCAT_WS: the texts that values are printed as."""
    arguments = [settled(p) for p in parts]
    for argument in arguments:
        if argument.type.kind not in _CONCATENATED:
            raise UnsupportedQuery(f"{name.upper()} of {argument.type.sql} is not on the list of exact functions.")
    if name == "concat_ws" and (not arguments or not arguments[0].type.is_text):
        raise UnsupportedQuery("CONCAT_WS takes a text as separator.")
    return Call(name, tuple(arguments), text_type([a for a in arguments if a.type.is_text], text))


def count_nulls(name: str, parts: Sequence[Scalar]) -> Scalar:
    """NUM_NULLS, NUM_NONNULLS."""
    return Call(name, tuple(settled(p) for p in parts), INT4)


def cast_to(expression: Scalar, target: SqlType, text: SqlType) -> Scalar:
    """``expression::target``; text of no column is of the collation of `text`."""
    if target.is_string:
        target = replace(target, collation=text.collation, folding=text.folding)
    return cast(expression, target)


def as_text(expression: Scalar, text: SqlType) -> Scalar:
    """An operand of ``||`` as text."""
    if expression.type == UNKNOWN or expression.type.is_text:
        return settled(expression)
    return cast(expression, plain_type(text))


def array(members: Sequence[Scalar]) -> Scalar:
    """``ARRAY[…]``."""
    if not members:
        raise UnsupportedQuery("An array without elements has no type.")
    arguments = same_type("ARRAY", members)
    element = arguments[0].type
    if element.kind not in ("base", "enum"):
        raise UnsupportedQuery(f"An array of {element.sql} is not on the list of exact expressions.")
    return Call("array", tuple(arguments), array_of(plain_type(element)))


def array_of_type(members: Sequence[Scalar], target: SqlType, text: SqlType) -> Scalar:
    """``ARRAY[…]::type[]``."""
    element = target.element
    if element is None or any(m.type.kind == "array" for m in members):
        raise UnsupportedQuery(f"A cast to {target.sql} of this array is not on the list of exact functions.")
    return Call("array", tuple(cast_to(m, element, text) for m in members), target)


def subscript(expression: Scalar, index: Scalar) -> Scalar:
    """``array[index]``."""
    element = expression.type.element
    if expression.type.kind != "array" or element is None or element.kind != "base":
        raise UnsupportedQuery(f"A subscript of {expression.type.sql} is not on the list of exact expressions.")
    return Call("subscript", (expression, _integer(index)), plain_type(element))


def array_function(name: str, parts: Sequence[Scalar]) -> Scalar:
    """ARRAY_LENGTH, ARRAY_UPPER, ARRAY_LOWER, CARDINALITY."""
    if len(parts) != (1 if name == "cardinality" else 2) or parts[0].type.kind != "array":
        raise UnsupportedQuery(f"{name.upper()} of these arguments is not on the list of exact functions.")
    return Call(name, (parts[0], *(_integer(p) for p in parts[1:])), INT4)


def joined(parts: Sequence[Scalar], text: SqlType) -> Scalar:
    """ARRAY_TO_STRING; what stands for NULLs must be a constant, as the function is not strict about it."""
    element = parts[0].type.element if parts else None
    if len(parts) > 2 and not (isinstance(parts[2], Literal) and parts[2].value is not None):
        raise UnsupportedQuery("ARRAY_TO_STRING with a text for NULL that is no constant is not known exactly.")
    if not 2 <= len(parts) <= 3 or element is None or element.kind != "base" or element.is_boolean:
        raise UnsupportedQuery("ARRAY_TO_STRING of these arguments is not on the list of exact functions.")
    delimiter = settled(parts[1])
    if not delimiter.type.is_text:
        raise UnsupportedQuery("ARRAY_TO_STRING takes a text as delimiter.")
    rest = tuple(settled(p) for p in parts[2:])
    return Call("array_to_string", (parts[0], delimiter, *rest), plain_type(text))


def array_operation(name: str, array_place: int, parts: Sequence[Scalar]) -> Scalar:
    """ARRAY_APPEND and the like: an array and an element of its type."""
    array, other = (parts[array_place], parts[1 - array_place]) if len(parts) == 2 else (None, None)
    element = None if array is None else array.type.element
    if array is None or other is None or element is None or element.kind != "base" or not element.comparable:
        raise UnsupportedQuery(f"{name.upper()} of these arguments is not on the list of exact functions.")
    other = typed(other, element)
    if other.type.kind != "base" or plain_type(other.type).name != element.name:
        raise UnsupportedQuery(f"{name.upper()} of {other.type.sql} is not on the list of exact functions.")
    arguments = (array, other) if array_place == 0 else (other, array)
    return Call(name, arguments, INT4 if name == "array_position" else array.type)


def array_pair(name: str, left: Scalar, right: Scalar) -> Scalar:
    """An operator of two arrays: ``@> <@ && ||``."""
    known = left.type if left.type.kind == "array" else right.type
    left, right = typed(left, known), typed(right, known)
    element = known.element
    same = left.type.kind == right.type.kind == "array" and left.type.name == right.type.name
    if not same or element is None or element.kind != "base" or not element.comparable:
        raise UnsupportedQuery(f"{left.type.sql} {name} {right.type.sql} is not on the list of exact functions.")
    if name == "||":
        return Call("array_cat", (left, right), left.type)
    return Call(f"array {name}", (left, right), BOOL)


def appended(left: Scalar, right: Scalar) -> Scalar:
    """``||`` with an array on one side or both."""
    if UNKNOWN in (left.type, right.type) or left.type.kind == right.type.kind:
        return array_pair("||", left, right)
    if left.type.kind == "array":
        return array_operation("array_append", 0, [left, right])
    return array_operation("array_prepend", 1, [left, right])


def built_json(name: str, parts: Sequence[Scalar]) -> Scalar:
    """TO_JSON, JSON_BUILD_OBJECT, JSON_BUILD_ARRAY and those of jsonb."""
    arguments = tuple(settled(p) for p in parts)
    odd = len(arguments) % 2 == 1 if name.endswith("object") else name.startswith("to_") and len(arguments) != 1
    if odd or (name.startswith("to_") and parts[0].type == UNKNOWN):
        raise UnsupportedQuery(f"{name.upper()} of these arguments is not on the list of exact functions.")
    result = "jsonb" if "jsonb" in name else "json"
    call = Call(name, arguments, SqlType(result, result))
    try:
        compile_scalar(call)
    except ValueError as error:
        raise UnsupportedQuery(f"{name.upper()}: {error}.") from error
    return call


def _integer(expression: Scalar) -> Scalar:
    expression = typed(expression, INT4)
    if expression.type.name not in ("int2", "int4"):
        raise UnsupportedQuery(f"{expression.type.sql} is no subscript.")
    return cast(expression, INT4)


def sortable(expression: Scalar) -> Scalar:
    """The expression where its order matters."""
    if not expression.type.orderable:
        raise UnsupportedQuery(_why_not("<", expression.type, expression.type))
    return expression


__all__ = [
    "appended",
    "array",
    "array_function",
    "array_of_type",
    "array_operation",
    "array_pair",
    "as_text",
    "between",
    "between_symmetric",
    "built_json",
    "case",
    "cast",
    "cast_to",
    "coalesce",
    "collate",
    "comparison",
    "concatenated",
    "condition",
    "constant_of",
    "count_nulls",
    "extreme",
    "in_list",
    "joined",
    "logical",
    "nullif",
    "plain_type",
    "quantified",
    "row_comparison",
    "row_order",
    "same_type",
    "settled",
    "sortable",
    "subscript",
    "test",
    "text_collation",
    "text_type",
    "typed",
]
