"""Text: of any length, of at most so many characters, and padded to a length.

Equality and order are the collation's: bytes (C, POSIX, C.UTF-8), or the weights of one of MariaDB and MySQL. The order
of other deterministic collations is not known, and nothing of nondeterministic ones.
"""

from dataflow.collations import Collation
from dataflow.types.rules import Declaration, Parse, Rules, TypeRules, ValueKind

_MAX_NAME_BYTES = 63


def order_text_bytes(text: str) -> bytes:
    """Texts in the order of their bytes."""
    return text.encode().replace(b"\0", b"\0\xff") + b"\0\0"


def _order_padded(text: str) -> bytes:
    return order_text_bytes(text.rstrip(" "))


def _text_of_bytes(data: bytes) -> tuple[str, int]:
    end = data.index(b"\0\0")
    return data[:end].decode(), end + 2


def _normal_padded(text: str) -> str:
    return text.rstrip(" ")


def _parse(text: str) -> str:
    return text


def _parse_name(text: str) -> str:
    if len(text.encode()) > _MAX_NAME_BYTES:
        raise ValueError(f"a name of at most {_MAX_NAME_BYTES} bytes is expected")
    return text


def _parser(weights: Collation) -> Parse:
    def parse(text: str) -> str:
        if not weights.has(text):
            raise ValueError(f"text of the character set {weights.charset} is expected")
        return text

    return parse


def text(declaration: Declaration) -> TypeRules:
    """The rules of text of a collation."""
    name, weights = declaration.name, declaration.weights
    bytewise = declaration.collation == "bytes"
    parse = _parse_name if name == "name" else _parse if weights is None else _parser(weights)
    return TypeRules(
        kind=ValueKind.TEXT,
        family="text" if weights is None else f"text of {declaration.collation}",
        comparable=declaration.collation != "nondeterministic",
        normal_form=None if weights is None else weights.normal,
        one_text=weights is None,
        order_form=weights.order if weights is not None else order_text_bytes if bytewise else None,
        order_text=weights.text if weights is not None else _text_of_bytes if bytewise else None,
        parse=parse,
        extremes=name != "name",
        prints_itself=True,
        implicit=_IMPLICIT.get(name, frozenset()),
        category="S",
        preferred=name == "text",
        of_postgres=name in ("text", "varchar"),
    )


def _padded_text(declaration: Declaration) -> TypeRules:
    bytewise = declaration.collation == "bytes"
    return TypeRules(
        kind=ValueKind.PADDED_TEXT,
        comparable=declaration.collation != "nondeterministic",
        normal_form=_normal_padded,
        # char(4) always prints four characters.
        one_text=declaration.sql.endswith(")"),
        order_form=_order_padded if bytewise else None,
        order_text=_text_of_bytes if bytewise else None,
        parse=_parse,
        implicit=_IMPLICIT[declaration.name],
        category="S",
        of_postgres=True,
    )


_IMPLICIT = {
    "text": frozenset({"varchar", "bpchar", "name"}),
    "varchar": frozenset({"text", "bpchar", "name"}),
    "bpchar": frozenset({"text", "varchar", "name"}),
    "name": frozenset({"text"}),
}
TYPES: dict[str, Rules] = {"text": text, "varchar": text, "name": text, "bpchar": _padded_text}
