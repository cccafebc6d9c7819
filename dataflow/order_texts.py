"""From an order form back to a text of the value it was made of: places of rows become values that SQL compares with.

The text is one of those that have that order form, not always the one it was made of (numeric ``1.00`` gives ``1``).

Not here: order forms themselves (`values`).
"""

import struct
from collections.abc import Callable
from functools import partial

from dataflow import mysql_values
from dataflow.calendar import clock_text, date_text, interval_text, timestamp_text
from dataflow.mysql_types import ENUM, SET
from dataflow.schema import SqlType
from dataflow.values import FLOATS, INTEGERS, TEXTS

#: Bytes that begin with an order form -> the value's text and how long the form is. ValueError (or what decoding
#: raises) for bytes that begin with none.
OrderText = Callable[[bytes], tuple[str, int]]

_INVERTED = bytes(255 - i for i in range(256))
_WIDE = 16
_MONTH_US, _DAY_US = 30 * 86_400_000_000, 86_400_000_000
#: PostgreSQL's numeric has at most 131,072 digits before the decimal point and 16,383 behind it.
_MAX_EXPONENT = 1 << 18


def order_text(sql_type: SqlType) -> OrderText:
    """The inverse of `values.order_form`. ValueError if the type is not `orderable`."""
    labels = sql_type.labels
    if sql_type.name == ENUM:
        return partial(mysql_values.text_of_label, labels)
    if sql_type.name == SET:
        return partial(mysql_values.text_of_set, labels)
    if sql_type.kind == "enum":
        return lambda data: (labels[int.from_bytes(data[:4], "big")], 4)
    if sql_type.weights is not None and sql_type.name in TEXTS:
        return sql_type.weights.text
    inverse = _text if sql_type.name in TEXTS else _INVERSES.get(sql_type.name)
    if inverse is None:
        raise ValueError(f"the order of {sql_type.sql} is not known")
    return inverse


def _text(data: bytes) -> tuple[str, int]:
    end = data.index(b"\0\0")
    return data[:end].decode(), end + 2


def _ascii(data: bytes) -> tuple[str, int]:
    end = data.index(b"\0")
    return data[:end].decode(), end + 1


def _integer(data: bytes) -> tuple[str, int]:
    return str(int.from_bytes(data[:8], "big") - (1 << 63)), 8


_SPECIAL_NUMBERS = {0: "-Infinity", 2: "0", 4: "Infinity", 5: "NaN"}


def _numeric(data: bytes) -> tuple[str, int]:
    special = _SPECIAL_NUMBERS.get(data[0])
    if special is not None:
        return special, 1
    magnitude = data[1:].translate(_INVERTED) if data[0] == 1 else data[1:]
    exponent = int.from_bytes(magnitude[:4], "big") - (1 << 31)
    end = magnitude.index(b"\0", 4)
    digits = magnitude[4:end].decode()
    if abs(exponent) > _MAX_EXPONENT:
        raise ValueError("no such number")
    if exponent <= 0:
        text = "0." + "0" * -exponent + digits
    elif exponent < len(digits):
        text = f"{digits[:exponent]}.{digits[exponent:]}"
    else:
        text = digits.ljust(exponent, "0")
    return "-" + text if data[0] == 1 else text, end + 2


def _float(data: bytes) -> tuple[str, int]:
    form = data[:8]
    if form == b"\xff" * 8:
        return "NaN", 8
    plain = bytes((form[0] & 0x7F,)) + form[1:] if form[0] & 0x80 else form.translate(_INVERTED)
    text = repr(struct.unpack(">d", plain)[0])
    return text.replace("inf", "Infinity").removesuffix(".0"), 8


def _bool(data: bytes) -> tuple[str, int]:
    return "t" if data[0] else "f", 1


def _wide(data: bytes) -> int:
    return int.from_bytes(data[:_WIDE], "big") - (1 << 126)


def _bounded(text_of: Callable[[int], str]) -> OrderText:
    """Of a type with infinities."""

    def read(data: bytes) -> tuple[str, int]:
        infinity = {b"\0" * _WIDE: "-infinity", b"\xff" * _WIDE: "infinity"}.get(data[:_WIDE])
        return (text_of(_wide(data)) if infinity is None else infinity), _WIDE

    return read


def _time(data: bytes) -> tuple[str, int]:
    return clock_text(_wide(data)), _WIDE


def _timetz(data: bytes) -> tuple[str, int]:
    east = -_wide(data[_WIDE:])
    hours, rest = divmod(abs(east), 3600)
    zone = f"{'-' if east < 0 else '+'}{hours:02}:{rest // 60:02}:{rest % 60:02}"
    return clock_text(_wide(data) + east * 1_000_000) + zone, 2 * _WIDE


def _interval_text(total: int) -> str:
    sign = -1 if total < 0 else 1
    months, rest = divmod(abs(total), _MONTH_US)
    days, clock = divmod(rest, _DAY_US)
    return interval_text(sign * months, sign * days, sign * clock)


_INVERSES: dict[str, OrderText] = {
    **mysql_values.ORDER_TEXTS,
    **dict.fromkeys((*INTEGERS, "oid"), _integer),
    **dict.fromkeys(FLOATS, _float),
    "numeric": _numeric,
    "bpchar": _text,
    "bool": _bool,
    "uuid": _ascii,
    "bytea": _ascii,
    "date": _bounded(date_text),
    "time": _time,
    "timetz": _timetz,
    "timestamp": _bounded(timestamp_text),
    "timestamptz": _bounded(lambda total: timestamp_text(total, "+00")),
    "interval": _bounded(_interval_text),
}
