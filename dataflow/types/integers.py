"""Integers: PostgreSQL's, its ``oid``, and the unsigned 64-bit one of MariaDB and MySQL.

A ``year`` of these is an ``int2`` to compare and print, and is given with four digits.
"""

import re
from dataclasses import replace

from dataflow.types.rules import Declaration, Parse, Rules, TypeRules, ValueKind

#: ``bigint unsigned`` and ``bit``: the digits of an unsigned 64-bit number.
UINT8 = "uint8"
_DIGITS = re.compile(r"[+-]?[0-9]{1,30}")
_UNSIGNED_DIGITS = re.compile(r"\+?[0-9]{1,30}")


def _order(text: str) -> bytes:
    return (int(text) + (1 << 63)).to_bytes(8, "big")


def _order_text(data: bytes) -> tuple[str, int]:
    return str(int.from_bytes(data[:8], "big") - (1 << 63)), 8


def _unsigned_order(text: str) -> bytes:
    return int(text).to_bytes(8, "big")


def _unsigned_order_text(data: bytes) -> tuple[str, int]:
    return str(int.from_bytes(data[:8], "big")), 8


def _parser(low: int, high: int, pattern: re.Pattern[str]) -> Parse:
    def parse(text: str) -> str:
        text = text.strip(" \t\n")
        if not pattern.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError(f"an integer from {low} to {high} is expected")
        return str(int(text))

    return parse


def _parse_year(text: str) -> str:
    assert INT2.parse is not None
    year = INT2.parse(text)
    if 0 < int(year) < 100:
        # MariaDB and MySQL would take 24 for 2024.
        raise ValueError("a year of four digits is expected")
    return year


def _integer(bits: int, width_bytes: int, sum_: str, wider: tuple[str, ...]) -> TypeRules:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    limits = {"minimum": low, "maximum": high} if bits < 32 else {"format": f"int{bits}"}
    return TypeRules(
        kind=ValueKind.INTEGER,
        family="number",
        comparable=True,
        order_form=_order,
        order_text=_order_text,
        parse=_parser(low, high, _DIGITS),
        json_form=None,
        big=bits == 64,
        schema={"type": "integer", **limits},
        digits=len(str(high)),
        width_bytes=width_bytes,
        sum=sum_,
        average="numeric",
        prints_itself=True,
        implicit=frozenset({*wider, "numeric", "float4", "float8"}),
        category="N",
        of_postgres=True,
    )


INT2 = _integer(16, 3, "int8", ("int4", "int8"))
_YEAR = replace(INT2, parse=_parse_year)


def _int2(declaration: Declaration) -> TypeRules:
    return _YEAR if declaration.sql == "year" else INT2


TYPES: dict[str, Rules] = {
    "int2": _int2,
    "int4": _integer(32, 6, "int8", ("int8",)),
    "int8": _integer(64, 10, "numeric", ()),
    "oid": TypeRules(
        comparable=True,
        order_form=_order,
        order_text=_order_text,
        parse=_parser(0, (1 << 32) - 1, _DIGITS),
        json_form=None,
        schema={"type": "integer", "format": "int64", "minimum": 0},
        prints_itself=True,
        category="N",
        preferred=True,
    ),
    UINT8: TypeRules(
        kind=ValueKind.UNSIGNED,
        family="number",
        comparable=True,
        order_form=_unsigned_order,
        order_text=_unsigned_order_text,
        parse=_parser(0, (1 << 64) - 1, _UNSIGNED_DIGITS),
        json_form=None,
        big=True,
        schema={"type": "integer", "minimum": 0, "maximum": (1 << 64) - 1},
        digits=20,
        prints_itself=True,
        sum="numeric",
        average="numeric",
    ),
}
