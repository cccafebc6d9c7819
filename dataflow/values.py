"""When two texts are the same value, and which one sorts first: the upstream's rules, type by type.

A *normal form* is a text that two values share exactly if PostgreSQL's ``=`` calls them equal; it is itself a valid
literal of the type. An *order form* is bytes that compare as PostgreSQL orders the values. Both take the exact text
that the upstream prints (TimeZone UTC, DateStyle ISO, IntervalStyle postgres, bytea_output hex, extra_float_digits 1).
Of MariaDB and MySQL the same (`mysql_types` says the texts).

*Invariants*: types whose values can be compared with each other (`family`) share one normal form, so keys of joins
between them match. No order form is a prefix of another of its type. What is not known here is neither comparable nor
orderable, never guessed: ``json``, the order of ``jsonb``, text of a nondeterministic collation, arrays whose elements
need a normal form, geometric types and so on.

Not here: user input (`literals`), evaluation (`evaluate`), the types that only
MariaDB and MySQL have (`mysql_values`).
"""

import struct
from collections.abc import Callable

from dataflow import mysql_values
from dataflow.calendar import interval_parts, time_zone_parts, to_days, to_microseconds, zone_seconds
from dataflow.errors import EvaluationError
from dataflow.json_documents import normal_form as normal_jsonb
from dataflow.memo import remembered
from dataflow.mysql_types import ENUM, SET, UINT8
from dataflow.schema import SqlType

INTEGERS = frozenset({"int2", "int4", "int8"})
WHOLE_NUMBERS = INTEGERS | {UINT8}
FLOATS = frozenset({"float4", "float8"})
#: Byte strings to the upstream, apart from trailing spaces of ``bpchar``.
TEXTS = frozenset({"text", "varchar", "name"})
_TEMPORAL = frozenset({"date", "time", "timetz", "timestamp", "timestamptz", "interval"})
_PLAIN = frozenset({"bool", "uuid", "bytea", "oid"})
_BASE = INTEGERS | FLOATS | _TEMPORAL | _PLAIN | {"numeric"}
_UNORDERED = frozenset({"jsonb"})
_COMPARABLE = _BASE | _UNORDERED | mysql_values.COMPARABLE | {SET}
_SIZED = frozenset({"numeric", "bpchar"}) | mysql_values.FRACTIONAL
#: Of MariaDB and MySQL; both sort by places of labels and are compared as text.
_LABELLED = frozenset({ENUM, SET})

_MONTH_DAYS = 30
#: Characters of any float or interval that the upstream prints; parameters may be longer.
_SHORT = 100
_DAY_US = 86_400_000_000


# --- what can be compared -------------------------------------------------------------------------------------------


def comparable(sql_type: SqlType) -> bool:
    """Whether `normal_form` decides the upstream's ``=``."""
    match sql_type.kind:
        case "enum":
            return True
        case "array":
            element = sql_type.element
            return element is not None and comparable(element) and normal_form(element) is None
        case "base":
            return sql_type.name in _COMPARABLE or (_is_text(sql_type) and sql_type.collation != "nondeterministic")
        case _:
            return False


def orderable(sql_type: SqlType) -> bool:
    """Whether `order_form` sorts as the upstream does."""
    if sql_type.kind == "enum" or (sql_type.name == SET and sql_type.kind == "base"):
        return sql_type.name not in _LABELLED or mysql_values.has_places(sql_type)
    if sql_type.kind != "base":
        return False
    if _is_text(sql_type):
        return sql_type.collation == "bytes" or sql_type.weights is not None
    return sql_type.name in _BASE or sql_type.name in mysql_values.ORDERABLE


def one_text(sql_type: SqlType) -> bool:
    """Whether equal values always print the same, so that it does not matter which of them is printed."""
    if normal_form(sql_type) is None:
        return True
    # numeric(10,2) always prints two decimals, char(4) always four characters, datetime(3) three digits of a second.
    return sql_type.name in _SIZED and sql_type.kind == "base" and sql_type.sql.endswith(")")


def family(sql_type: SqlType) -> str:
    """Types of one family are compared by their common normal form: integers and ``numeric`` are one."""
    if sql_type.kind != "base":
        return sql_type.sql
    if sql_type.name in WHOLE_NUMBERS or sql_type.name == "numeric":
        return "number"
    if sql_type.name == SET:
        return sql_type.sql
    if sql_type.weights is not None:
        return f"text of {sql_type.collation}"
    return "text" if sql_type.name in TEXTS else sql_type.name


def _is_text(sql_type: SqlType) -> bool:
    return sql_type.name in TEXTS or sql_type.name == "bpchar"


# --- normal forms ---------------------------------------------------------------------------------------------------


def normal_form(sql_type: SqlType) -> Callable[[str], str] | None:
    """The function that gives a value's normal form; None if its text is that already."""
    if sql_type.kind != "base":
        return None
    if sql_type.name in mysql_values.COMPARABLE:
        return mysql_values.normal_form(sql_type)
    if sql_type.weights is not None and sql_type.name in TEXTS:
        return sql_type.weights.normal
    return _NORMAL_FORMS.get(sql_type.name)


def _normal_numeric(text: str) -> str:
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if text[:1] in "0-+" and text[-1:].isdigit():
        sign = "-" if text[0] == "-" else ""
        digits = text.lstrip("+-").lstrip("0")
        text = sign + ("0" + digits if not digits or digits[0] == "." else digits)
    return "0" if text == "-0" else text


def _normal_float8(text: str) -> str:
    return _float_text(float(text))


def _normal_float4(text: str) -> str:
    return _float_text(float4(text))


def _float_text(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value or 0.0)
    return text.removesuffix(".0")


def float4(text: str) -> float:
    """The single-precision number that a text stands for."""
    value = float(text)
    if value != value or value in (float("inf"), float("-inf")):
        return value
    rounded: float = struct.unpack(">f", struct.pack(">f", value))[0]
    return rounded


def _normal_bpchar(text: str) -> str:
    return text.rstrip(" ")


def _normal_interval(text: str) -> str:
    total = interval_total(text)
    if isinstance(total, str):
        return total
    sign = "-" if total < 0 else ""
    days, time = divmod(abs(total), _DAY_US)
    months, days = divmod(days, _MONTH_DAYS)
    seconds, fraction = divmod(time, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    return f"{sign}{months} mons {sign}{days} days {sign}{clock}"


def interval_total(text: str) -> int | str:
    """What intervals are compared by: microseconds, with months of 30 days and days of 24 hours; infinities as text."""
    parts = interval_parts(text)
    if isinstance(parts, str):
        return parts
    months, days, microseconds = parts
    return (months * _MONTH_DAYS + days) * _DAY_US + microseconds


_NORMAL_FORMS: dict[str, Callable[[str], str]] = {
    "numeric": _normal_numeric,
    "float4": remembered(10_000, _SHORT)(_normal_float4),
    "float8": remembered(10_000, _SHORT)(_normal_float8),
    "bpchar": _normal_bpchar,
    "interval": remembered(10_000, _SHORT)(_normal_interval),
    "jsonb": normal_jsonb,
}


# --- order forms ----------------------------------------------------------------------------------------------------


def order_form(sql_type: SqlType) -> Callable[[str], bytes]:
    """The function that gives bytes which sort as the values do. ValueError if the type is not `orderable`."""
    if not orderable(sql_type):
        raise ValueError(f"the order of {sql_type.sql} is not known")
    if sql_type.kind == "enum":
        return mysql_values.label_order(sql_type.labels) if sql_type.name == ENUM else _enum_order(sql_type.labels)
    if sql_type.name == SET:
        return mysql_values.set_order(sql_type.labels)
    if _is_text(sql_type) and sql_type.name != "bpchar":
        return _order_text if sql_type.weights is None else sql_type.weights.order
    return _ORDER_FORMS[sql_type.name]


def compared_form(sql_type: SqlType) -> Callable[[str], bytes]:
    """As `order_form`, for ``<``, MIN and MAX: enums and sets of MariaDB and MySQL are texts to these."""
    if sql_type.name not in _LABELLED:
        return order_form(sql_type)
    if sql_type.collation == "bytes" and sql_type.weights is None:
        return _order_text
    if sql_type.weights is None:
        raise ValueError(f"the order of {sql_type.sql} is not known")
    return sql_type.weights.order


def _enum_order(labels: tuple[str, ...]) -> Callable[[str], bytes]:
    positions = {label: i.to_bytes(4, "big") for i, label in enumerate(labels)}

    def order(text: str) -> bytes:
        try:
            return positions[text]
        except KeyError:
            raise EvaluationError(f"{text!r} is not a label of the enum as it was when the catalog was read") from None

    return order


def _order_text(text: str) -> bytes:
    return text.encode().replace(b"\0", b"\0\xff") + b"\0\0"


def _order_bpchar(text: str) -> bytes:
    return _order_text(text.rstrip(" "))


def _order_integer(text: str) -> bytes:
    return (int(text) + (1 << 63)).to_bytes(8, "big")


_INVERTED = bytes(255 - i for i in range(256))
_NUMERIC_SPECIAL = {"-Infinity": b"\x00", "Infinity": b"\x04", "NaN": b"\x05"}


def _order_numeric(text: str) -> bytes:
    special = _NUMERIC_SPECIAL.get(text)
    if special is not None:
        return special
    whole, _, fraction = text.lstrip("+-").partition(".")
    whole = whole.lstrip("0")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return b"\x02"
    exponent = len(whole) if whole else len(digits) - len(fraction)
    magnitude = (exponent + (1 << 31)).to_bytes(4, "big") + digits.rstrip("0").encode() + b"\0"
    return b"\x01" + magnitude.translate(_INVERTED) if text[0] == "-" else b"\x03" + magnitude


def _order_float8(text: str) -> bytes:
    return _order_double(float(text))


def _order_float4(text: str) -> bytes:
    return _order_double(float4(text))


def _order_double(value: float) -> bytes:
    if value != value:
        return b"\xff" * 8
    data: bytes = struct.pack(">d", value or 0.0)
    if data[0] & 0x80:
        return data.translate(_INVERTED)
    return bytes((data[0] | 0x80,)) + data[1:]


def _order_bool(text: str) -> bytes:
    return b"\x01" if text == "t" else b"\x00"


def _order_ascii(text: str) -> bytes:
    return text.encode() + b"\0"


_INFINITIES = {"-infinity": b"\0" * 16, "infinity": b"\xff" * 16}


def _order_wide(number: int) -> bytes:
    return (number + (1 << 126)).to_bytes(16, "big")


def _order_date(text: str) -> bytes:
    return _INFINITIES.get(text) or _order_wide(to_days(text))


def _order_timestamp(text: str) -> bytes:
    return _INFINITIES.get(text) or _order_wide(to_microseconds(text))


def _order_time(text: str) -> bytes:
    return _order_wide(time_zone_parts(text)[0])


def _order_timetz(text: str) -> bytes:
    """By the moment; of one moment, the zone further east first (zones count seconds *west* of Greenwich)."""
    time, zone = time_zone_parts(text)
    east = zone_seconds(zone)
    return _order_wide(time - east * 1_000_000) + _order_wide(-east)


def _order_interval(text: str) -> bytes:
    total = interval_total(text)
    return _INFINITIES[total] if isinstance(total, str) else _order_wide(total)


_ORDER_FORMS: dict[str, Callable[[str], bytes]] = {
    **mysql_values.ORDER_FORMS,
    **dict.fromkeys((*INTEGERS, "oid"), _order_integer),
    "numeric": _order_numeric,
    "float4": _order_float4,
    "float8": _order_float8,
    "bpchar": _order_bpchar,
    "bool": _order_bool,
    "uuid": _order_ascii,
    "bytea": _order_ascii,
    "date": _order_date,
    "time": _order_time,
    "timetz": _order_timetz,
    "timestamp": _order_timestamp,
    "timestamptz": _order_timestamp,
    "interval": _order_interval,
}
