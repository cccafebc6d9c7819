"""Values as ``json`` and ``jsonb``, as PostgreSQL's to_json and to_jsonb make them of each type.

Not here: JSON itself (`functions.json`), aggregates that make it (`aggregate_lists`).
"""

from collections.abc import Callable
from decimal import Decimal

from dataflow.functions import arrays
from dataflow.functions.json import normalised, quoted
from dataflow.schema import SqlType
from dataflow.types import Value
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


def plain(sql_type: SqlType) -> bool:
    """Whether it is known of a type that its values are their texts to arrays and JSON."""
    return sql_type.kind in ("base", "enum") or sql_type.sql in _PLAIN


def json_text(sql_type: SqlType) -> JsonText:
    """How values of a type become ``json``. ValueError if that is not known."""
    if sql_type.kind == "array" and sql_type.element is not None:
        return _array(json_text(sql_type.element), ",")
    if sql_type.kind == "base":
        if sql_type.name == "bool":
            return _boolean
        if sql_type.name in _NUMBERS:
            return _number
        if sql_type.name in _JSON:
            return _verbatim
    return _string(sql_type)


def jsonb_text(sql_type: SqlType) -> JsonText:
    """How values of a type become ``jsonb``, as that prints. ValueError if that is not known."""
    if sql_type.kind == "array" and sql_type.element is not None:
        return _array(jsonb_text(sql_type.element), ", ")
    if sql_type.kind == "base":
        if sql_type.name == "json":
            return normalised
        if sql_type.name in FLOATS:
            return _float_as_numeric
    return json_text(sql_type)


def json_key(sql_type: SqlType) -> JsonText:
    """The text, not yet quoted, that values of a type are as keys of an object. ValueError if that is not known."""
    if sql_type.kind == "base" and sql_type.name in _JSON:
        raise ValueError(f"{sql_type.sql} is no key of an object")
    if sql_type.kind == "base" and sql_type.name == "bool":
        return _boolean
    return _scalar_text(sql_type) or _verbatim


def jsonb_order(text: str) -> tuple[int, bytes]:
    """What ``jsonb`` sorts an object's keys by."""
    data = text.encode()
    return len(data), data


def _string(sql_type: SqlType) -> JsonText:
    text = _scalar_text(sql_type)
    return quoted if text is None else lambda value: quoted(text(value))


def _scalar_text(sql_type: SqlType) -> JsonText | None:
    """How a value that becomes a string is written in it; None: as it is."""
    if not plain(sql_type):
        raise ValueError(f"{sql_type.sql} is not made JSON here")
    return _date if sql_type.kind == "base" and sql_type.name in _DATES else None


def _array(element: JsonText, separator: str) -> JsonText:
    def text(value: "Value | arrays.Elements") -> str:
        if value is None:
            return "null"
        if isinstance(value, str):
            return element(value)
        return f"[{separator.join(map(text, value))}]"

    return lambda value: text(arrays.parse(value).elements)


def _verbatim(text: str) -> str:
    return text


def _boolean(text: str) -> str:
    return "true" if text == "t" else "false"


def _number(text: str) -> str:
    return quoted(text) if text[-1:] in "Ny" else text


def _float_as_numeric(text: str) -> str:
    """A float is a numeric in ``jsonb``, which has neither exponents nor a negative zero."""
    if text[-1:] in "Ny":
        return quoted(text)
    return f"{Decimal(text):f}" if "e" in text else "0" if text == "-0" else text


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
