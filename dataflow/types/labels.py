"""Enums of PostgreSQL, MariaDB and MySQL, and sets of the latter two.

MariaDB and MySQL have two orders of each: ORDER BY uses the labels' places, ``<``, MIN and MAX the labels themselves as
text (MariaDB 10.11 and the manuals of both). The text of an enum is its label; an empty text is no label (index 0). The
text of a set has its labels in the definition's order with commas between.
"""

from functools import partial

from dataflow.errors import EvaluationError
from dataflow.types.rules import Declaration, OrderForm, Rules, TypeRules, ValueKind
from dataflow.types.texts import order_text_bytes

#: Of kind ``enum``.
ENUM = "mysql_enum"
SET = "mysql_set"
_LABEL_BYTES = 4
_SET_BYTES = 8


# --- order ----------------------------------------------------------------------------------------------------------


def _label_order(labels: tuple[str, ...]) -> OrderForm:
    """The places of labels."""
    places = {label: i.to_bytes(_LABEL_BYTES, "big") for i, label in enumerate(labels)}

    def order(text: str) -> bytes:
        try:
            return places[text]
        except KeyError:
            raise EvaluationError(f"{text!r} is not a label of the enum as it was when the catalog was read") from None

    return order


def _label_of_order(labels: tuple[str, ...], data: bytes) -> tuple[str, int]:
    return labels[int.from_bytes(data[:_LABEL_BYTES], "big")], _LABEL_BYTES


def _set_order(labels: tuple[str, ...]) -> OrderForm:
    """The number whose bits are the labels that a set has, the first label's the lowest."""
    bits = {label: 1 << i for i, label in enumerate(labels)}

    def order(text: str) -> bytes:
        try:
            number = sum([bits[label] for label in text.split(",")]) if text else 0
        except KeyError:
            raise EvaluationError(f"{text!r} has labels that the set had not when the catalog was read") from None
        return number.to_bytes(_SET_BYTES, "big")

    return order


def _set_of_order(labels: tuple[str, ...], data: bytes) -> tuple[str, int]:
    number = int.from_bytes(data[:_SET_BYTES], "big")
    if number >> len(labels):
        raise ValueError("no such labels")
    return ",".join([label for i, label in enumerate(labels) if number >> i & 1]), _SET_BYTES


def _order_as_text(declaration: Declaration) -> OrderForm | None:
    if declaration.weights is not None:
        return declaration.weights.order
    return order_text_bytes if declaration.collation == "bytes" else None


# --- input ----------------------------------------------------------------------------------------------------------


def _parse_label(labels: tuple[str, ...], text: str) -> str:
    if text not in labels:
        raise ValueError(f"one of {', '.join(labels)} is expected")
    return text


def _label_of(declaration: Declaration, text: str) -> str | None:
    """The label of an enum or set that equals a text in its collation."""
    if text in declaration.labels or declaration.weights is None:
        return text if text in declaration.labels else None
    normal = declaration.weights.normal
    wanted = normal(text)
    return next((label for label in declaration.labels if normal(label) == wanted), None)


def _parse_enum(declaration: Declaration, text: str) -> str:
    """A label, or an empty text: what a value outside of the enum was stored as."""
    label = _label_of(declaration, text) if text else ""
    if label is None:
        raise ValueError(f"one of {', '.join(declaration.labels)} is expected")
    return label


def _parse_set(declaration: Declaration, text: str) -> str:
    own = declaration.labels
    labels = [_label_of(declaration, part) for part in text.split(",")] if text else []
    places = [own.index(label) for label in labels if label is not None]
    if len(places) < len(labels) or sorted(set(places)) != places:
        raise ValueError(f"labels in this order, with commas between, are expected: {', '.join(own)}")
    return ",".join(own[place] for place in places)


# --- types ----------------------------------------------------------------------------------------------------------


def enum(declaration: Declaration) -> TypeRules:
    """The rules of an enum, of whichever database."""
    labels = declaration.labels
    schema = {"type": "string", "enum": list(labels)}
    if declaration.name != ENUM:
        return TypeRules(
            kind=ValueKind.LABELS,
            comparable=True,
            order_form=_label_order(labels),
            order_text=partial(_label_of_order, labels),
            parse=partial(_parse_label, labels),
            schema=schema,
            prints_itself=True,
        )
    ordered = _has_places(declaration)
    places = ("", *labels)
    return TypeRules(
        kind=ValueKind.LABELS,
        comparable=True,
        order_form=_label_order(places) if ordered else None,
        order_text=partial(_label_of_order, places) if ordered else None,
        compared_apart=True,
        compared_form=_order_as_text(declaration),
        parse=partial(_parse_enum, declaration),
        schema=schema,
        extremes=False,
        prints_itself=True,
    )


def _set(declaration: Declaration) -> TypeRules:
    ordered = _has_places(declaration)
    return TypeRules(
        kind=ValueKind.LABELS,
        family=declaration.sql,
        comparable=True,
        order_form=_set_order(declaration.labels) if ordered else None,
        order_text=partial(_set_of_order, declaration.labels) if ordered else None,
        compared_apart=True,
        compared_form=_order_as_text(declaration),
        parse=partial(_parse_set, declaration),
        extremes=False,
    )


def _has_places(declaration: Declaration) -> bool:
    """Return whether every text says which labels it is of: not if one of them is empty."""
    return "" not in declaration.labels


TYPES: dict[str, Rules] = {SET: _set}
