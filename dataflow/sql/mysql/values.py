"""Values of MariaDB and MySQL: which type an expression is of, and what becomes of a value beside others.

A condition is a boolean here, and a number (1 or 0) where it is a value. Constants of text take the type of what they
stand beside. A ``DECIMAL`` prints as many decimals as its type has, whatever it is made of. What a quotient or an
average is beyond those (`printed`) counts where it is computed with further, and does not where it is compared, grouped
or ordered by; where it is a condition, in BETWEEN, and in a query in FROM it may, so that it is refused there.

Not here: what the syntax means (`expressions`), arithmetic (`arithmetic`).
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import BOOL, INT4, INT8
from dataflow.scalar import Call, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.cast_types import FLOAT8, TEXT, UNKNOWN
from dataflow.sql.expressions.coercion import folded
from dataflow.types.documents import MARIADB_JSON
from dataflow.types.mysql_dates import DATE, DATETIME, TIMESTAMP

UINT8 = SqlType("uint8", "bigint unsigned")
#: Text that is made of constants and parameters only: of no collation of its own (`coercible`).
STRING = TEXT
#: The most digits of a DECIMAL, and of those behind the point.
MAX_PRECISION, MAX_SCALE = 65, 30
_SCALE = re.compile(r"\((\d+)(?:,(\d+))?\)")
_SETS = ("UNION", "INTERSECT", "EXCEPT")
#: Constants of text that an integer column is compared with as one would with the integer.
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")


# --- types ----------------------------------------------------------------------------------------------------------


def is_unsigned(sql_type: SqlType) -> bool:
    """Return whether arithmetic with the type is unsigned."""
    return (
        (sql_type.is_whole and not sql_type.is_integer) or "unsigned" in sql_type.sql or sql_type.sql.startswith("year")
    )


def prints_as_number(sql_type: SqlType) -> bool:
    """Return whether the text of a number in SQL is that of the number: years and ZEROFILL have zeros before it, bits
    are bytes."""
    return not sql_type.sql.startswith(("bit", "year")) and "zerofill" not in sql_type.sql


def decimal(precision: int, scale: int) -> SqlType:
    """``DECIMAL(precision, scale)``. UnsupportedQuery if there is none: the servers cut then."""
    if precision > MAX_PRECISION or scale > MAX_SCALE:
        raise UnsupportedQuery(f"A number of {precision} digits, {scale} of them behind the point, is too long.")
    return SqlType("numeric", f"decimal({precision},{scale})")


def digits(sql_type: SqlType) -> tuple[int, int]:
    """Precision and scale of an integer or DECIMAL type."""
    if sql_type.is_whole:
        return sql_type.rules.digits, 0
    found = _SCALE.search(sql_type.sql)
    if found is None:
        raise UnsupportedQuery("A DECIMAL of no known scale is not on the list of exact expressions.")
    return int(found[1]), int(found[2] or 0)


# --- collations -----------------------------------------------------------------------------------------------------


def coercible(text: SqlType) -> SqlType:
    """Text that takes the collation of what it stands beside, and as a value the connection's, which is that of `text`.

    Its values are exact texts: by their bytes nothing is compared."""
    return replace(STRING, folding=text.folding)


def is_coercible(sql_type: SqlType) -> bool:
    """Return whether a type is UNKNOWN, or text of no collation of its own. (No column is of these.)"""
    return sql_type == UNKNOWN or (sql_type.is_text and sql_type.collation == STRING.collation)


def collated(expression: Scalar, text: SqlType) -> Scalar:
    """A text of no collation of its own as one in that of `text`. UnsupportedQuery if a parameter may have characters
    that its character set does not have."""
    if expression.type == UNKNOWN:
        return functions.typed(expression, text)
    if not is_coercible(expression.type) or is_coercible(text):
        return expression
    target = replace(text, name="text", sql="text")
    if target.weights is not None and target.weights.charset != "utf8mb4":
        raise UnsupportedQuery(
            f"Text of {target.collation} beside a parameter is not on the list of exact expressions."
        )
    return folded(Call("cast", (expression,), target))


# --- constants, conditions ------------------------------------------------------------------------------------------


def constant_of(text: str) -> Literal:
    """A number as it is written: an integer, a DECIMAL, or with an exponent a double."""
    if text.removeprefix("-").isdecimal():
        number = int(text)
        for sql_type, least, most in ((INT4, -(2**31), 2**31), (INT8, -(2**63), 2**63), (UINT8, 0, 2**64)):
            if least <= number < most:
                return Literal(str(number), sql_type)
        return Literal(str(number), decimal(len(text.lstrip("-")), 0))
    if "e" in text.lower():
        return Literal(repr(float(text) or 0.0).removesuffix(".0"), FLOAT8)
    sign = "-" if text[0] == "-" else ""
    whole, _, fraction = text.removeprefix("-").partition(".")
    whole = whole.lstrip("0") or "0"
    printed_text = f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"
    zero = not (whole + fraction).strip("0")
    return Literal(
        printed_text.removeprefix("-") if zero else printed_text,
        decimal(max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction)),
    )


def number(expression: Scalar) -> Scalar:
    """A condition as the number that it is as a value; anything else as it is."""
    if not expression.type.is_boolean:
        return expression
    return folded(Call("cast", (expression,), INT4))


def value(expression: Scalar, text: SqlType = TEXT) -> Scalar:
    """The expression where nothing else decides its type."""
    return collated(number(expression), text)


def condition(expression: Scalar) -> Scalar:
    """The expression where a condition must stand: a number is TRUE if it is not 0."""
    if expression.type.is_boolean:
        return expression
    if isinstance(expression, Literal) and expression.value is None:
        return Literal(None, BOOL)
    if not expression.type.is_number:
        raise UnsupportedQuery(f"A condition that is {expression.type.sql} is not on the list of exact expressions.")
    refuse_printed(expression, "The truth")
    return folded(comparison("<>", expression, Literal("0", INT4)))


def parameter(expression: Scalar) -> Scalar:
    """The expression that a parameter is compared with: a FLOAT compares with any number as the double that it is."""
    return as_type(expression, FLOAT8) if expression.type.name == "float4" else expression


def logical(operator: str, parts: Sequence[Scalar]) -> Scalar:
    """AND, OR or NOT."""
    return functions.logical(operator, [condition(p) for p in parts])


# --- decimals -------------------------------------------------------------------------------------------------------


def printed(expression: Scalar, precision: int, scale: int) -> Scalar:
    """A DECIMAL that has more decimals than it prints."""
    if digits(expression.type)[1] == scale:
        return expression
    return Call("printed", (expression,), decimal(min(precision, MAX_PRECISION), scale))


def unprinted(expression: Scalar) -> Scalar:
    """The expression as others compute with it."""
    if isinstance(expression, Call) and expression.function == "printed":
        return expression.arguments[0]
    return expression


def null_tested(expression: Scalar, text: SqlType = TEXT) -> Scalar:
    """The subject of IS NULL. Documents of NULLs are none, and yet the servers take them for rows of an inner join."""
    if isinstance(expression, Call) and expression.function in ("JSON_ARRAY", "JSON_OBJECT"):
        raise UnsupportedQuery(f"IS NULL of {expression.function} is not on the list of exact functions.")
    return value(unprinted(expression), text)


def refuse_printed(expression: Scalar, what: str) -> Scalar:
    """The expression where its digits beyond the printed ones would count."""
    if unprinted(expression) is not expression:
        raise UnsupportedQuery(f"{what} of a quotient or average is not on the list of exact expressions.")
    return expression


def as_type(expression: Scalar, target: SqlType) -> Scalar:
    """A number as one of a type that all its values are of."""
    if isinstance(expression, Literal) and expression.value is None:
        return Literal(None, target)
    if expression.type == target or (expression.type.name == target.name and not target.is_decimal):
        return expression
    return folded(Call("cast", (expression,), target))


# --- comparisons ----------------------------------------------------------------------------------------------------


def comparison(operator: str, left: Scalar, right: Scalar, text: SqlType = STRING) -> Scalar:
    """A comparison (also ``is distinct from`` and its negation); `text`: the type of text of no column."""
    if is_coercible(left.type) and is_coercible(right.type):
        left, right = collated(left, text), collated(right, text)
    return functions.comparison(operator, *sides(left, right))


def sides(left: Scalar, right: Scalar) -> tuple[Scalar, Scalar]:
    """Both sides of a comparison as they are compared. UnsupportedQuery if they are compared as something else."""
    left, right = number(left), number(right)
    if is_coercible(left.type) and is_coercible(right.type):
        if None not in (_value(left), _value(right)):
            raise UnsupportedQuery("Two constants of text compare by the connection's collation.")
        return left, right
    if left.type.is_string and right.type.is_string:
        left, right = collated(left, right.type), collated(right, left.type)
    left, right = beside(left, right.type), beside(right, left.type)
    left, right = _midnight(left, right.type), _midnight(right, left.type)
    if left.type.is_string and right.type.is_string and left.type.collation != right.type.collation:
        raise UnsupportedQuery("Texts of two collations are not compared here.")
    if left.type.is_number != right.type.is_number:
        raise UnsupportedQuery(
            f"Comparing {left.type.sql} with {right.type.sql} is not on the list of exact functions."
        )
    return left, right


def _midnight(expression: Scalar, other: SqlType) -> Scalar:
    """A date that is a constant as the moment that it is beside moments."""
    if isinstance(expression, Literal) and expression.type.name == DATE and other.name in (DATETIME, TIMESTAMP):
        return functions.typed(Literal(expression.value, UNKNOWN), other)
    return expression


def _value(expression: Scalar) -> str | None:
    return expression.value if isinstance(expression, Literal) else ""


def beside(expression: Scalar, other: SqlType) -> Scalar:
    """A constant of text as one of the type that it is compared with, where that is how it is compared."""
    if expression.type != UNKNOWN or not isinstance(expression, Literal) or expression.value is None:
        return functions.typed(expression, other)
    text = expression.value
    exact = other.is_string
    if other.is_whole:
        exact = _WHOLE.fullmatch(text) is not None and not is_unsigned(other)
    elif other.kind == "enum":
        exact = text in other.labels
    elif other.is_bytes:
        return Literal("\\x" + text.encode().hex(), other)
    elif other.kind == "base" and other.name in ("mysql_date", "mysql_datetime", "mysql_timestamp", "mysql_uuid"):
        exact = True
    if not exact:
        raise UnsupportedQuery(f"Comparing {other.sql} with the text {text!r} is not on the list of exact functions.")
    return functions.typed(expression, other)


def in_list(subject: Scalar, members: Sequence[Scalar]) -> Scalar:
    """``subject IN (members)``."""
    pairs = [sides(subject, m) for m in members]
    first = pairs[0][0]
    same = all(s == first and isinstance(m, Literal) and s.type.family == m.type.family for s, m in pairs)
    if same and first.type.comparable:
        return functions.in_list(first, [m for _, m in pairs])
    return logical("or", [comparison("=", subject, m) for m in members])


# --- several in one type --------------------------------------------------------------------------------------------


def same_type(what: str, parts: Sequence[Scalar]) -> list[Scalar]:
    """The parts in the type that a column of all of them has."""
    parts = [number(p) for p in parts]
    types = list(dict.fromkeys(p.type for p in parts if p.type != UNKNOWN))
    strings = any(p.type == UNKNOWN and _value(p) is not None for p in parts)
    if not types:
        return [functions.typed(p, STRING) for p in parts]
    if all(t.is_string for t in types):
        return _texts(what, parts, types)
    if not strings and all(t.is_number for t in types):
        if len(parts) > 1 and any(t.sql.startswith("bit") for t in types):
            raise UnsupportedQuery(f"{what} of bits is not on the list of exact functions.")
        target = _number_type(types, what != "CASE" and any(p.type == UNKNOWN for p in parts))
        return [as_type(p, target) for p in parts]
    if strings or len(types) > 1 or types[0].kind == "enum":
        raise UnsupportedQuery(f"{what} of {', '.join(t.sql for t in types)} is not on the list of exact functions.")
    return [functions.typed(p, types[0]) for p in parts]


def _texts(what: str, parts: Sequence[Scalar], types: Sequence[SqlType]) -> list[Scalar]:
    own = [t for t in types if not is_coercible(t)] or types
    if len({t.collation for t in own}) > 1:
        raise UnsupportedQuery(f"{what} of texts of two collations is not on the list of exact functions.")
    documents = [t.name == MARIADB_JSON for t in types]
    if all(documents) and what not in _SETS and not any(isinstance(p, Literal) and p.value is not None for p in parts):
        # Whether the result is a document or text depends on the function.
        raise UnsupportedQuery(f"{what} of {types[0].sql} is not on the list of exact functions.")
    target = types[0] if len(types) == 1 and not any(documents) else replace(own[0], name="text", sql="text")
    return [functions.cast(collated(p, target), functions.plain_type(target)) for p in parts]


def _number_type(types: Sequence[SqlType], with_null: bool) -> SqlType:
    """The type of a column of numbers; `with_null`: NULL is among them, which the servers take for a signed integer."""
    if any(t.is_float for t in types):
        return types[0] if all(t.name == "float4" for t in types) else FLOAT8
    signs = {is_unsigned(t) for t in types}
    if with_null and not all(t.sql.startswith("year") for t in types):
        signs.add(False)
    if any(t.is_decimal for t in types) or len(signs) > 1:
        every = [digits(t) for t in types]
        scale = max(s for _, s in every)
        return decimal(max(p - s for p, s in every) + scale, scale)
    return max(types, key=lambda t: t.rules.digits)
