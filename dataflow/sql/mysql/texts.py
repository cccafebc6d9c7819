"""Functions of text in MariaDB and MySQL: of ``utf8mb4`` and ``utf8mb3``, the result in the collation of their texts.

Not here: what they compute (`dataflow.functions.mysql_texts`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import INT8, TRUE
from dataflow.scalar import Call, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import UNKNOWN
from dataflow.sql.expressions.coercion import folded
from dataflow.sql.expressions.written_calls import has_others
from dataflow.sql.mysql import values

#: The function of bound arguments, and of the type of text of no column.
Compute = Callable[[Sequence[Scalar], SqlType], Scalar]
_CHARSETS = ("bytes", "utf8mb4_", "utf8mb3_", "utf8_", values.STRING.collation)


def subject(what: str, part: Scalar) -> Scalar:
    """A text that a function computes with; UnsupportedQuery for anything else."""
    if part.type.kind == "base" and part.type.is_text and part.type.collation.startswith(_CHARSETS):
        return part
    raise UnsupportedQuery(f"{what} of {part.type.sql} is not on the list of exact functions.")


def count(what: str, part: Scalar) -> Scalar:
    """An integer argument."""
    part = values.number(part)
    if part.type == UNKNOWN and isinstance(part, Literal) and part.value is None:
        return Literal(None, INT8)
    if not part.type.is_whole or part.type.name == "uint8":
        raise UnsupportedQuery(f"{what} with a number that is {part.type.sql} is not on the list of exact functions.")
    return values.as_type(part, INT8)


def called(name: str, arguments: Sequence[Scalar], result: SqlType) -> Scalar:
    """The call of a function, computed if its arguments are constants."""
    return folded(Call(name, tuple(arguments), result))


def text_of(sql_type: SqlType) -> SqlType:
    """Text of any length in the collation of a type."""
    return replace(sql_type, name="text", sql="text")


def _cut(name: str) -> Compute:
    """A part of a text: by integers."""

    def compute(parts: Sequence[Scalar], _: SqlType) -> Scalar:
        text = subject(name, parts[0])
        return called(name, (text, *(count(name, part) for part in parts[1:])), text_of(text.type))

    return compute


def _measured(name: str, *kinds: str) -> Compute:
    """A number, of a text or another type."""

    def compute(parts: Sequence[Scalar], _: SqlType) -> Scalar:
        part = parts[0] if parts[0].type.name in kinds else subject(name, parts[0])
        return called(name, (part,), INT8)

    return compute


def _cased(name: str) -> Compute:
    def compute(parts: Sequence[Scalar], _: SqlType) -> Scalar:
        (part,) = parts
        if isinstance(part, Literal) and part.type == UNKNOWN and (part.value or "").isascii():
            # A constant remains one, in whose place another's collation decides.
            return part if part.value is None else replace(part, value=getattr(part.value, name)())
        text = subject(name.upper(), part)
        if not text.type.folding:
            raise UnsupportedQuery(f"Upper and lower case of {text.type.collation} are not known.")
        return called(name, (text,), text_of(text.type))

    return compute


def _texts(what: str, parts: Sequence[Scalar]) -> list[Scalar]:
    """Texts of one collation, of which at least one is no constant."""
    for part in parts:
        if part.type != UNKNOWN:
            subject(what, part)
    if all(part.type == UNKNOWN for part in parts):
        raise UnsupportedQuery(f"{what} of constants is not on the list of exact functions.")
    return values.same_type(what, parts)


def _replace(parts: Sequence[Scalar], __: SqlType) -> Scalar:
    arguments = _texts("REPLACE", parts)
    text, _, new = arguments
    constant = isinstance(new, Literal) and new.value is not None
    if not constant and text.type.collation.endswith(("bytes", "_bin", values.STRING.collation)):
        # Without an occurrence the servers do not look at it: it may be NULL.
        raise UnsupportedQuery("REPLACE of binary text by anything but a constant is not on the list.")
    return called("REPLACE", arguments, text_of(arguments[0].type))


def _substring_index(parts: Sequence[Scalar], _: SqlType) -> Scalar:
    arguments = _texts("SUBSTRING_INDEX", parts[:2])
    return called("SUBSTRING_INDEX", (*arguments, count("SUBSTRING_INDEX", parts[2])), text_of(arguments[0].type))


def _hexadecimal(parts: Sequence[Scalar], text: SqlType) -> Scalar:
    part = values.number(parts[0])
    if part.type.is_whole and part.type.name != "uint8" and not part.type.sql.startswith("bit"):
        part = values.as_type(part, INT8)
    elif not part.type.is_bytes:
        part = subject("HEX", part)
    return called("HEX", (part,), text_of(text))


# --- CONCAT ---------------------------------------------------------------------------------------------------------


def _joined(what: str, parts: Sequence[Scalar], text: SqlType) -> list[Scalar]:
    """Texts, and numbers as they are printed; of numbers and constants in the connection's collation."""
    parts = [values.number(part) for part in parts]
    strings = [part.type for part in parts if part.type.is_string]
    own = {string.collation: string for string in strings if not values.is_coercible(string)}
    if len(own) > 1:
        raise UnsupportedQuery(f"{what} of texts of two collations is not on the list of exact functions.")
    target = text_of(next(iter(own.values()), values.coercible(text) if strings else text))
    return [_printed(what, values.collated(part, target), target) for part in parts]


def _printed(what: str, part: Scalar, target: SqlType) -> Scalar:
    sql_type = part.type
    if sql_type == UNKNOWN:
        return functions.typed(part, target)
    if sql_type.is_string:
        return functions.cast(part, target)
    if not (sql_type.is_whole or sql_type.is_decimal) or not values.prints_as_number(sql_type):
        raise UnsupportedQuery(f"{what} of {sql_type.sql} is not on the list of exact functions.")
    return folded(Call("cast", (part,), target))


def of_number(part: Scalar, text: SqlType) -> Scalar:
    """``CAST(number AS CHAR)``."""
    part = values.number(part)
    if not part.type.is_number:
        raise UnsupportedQuery(f"A cast of {part.type.sql} to CHAR is not on the list of exact functions.")
    return _printed("CAST", part, text_of(text))


def printed_text(what: str, part: Scalar, text: SqlType) -> Scalar:
    """A text, or a number as it is printed."""
    return _joined(what, [part], text)[0]


def _concat(parts: Sequence[Scalar], text: SqlType) -> Scalar:
    """CONCAT: NULL if an argument is."""
    if not any(part.type != UNKNOWN for part in parts):
        raise UnsupportedQuery("CONCAT of constants is not on the list of exact functions.")
    result, *others = _joined("CONCAT", parts, text)
    for part in others:
        result = called("||", (result, part), text_of(part.type))
    return result


def _concat_ws(parts: Sequence[Scalar], text: SqlType) -> Scalar:
    """CONCAT_WS: NULL if the separator is."""
    if not any(part.type != UNKNOWN for part in parts):
        raise UnsupportedQuery("CONCAT_WS of constants is not on the list of exact functions.")
    arguments = _joined("CONCAT_WS", parts, text)
    return called("concat_ws", arguments, arguments[0].type)


# --- what has a syntax of its own -----------------------------------------------------------------------------------


def substring(binder: Binder, node: Any) -> Scalar:
    """``SUBSTRING(text, start, length)``, also with FROM and FOR."""
    if has_others(node, "this", "start", "length"):
        raise UnsupportedQuery("This SUBSTRING is not on the list of exact functions.")
    nodes = [node.this, node.args.get("start"), node.args.get("length")]
    return _cut("SUBSTRING")(binder.all([n for n in nodes if n is not None]), binder.text)


def trim(binder: Binder, node: Any) -> Scalar:
    """``TRIM(text)``: without the spaces at its ends."""
    if has_others(node, "this"):
        raise UnsupportedQuery("TRIM of other characters than spaces is not on the list of exact functions.")
    return _cut("TRIM")([binder.bind(node.this)], binder.text)


def like(binder: Binder, node: Any) -> Scalar:
    """``text LIKE pattern``: characters one by one, as the collation of `text` has them."""
    text = subject("LIKE", values.collated(binder.bind(node.this), binder.text))
    pattern, weights = binder.bind(node.expression), text.type.weights
    if not values.is_coercible(pattern.type) or (isinstance(pattern, Literal) and pattern.value is None):
        raise UnsupportedQuery("LIKE of anything but a constant or parameter is not on the list of exact expressions.")
    if weights is None and (not isinstance(pattern, Literal) or str(pattern.value).replace("\\\\", "").endswith("\\")):
        raise UnsupportedQuery("A pattern that ends with its escape character is not on the list of exact expressions.")
    if weights is not None and not weights.compares_characters:
        raise UnsupportedQuery(f"LIKE of {weights.name} is not on the list of exact expressions.")
    return Call("like", (text, values.collated(pattern, text_of(text.type))), TRUE.type)


#: Least and most arguments, and the meaning.
TEXTS: dict[str, tuple[int, int, Compute]] = {
    "concat": (1, 100, _concat),
    "concat_ws": (2, 100, _concat_ws),
    **dict.fromkeys(("lower", "lcase"), (1, 1, _cased("lower"))),
    **dict.fromkeys(("upper", "ucase"), (1, 1, _cased("upper"))),
    "left": (2, 2, _cut("LEFT")),
    "right": (2, 2, _cut("RIGHT")),
    **dict.fromkeys(("substr", "mid"), (2, 3, _cut("SUBSTRING"))),
    "ltrim": (1, 1, _cut("LTRIM")),
    "rtrim": (1, 1, _cut("RTRIM")),
    "replace": (3, 3, _replace),
    "substring_index": (3, 3, _substring_index),
    **dict.fromkeys(("char_length", "character_length"), (1, 1, _measured("CHAR_LENGTH"))),
    **dict.fromkeys(("length", "octet_length"), (1, 1, _measured("LENGTH", "bytea"))),
    "hex": (1, 1, _hexadecimal),
}

__all__ = ["TEXTS", "called", "count", "like", "of_number", "printed_text", "subject", "substring", "text_of", "trim"]
