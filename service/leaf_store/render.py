"""JSON forms of the upstream's text values, compiled once per view.

Input is what PostgreSQL prints under the pinned session settings (DateStyle ISO, IntervalStyle postgres, bytea_output
hex), of MariaDB and MySQL the texts of `mysql_types`. What has no JSON form of its own (infinities, BC, years beyond
9999, zero dates, unknown types) is a string with that text.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from json.encoder import encode_basestring

from dataflow.mysql_types import DATE, DATETIME, INET4, INET6, JSON, TIME, TIMESTAMP, UINT8, UUID
from dataflow.schema import SqlType
from dataflow.types import Row

#: Text of a value (never NULL) -> JSON text.
JsonForm = Callable[[str], str]

_VERBATIM = frozenset({"int2", "int4", "int8", "oid", "json", "jsonb", UINT8})
#: More digits than a JavaScript number keeps; a view may have them as strings.
BIGINTS = frozenset({"int8", UINT8})
#: Printed without any character that JSON escapes.
_PLAIN_STRING = frozenset({"numeric", "uuid", "date", UUID, DATE, TIME, INET4, INET6})

_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(?:([+-]\d\d)(?::?(\d\d))?)?")
_TIMETZ = re.compile(r"((?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d+)?)([+-]\d\d)(?::?(\d\d))?")
#: Of MariaDB and MySQL: no year, month or day.
_ZERO_DATE = re.compile(r"0000|\d{4}-00|\d{4}-\d\d-00")
_INTERVAL = re.compile(
    r"(?:(-?\+?\d+) years? ?)?(?:([+-]?\d+) mons? ?)?(?:([+-]?\d+) days? ?)?"
    r"(?:([+-]?)(\d+):(\d\d):(\d\d)(\.\d+)?)?"
)


def json_form(sql_type: SqlType, bigint_text: bool = False) -> JsonForm | None:
    """How values of a type are written in JSON; None: exactly as their text. `bigint_text`: `BIGINTS` are strings."""
    if sql_type.kind == "array" and sql_type.element is not None:
        return _array_form(sql_type.element, bigint_text)
    if sql_type.kind == "base":
        if bigint_text and sql_type.name in BIGINTS:
            return _quoted
        if sql_type.name in _VERBATIM:
            return None
        if sql_type.name in _PLAIN_STRING:
            return _quoted
        return _FORMS.get(sql_type.name, encode_basestring)
    return None if (sql_type.name, sql_type.kind, sql_type.sql) == (JSON, "other", "json") else encode_basestring


def compile_row(columns: Sequence[tuple[str, int, SqlType]], bigint_text: bool = False) -> Callable[[Row], bytes]:
    """Row -> JSON object, from (name, column of the row, type) in output order; a repeated name gets ``_2``, ``_3``"""
    names = unique_names([name for name, _, _ in columns])
    members = (f"{encode_basestring(name)}:".replace("%", "%%") + "%s" for name in names)
    template = "{" + ",".join(members) + "}"
    forms = [(column, json_form(sql_type, bigint_text)) for _, column, sql_type in columns]

    def row_json(row: Row) -> bytes:
        return (
            template
            % tuple(
                [
                    "null" if (text := row[column]) is None else text if form is None else form(text)
                    for column, form in forms
                ]
            )
        ).encode()

    return row_json


def unique_names(names: Sequence[str]) -> list[str]:
    """The names readers see: the second ``a`` is ``a_2``, unless there is such a column already."""
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, n = name, 1
        while candidate in taken:
            n += 1
            candidate = f"{name}_{n}"
        taken.add(candidate)
        result.append(candidate)
    return result


def _quoted(text: str) -> str:
    return f'"{text}"'


def _boolean(text: str) -> str:
    return "true" if text == "t" else "false"


def _float(text: str) -> str:
    # Finite ones end in a digit; NaN, Infinity and -Infinity do not.
    return text if text[-1].isdigit() else f'"{text}"'


def _bytea(text: str) -> str:
    if not text.startswith("\\x"):
        return encode_basestring(text)
    return f'"{b64encode(bytes.fromhex(text[2:])).decode()}"'


def _zone(hours: str, minutes: str | None) -> str:
    minutes = minutes or "00"
    return "Z" if hours in ("+00", "-00") and minutes == "00" else f"{hours}:{minutes}"


def _timestamp(text: str) -> str:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return encode_basestring(text)
    date, time, hours, minutes = match.groups()
    return f'"{date}T{time}{_zone(hours, minutes) if hours else ""}"'


def _mysql_datetime(text: str) -> str:
    return f'"{text}"' if _ZERO_DATE.match(text) else f'"{text[:10]}T{text[11:]}"'


def _mysql_timestamp(text: str) -> str:
    return f'"{text}"' if _ZERO_DATE.match(text) else f'"{text[:10]}T{text[11:]}Z"'


def _timetz(text: str) -> str:
    match = _TIMETZ.fullmatch(text)
    if match is None:
        return encode_basestring(text)
    time, hours, minutes = match.groups()
    return f'"{time}{_zone(hours, minutes)}"'


def _interval(text: str) -> str:
    match = _INTERVAL.fullmatch(text)
    if match is None or not text:
        return encode_basestring(text)
    years, months, days, sign, hours, minutes, seconds, fraction = match.groups()
    date = "".join(f"{int(n)}{unit}" for n, unit in ((years, "Y"), (months, "M"), (days, "D")) if n and int(n))
    time = ""
    if hours is not None:
        minus = "-" if sign == "-" else ""
        fraction = (fraction or "").rstrip("0").rstrip(".")
        parts = ((int(hours), "", "H"), (int(minutes), "", "M"), (int(seconds), fraction, "S"))
        time = "".join(f"{minus}{n}{rest}{unit}" for n, rest, unit in parts if n or rest)
    if time:
        return f'"P{date}T{time}"'
    return f'"P{date}"' if date else '"PT0S"'


def _array_form(element: SqlType, bigint_text: bool) -> JsonForm:
    form = json_form(element, bigint_text)
    delimiter = ";" if element.name == "box" else ","

    def array(text: str) -> str:
        # Lower bounds other than 1 are printed in front: [0:1]={a,b}.
        body = text[text.index("=") + 1 :] if text.startswith("[") else text
        return "".join(_array_json(body, delimiter, form))

    return array


def _array_json(text: str, delimiter: str, form: JsonForm | None) -> Iterator[str]:
    """An array's text token by token (PostgreSQL manual, 8.15.6); nested arrays need no recursion."""
    i, end = 0, len(text)
    while i < end:
        char = text[i]
        if char == "{":
            yield "["
            i += 1
        elif char == "}":
            yield "]"
            i += 1
        elif char == delimiter:
            yield ","
            i += 1
        elif char == '"':
            value, i = _quoted_element(text, i + 1)
            yield value if form is None else form(value)
        else:
            start = i
            while text[i] not in (delimiter, "}"):
                i += 1
            value = text[start:i]
            yield "null" if value == "NULL" else value if form is None else form(value)


def _quoted_element(text: str, i: int) -> tuple[str, int]:
    """The element that begins at `i`, behind its opening quote, and where the text goes on behind the closing one."""
    parts = []
    while (char := text[i]) != '"':
        if char == "\\":
            i += 1
        parts.append(text[i])
        i += 1
    return "".join(parts), i + 1


_FORMS: dict[str, JsonForm] = {
    "bool": _boolean,
    "float4": _float,
    "float8": _float,
    "bytea": _bytea,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "timetz": _timetz,
    "interval": _interval,
    DATETIME: _mysql_datetime,
    TIMESTAMP: _mysql_timestamp,
}
