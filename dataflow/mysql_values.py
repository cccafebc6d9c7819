"""Normal forms and order forms of the types that only MariaDB and MySQL have (`mysql_types`), and back.

*Invariants*: as those of `values`, in which these are. Of an enum and a set there are two orders: ORDER BY goes by the
labels' places, ``<``, MIN and MAX by the labels themselves as text (MariaDB 10.11 and the manuals of both).

Not here: text and its collations (`collations`); user input (`mysql_literals`).
"""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address

from dataflow.errors import EvaluationError
from dataflow.memo import remembered
from dataflow.mysql_types import DATE, DATETIME, INET4, INET6, TIME, TIMESTAMP, UINT8, UUID
from dataflow.schema import SqlType

#: Neither has an order here: of a JSON text none is known, and that of UUIDs changed between versions of MariaDB.
COMPARABLE = frozenset({UINT8, DATE, DATETIME, TIMESTAMP, TIME, INET4, INET6, UUID})
ORDERABLE = COMPARABLE - {UUID}
#: Always printed with the column's digits of a second.
FRACTIONAL = frozenset({DATETIME, TIMESTAMP, TIME})

_SECOND_US = 1_000_000
#: More than any time of `TIME`.
_TIME_BIAS = 1 << 62
_LABEL_BYTES = 4
_SET_BYTES = 8


def has_places(sql_type: SqlType) -> bool:
    """Whether every text of the enum or set says which labels it is of: not if one of them is empty."""
    return "" not in sql_type.labels


def normal_form(sql_type: SqlType) -> Callable[[str], str] | None:
    """As `values.normal_form`, of a type in `COMPARABLE`."""
    if sql_type.name in FRACTIONAL and sql_type.sql.endswith(")"):
        return without_zeros
    return _normal_inet6 if sql_type.name == INET6 else None


def without_zeros(text: str) -> str:
    """A moment or time without the last zeros of its fraction."""
    return text.rstrip("0").rstrip(".") if "." in text else text


@remembered(entries=10_000, characters=50)
def _normal_inet6(text: str) -> str:
    return str(IPv6Address(text))


# --- orders ---------------------------------------------------------------------------------------------------------


def label_order(labels: tuple[str, ...]) -> Callable[[str], bytes]:
    """The places of an enum's labels, from 1; what is none of them is empty, and first."""
    places = {label: i.to_bytes(_LABEL_BYTES, "big") for i, label in enumerate(("", *labels))}

    def order(text: str) -> bytes:
        try:
            return places[text]
        except KeyError:
            raise EvaluationError(f"{text!r} is not a label of the enum as it was when the catalog was read") from None

    return order


def set_order(labels: tuple[str, ...]) -> Callable[[str], bytes]:
    """The number whose bits are the labels that a set has, the first label's the lowest."""
    bits = {label: 1 << i for i, label in enumerate(labels)}

    def order(text: str) -> bytes:
        try:
            number = sum([bits[label] for label in text.split(",")]) if text else 0
        except KeyError:
            raise EvaluationError(f"{text!r} has labels that the set had not when the catalog was read") from None
        return number.to_bytes(_SET_BYTES, "big")

    return order


def _order_unsigned(text: str) -> bytes:
    return int(text).to_bytes(8, "big")


def _order_moment(text: str) -> bytes:
    """Years have four digits, so the text sorts as the moment does."""
    return without_zeros(text).encode() + b"\0"


def _order_time(text: str) -> bytes:
    return (_TIME_BIAS + time_microseconds(text)).to_bytes(8, "big")


def time_microseconds(text: str) -> int:
    """A time as microseconds."""
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    total = (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * _SECOND_US + int(fraction.ljust(6, "0"))
    return -total if text[0] == "-" else total


def time_text(microseconds: int, digits: int = 0) -> str:
    """The inverse of `time_microseconds`, with at least so many digits of a second."""
    seconds, fraction = divmod(abs(microseconds), _SECOND_US)
    text = f"{'-' if microseconds < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + fraction_text(f"{fraction:06}", digits)


def fraction_text(fraction: str, digits: int) -> str:
    """A fraction of a second as printed: `digits` digits, and more if they are not zero."""
    shown = fraction.rstrip("0").ljust(digits, "0")
    return f".{shown}" if shown else ""


def _order_inet4(text: str) -> bytes:
    return IPv4Address(text).packed


def _order_inet6(text: str) -> bytes:
    return IPv6Address(text).packed


ORDER_FORMS: dict[str, Callable[[str], bytes]] = {
    UINT8: _order_unsigned,
    **dict.fromkeys((DATE, DATETIME, TIMESTAMP), _order_moment),
    TIME: _order_time,
    INET4: _order_inet4,
    INET6: _order_inet6,
}

# --- back to texts --------------------------------------------------------------------------------------------------


def text_of_label(labels: tuple[str, ...], data: bytes) -> tuple[str, int]:
    """The inverse of `label_order`."""
    return ("", *labels)[int.from_bytes(data[:_LABEL_BYTES], "big")], _LABEL_BYTES


def text_of_set(labels: tuple[str, ...], data: bytes) -> tuple[str, int]:
    """The inverse of `set_order`."""
    number = int.from_bytes(data[:_SET_BYTES], "big")
    if number >> len(labels):
        raise ValueError("no such labels")
    return ",".join([label for i, label in enumerate(labels) if number >> i & 1]), _SET_BYTES


def _text_of_moment(data: bytes) -> tuple[str, int]:
    end = data.index(b"\0")
    return data[:end].decode(), end + 1


def _text_of_time(data: bytes) -> tuple[str, int]:
    return time_text(int.from_bytes(data[:8], "big") - _TIME_BIAS), 8


ORDER_TEXTS: dict[str, Callable[[bytes], tuple[str, int]]] = {
    UINT8: lambda data: (str(int.from_bytes(data[:8], "big")), 8),
    **dict.fromkeys((DATE, DATETIME, TIMESTAMP), _text_of_moment),
    TIME: _text_of_time,
    INET4: lambda data: (str(IPv4Address(data[:4])), 4),
    INET6: lambda data: (str(IPv6Address(data[:16])), 16),
}
