"""Values as ``json`` and ``jsonb``, as PostgreSQL's to_json and to_jsonb make them of each type.

Not here: functions on JSON values (`evaluate`), aggregates of them (`ops.aggregate_lists`).
"""

import re
from collections.abc import Callable
from decimal import Decimal

from dataflow.schema import SqlType
from dataflow.values import FLOATS, INTEGERS

#: The text of a non-NULL value as JSON.
JsonText = Callable[[str], str]

_NUMBERS = INTEGERS | FLOATS | {"numeric"}
_DATES = frozenset({"date", "timestamp", "timestamptz"})
_JSON = frozenset({"json", "jsonb"})
#: Other types of the upstream's own that are plain text to JSON. Of the rest (composites, ranges, extensions' types)
#: it is not known whether a cast to json says otherwise.
_PLAIN = frozenset(
    f'pg_catalog."{name}"'
    for name in ("inet", "cidr", "macaddr", "macaddr8", "money", "xml", "tsvector", "tsquery", "varbit", "pg_lsn")
)
_NAMED = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'[\\"\x00-\x1f]')


def plain(sql_type: SqlType) -> bool:
    """Whether it is known of a type that its values are their texts to arrays and JSON."""
    return sql_type.kind in ("base", "enum") or sql_type.sql in _PLAIN


def json_string(text: str) -> str:
    """A text as a JSON string."""
    return '"' + _ESCAPED.sub(lambda found: _NAMED.get(found[0]) or f"\\u{ord(found[0]):04x}", text) + '"'


def json_text(sql_type: SqlType) -> JsonText:
    """How values of a type become ``json``. ValueError if that is not known."""
    if sql_type.name == "bool" and sql_type.kind == "base":
        return _boolean
    if sql_type.name in _NUMBERS and sql_type.kind == "base":
        return _number
    if sql_type.name in _JSON and sql_type.kind != "array":
        return _verbatim
    text = _scalar_text(sql_type)
    return json_string if text is None else lambda value: json_string(text(value))


def jsonb_text(sql_type: SqlType) -> JsonText:
    """How values of a type become ``jsonb``, as that prints. ValueError if that is not known."""
    if sql_type.name == "json":
        raise ValueError("json is not made jsonb here")
    if sql_type.name in FLOATS and sql_type.kind == "base":
        return _float_as_numeric
    return json_text(sql_type)


def json_key(sql_type: SqlType) -> JsonText:
    """The text, not yet quoted, that values of a type are as keys of an object. ValueError if that is not known."""
    if sql_type.name in _JSON:
        raise ValueError(f"{sql_type.sql} is no key of an object")
    if sql_type.name == "bool" and sql_type.kind == "base":
        return _boolean
    return _scalar_text(sql_type) or _verbatim


def jsonb_order(text: str) -> tuple[int, bytes]:
    """What ``jsonb`` sorts an object's keys by."""
    data = text.encode()
    return len(data), data


def _scalar_text(sql_type: SqlType) -> JsonText | None:
    """How a value that becomes a string is written in it; None: as it is."""
    if sql_type.kind == "array" or sql_type.sql.endswith("[]"):
        raise ValueError("arrays are not made JSON here")
    if not plain(sql_type):
        raise ValueError(f"{sql_type.sql} is not made JSON here")
    return _date if sql_type.kind == "base" and sql_type.name in _DATES else None


def _verbatim(text: str) -> str:
    return text


def _boolean(text: str) -> str:
    return "true" if text == "t" else "false"


def _number(text: str) -> str:
    return json_string(text) if text[-1:] in "Ny" else text


def _float_as_numeric(text: str) -> str:
    """A float is a numeric in ``jsonb``, which has no exponents."""
    if text[-1:] in "Ny":
        return json_string(text)
    return f"{Decimal(text):f}" if "e" in text else text.replace("-0", "0") if text == "-0" else text


def _date(text: str) -> str:
    """ISO 8601: a T between date and time, zones with minutes."""
    if " " not in text:
        return text
    date, clock, *era = text.split(" ")
    if clock == "BC":
        return text
    if clock[-3:-2] in ("+", "-"):
        clock += ":00"
    return " ".join([f"{date}T{clock}", *era])
