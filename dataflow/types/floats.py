"""IEEE numbers: ``float4`` and ``float8``; ``float`` and ``double`` of MariaDB and MySQL, which have no infinities."""

import re
import struct
from collections.abc import Callable
from dataclasses import replace

from dataflow.memo import remembered
from dataflow.types.decimals import SPECIAL_NUMBERS, is_number
from dataflow.types.rules import INVERTED, Declaration, Parse, Rules, TextForm, TypeRules, ValueKind

_INFINITIES = (float("inf"), float("-inf"))
#: Characters of any float that the upstream prints; parameters may be longer.
_PRINTED_CHARACTERS = 100
_SCHEMA = {"oneOf": [{"type": "number"}, {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}]}


def float4(text: str) -> float:
    """The single-precision number that a text stands for."""
    value = float(text)
    if value != value or value in _INFINITIES:
        return value
    rounded: float = struct.unpack(">f", struct.pack(">f", value))[0]
    return rounded


def _normal_text(value: float) -> str:
    if value != value:
        return "NaN"
    if value in _INFINITIES:
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value or 0.0)
    return text.removesuffix(".0")


def _order(value: float) -> bytes:
    if value != value:
        return b"\xff" * 8
    data: bytes = struct.pack(">d", value or 0.0)
    if data[0] & 0x80:
        return data.translate(INVERTED)
    return bytes((data[0] | 0x80,)) + data[1:]


def _order_float8(text: str) -> bytes:
    return _order(float(text))


def _order_float4(text: str) -> bytes:
    return _order(float4(text))


def _order_text(data: bytes) -> tuple[str, int]:
    form = data[:8]
    if form == b"\xff" * 8:
        return "NaN", 8
    plain = bytes((form[0] & 0x7F,)) + form[1:] if form[0] & 0x80 else form.translate(INVERTED)
    text = repr(struct.unpack(">d", plain)[0])
    return text.replace("inf", "Infinity").removesuffix(".0"), 8


def _parser(name: str, normal_form: TextForm, special: bool) -> Parse:
    def parse(text: str) -> str:
        text = text.strip(" \t\n")
        if special and text.lower() in SPECIAL_NUMBERS:
            return SPECIAL_NUMBERS[text.lower()]
        if not is_number(text):
            raise ValueError("a number is expected")
        try:
            normal = normal_form(text)
        except OverflowError:
            normal = "Infinity"
        mantissa = re.split("[eE]", text)[0]
        if normal.endswith("Infinity") or (normal == "0" and any(c in "123456789" for c in mantissa)):
            raise ValueError(f"a number in the range of {name} is expected")
        return normal

    return parse


def _json(text: str) -> str:
    # Finite ones end in a digit; NaN, Infinity and -Infinity do not.
    return text if text[-1].isdigit() else f'"{text}"'


def _float(name: str, mysql_name: str, rules: TypeRules) -> Callable[[Declaration], TypeRules]:
    assert rules.normal_form is not None
    of_postgres = replace(rules, parse=_parser(name, rules.normal_form, special=True))
    finite = replace(rules, parse=_parser(mysql_name, rules.normal_form, special=False))
    return lambda declaration: finite if declaration.sql == mysql_name else of_postgres


_FLOAT8 = TypeRules(
    kind=ValueKind.FLOAT,
    comparable=True,
    normal_form=remembered(10_000, _PRINTED_CHARACTERS)(lambda text: _normal_text(float(text))),
    one_text=False,
    order_form=_order_float8,
    order_text=_order_text,
    json_form=_json,
    schema=_SCHEMA,
    width_bytes=12,
    sum="float8",
    average="float8",
    summed_by_value=True,
    prints_itself=True,
    category="N",
    preferred=True,
    of_postgres=True,
    of_mysql="double",
)
_FLOAT4 = replace(
    _FLOAT8,
    normal_form=remembered(10_000, _PRINTED_CHARACTERS)(lambda text: _normal_text(float4(text))),
    order_form=_order_float4,
    width_bytes=8,
    sum="float4",
    implicit=frozenset({"float8"}),
    preferred=False,
    of_mysql="float",
)

TYPES: dict[str, Rules] = {
    "float4": _float("float4", "float", _FLOAT4),
    "float8": _float("float8", "double", _FLOAT8),
}
