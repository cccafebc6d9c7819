"""``numeric``, and ``decimal`` of MariaDB and MySQL, which has no infinities."""

import re
from dataclasses import replace

from dataflow import numeric
from dataflow.types.rules import INVERTED, Declaration, Rules, TypeRules, ValueKind, quoted

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?")
SPECIAL_NUMBERS = {
    "nan": "NaN",
    "infinity": "Infinity",
    "+infinity": "Infinity",
    "-infinity": "-Infinity",
    "inf": "Infinity",
    "+inf": "Infinity",
    "-inf": "-Infinity",
}
_MAX_EXPONENT = 1000
_MAX_DIGITS = 10_000
#: A numeric has at most 131,072 digits before the decimal point and 16,383 behind it.
_MAX_ORDER_EXPONENT = 1 << 18
_SPECIAL_ORDERS = {"-Infinity": b"\x00", "Infinity": b"\x04", "NaN": b"\x05"}
_SPECIAL_TEXTS = {0: "-Infinity", 2: "0", 4: "Infinity", 5: "NaN"}


def _normal(text: str) -> str:
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if text[:1] in "0-+" and text[-1:].isdigit():
        sign = "-" if text[0] == "-" else ""
        digits = text.lstrip("+-").lstrip("0")
        text = sign + ("0" + digits if not digits or digits[0] == "." else digits)
    return "0" if text == "-0" else text


def _order(text: str) -> bytes:
    special = _SPECIAL_ORDERS.get(text)
    if special is not None:
        return special
    whole, _, fraction = text.lstrip("+-").partition(".")
    whole = whole.lstrip("0")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return b"\x02"
    exponent = len(whole) if whole else len(digits) - len(fraction)
    magnitude = (exponent + (1 << 31)).to_bytes(4, "big") + digits.rstrip("0").encode() + b"\0"
    return b"\x01" + magnitude.translate(INVERTED) if text[0] == "-" else b"\x03" + magnitude


def _order_text(data: bytes) -> tuple[str, int]:
    """One of the texts with that order form: ``1.00`` gives ``1``."""
    special = _SPECIAL_TEXTS.get(data[0])
    if special is not None:
        return special, 1
    magnitude = data[1:].translate(INVERTED) if data[0] == 1 else data[1:]
    exponent = int.from_bytes(magnitude[:4], "big") - (1 << 31)
    end = magnitude.index(b"\0", 4)
    digits = magnitude[4:end].decode()
    if abs(exponent) > _MAX_ORDER_EXPONENT:
        raise ValueError("no such number")
    if exponent <= 0:
        text = "0." + "0" * -exponent + digits
    elif exponent < len(digits):
        text = f"{digits[:exponent]}.{digits[exponent:]}"
    else:
        text = digits.ljust(exponent, "0")
    return "-" + text if data[0] == 1 else text, end + 2


def is_number(text: str) -> bool:
    """Return whether a text is a number, perhaps with an exponent."""
    return _NUMBER.fullmatch(text) is not None and any(c.isdigit() for c in text)


def _parse(text: str) -> str:
    text = text.strip(" \t\n")
    return SPECIAL_NUMBERS.get(text.lower()) or _parse_finite(text)


def _parse_finite(text: str) -> str:
    text = text.strip(" \t\n")
    found = _NUMBER.fullmatch(text)
    if not found or not (found[2] or found[3]) or len(text) > _MAX_DIGITS or abs(int(found[4] or 0)) > _MAX_EXPONENT:
        raise ValueError("a decimal number is expected")
    return numeric.render(numeric.parse(text))


_NUMERIC = TypeRules(
    kind=ValueKind.DECIMAL,
    family="number",
    comparable=True,
    normal_form=_normal,
    one_text=False,
    order_form=_order,
    order_text=_order_text,
    parse=_parse,
    json_form=quoted,
    schema={"type": "string", "format": "decimal"},
    width_bytes=8,
    sum="numeric",
    average="numeric",
    prints_itself=True,
    implicit=frozenset({"float4", "float8"}),
    category="N",
    of_postgres=True,
)
#: Of a scale, so that all values print it.
_SCALED = replace(_NUMERIC, one_text=True)
_DECIMAL = replace(_NUMERIC, parse=_parse_finite)
_SCALED_DECIMAL = replace(_DECIMAL, one_text=True)


def _numeric(declaration: Declaration) -> TypeRules:
    scaled = declaration.sql.endswith(")")
    if declaration.sql.startswith("decimal"):
        return _SCALED_DECIMAL if scaled else _DECIMAL
    return _SCALED if scaled else _NUMERIC


TYPES: dict[str, Rules] = {"numeric": _numeric}
