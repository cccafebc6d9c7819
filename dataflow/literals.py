"""User input to the upstream's text form: a parameter's value, or a constant of the SQL, as its type's output prints.

Accepts less than PostgreSQL's input functions do, and gives for what it accepts exactly what the upstream would. (The
types that only MariaDB and MySQL have are in `mysql_literals`.)
Everything else is a `ValueError` whose text says what is expected.
"""

import re
from collections.abc import Callable
from fractions import Fraction

from dataflow import json_documents, mysql_literals, numeric
from dataflow.calendar import (
    civil_days,
    clock_microseconds,
    clock_text,
    date_text,
    interval_parts,
    interval_text,
    timestamp_text,
    zone_seconds,
)
from dataflow.errors import EvaluationError
from dataflow.mysql_types import ENUM, UUID
from dataflow.schema import SqlType
from dataflow.values import normal_form

_RANGES = {
    "int2": (-(2**15), 2**15 - 1),
    "int4": (-(2**31), 2**31 - 1),
    "int8": (-(2**63), 2**63 - 1),
    "oid": (0, 2**32 - 1),
}
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?")
_SPECIAL_NUMBERS = {
    "nan": "NaN",
    "infinity": "Infinity",
    "+infinity": "Infinity",
    "-infinity": "-Infinity",
    "inf": "Infinity",
    "+inf": "Infinity",
    "-inf": "-Infinity",
}
#: How the numbers of MariaDB and MySQL are written, which have no infinities.
_FINITE = ("decimal", "double", "float")
_MAX_EXPONENT = 1000
_MAX_DIGITS = 10_000
_BOOLEANS = {
    "t": "t",
    "true": "t",
    "yes": "t",
    "on": "t",
    "1": "t",
    "f": "f",
    "false": "f",
    "no": "f",
    "off": "f",
    "0": "f",
}
_DATE = re.compile(r"([0-9]{4,7})-([0-9]{2})-([0-9]{2})( BC)?")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?")
_ZONE = re.compile(r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)")
_TIMESTAMP = re.compile(rf"([0-9]{{4,7}}-[0-9]{{2}}-[0-9]{{2}})[ T]({_TIME.pattern}) ?({_ZONE.pattern})?( BC)?")
_DAYS_OF_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?)[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{12}")
_BYTES = re.compile(r"\\x(?:[0-9a-fA-F]{2})*")
_ISO_INTERVAL = re.compile(
    r"P(?:(-?[0-9]+)Y)?(?:(-?[0-9]+)M)?(?:(-?[0-9]+)W)?(?:(-?[0-9]+)D)?(?:T(?:(-?[0-9]+)H)?(?:(-?[0-9]+)M)?(?:(-?)([0-9]+)(?:\.([0-9]{1,6}))?S)?)?"
)
_INT4_MAX = 2**31 - 1
#: Units of intervals: months, days or microseconds, and how many.
_UNITS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("year", "years", "yr", "yrs", "y"), (0, 12)),
    **dict.fromkeys(("month", "months", "mon", "mons"), (0, 1)),
    **dict.fromkeys(("week", "weeks", "w"), (1, 7)),
    **dict.fromkeys(("day", "days", "d"), (1, 1)),
    **dict.fromkeys(("hour", "hours", "hr", "hrs", "h"), (2, 3_600_000_000)),
    **dict.fromkeys(("minute", "minutes", "min", "mins", "m"), (2, 60_000_000)),
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), (2, 1_000_000)),
}
_WORD = re.compile(rf"([+-]?[0-9]+(?:\.[0-9]+)?) ?({'|'.join(_UNITS)})\b", re.IGNORECASE)
_WORDS = re.compile(rf" *(?:{_WORD.pattern} *)+", re.IGNORECASE)


def parse_parameter(sql_type: SqlType, text: str) -> str:
    """`text` as the upstream would print the value of `sql_type` it stands for. ValueError says what is expected."""
    if "\0" in text:
        raise ValueError("text without NUL characters is expected")
    if sql_type.name == ENUM:
        return mysql_literals.parse_label(sql_type, text)
    if sql_type.kind == "enum":
        if text not in sql_type.labels:
            raise ValueError(f"one of {', '.join(sql_type.labels)} is expected")
        return text
    parse = _PARSERS.get(sql_type.name) if sql_type.kind == "base" else None
    if parse is None:
        raise ValueError(f"values of type {sql_type.sql} cannot be given here")
    return parse(sql_type, text)


def takes_parameters(sql_type: SqlType) -> bool:
    """Whether `parse_parameter` knows the type."""
    return sql_type.kind == "enum" or (sql_type.kind == "base" and sql_type.name in _PARSERS)


def _parse_text(sql_type: SqlType, text: str) -> str:
    if sql_type.name == "name" and len(text.encode()) > 63:
        raise ValueError("a name of at most 63 bytes is expected")
    if sql_type.weights is not None and not sql_type.weights.has(text):
        raise ValueError(f"text of the character set {sql_type.weights.charset} is expected")
    return text


def _parse_integer(sql_type: SqlType, text: str) -> str:
    low, high = _RANGES[sql_type.name]
    text = text.strip(" \t\n")
    if not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
        raise ValueError(f"an integer from {low} to {high} is expected")
    if sql_type.sql == "year" and 0 < int(text) < 100:
        # MariaDB and MySQL would take 24 for 2024.
        raise ValueError("a year of four digits is expected")
    return str(int(text))


def _parse_numeric(sql_type: SqlType, text: str) -> str:
    text = text.strip(" \t\n")
    if text.lower() in _SPECIAL_NUMBERS and not sql_type.sql.startswith(_FINITE):
        return _SPECIAL_NUMBERS[text.lower()]
    found = _NUMBER.fullmatch(text)
    if not found or not (found[2] or found[3]) or len(text) > _MAX_DIGITS or abs(int(found[4] or 0)) > _MAX_EXPONENT:
        raise ValueError("a decimal number is expected")
    return numeric.render(numeric.parse(text))


def _parse_float(sql_type: SqlType, text: str) -> str:
    text = text.strip(" \t\n")
    special = _SPECIAL_NUMBERS.get(text.lower())
    if special is not None and sql_type.sql not in _FINITE:
        return special
    if not _NUMBER.fullmatch(text) or not any(c.isdigit() for c in text):
        raise ValueError("a number is expected")
    form = normal_form(sql_type)
    assert form is not None
    try:
        normal = form(text)
    except OverflowError:
        normal = "Infinity"
    mantissa = re.split("[eE]", text)[0]
    if normal.endswith("Infinity") or (normal == "0" and any(c in "123456789" for c in mantissa)):
        raise ValueError(f"a number in the range of {sql_type.sql} is expected")
    return normal


def _parse_bool(_: SqlType, text: str) -> str:
    value = _BOOLEANS.get(text.strip().lower())
    if value is None:
        raise ValueError("true or false is expected")
    return value


def _parse_uuid(_: SqlType, text: str) -> str:
    if not _UUID.fullmatch(text):
        raise ValueError("a UUID like 6ba7b810-9dad-11d1-80b4-00c04fd430c8 is expected")
    digits = text.replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _parse_bytea(_: SqlType, text: str) -> str:
    if not _BYTES.fullmatch(text):
        raise ValueError(r"bytes in hexadecimal like \x0aff are expected")
    return text.lower()


# --- dates and times ------------------------------------------------------------------------------------------------

_FIRST_DAY = civil_days(-4713, 11, 24)
_DATE_END = civil_days(5_874_898, 1, 1)
_TIMESTAMP_END = civil_days(294_277, 1, 1)
_INFINITE = ("infinity", "-infinity")


def _parse_date(_: SqlType, text: str) -> str:
    if text in _INFINITE:
        return text
    days = _days(text)
    if days is None or not _FIRST_DAY <= days < _DATE_END:
        raise ValueError("a date like 2024-02-29 is expected")
    return date_text(days)


def _days(text: str) -> int | None:
    found = _DATE.fullmatch(text)
    if not found:
        return None
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    if found[4]:
        year = 1 - year
    if not year and not found[4]:
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS_OF_MONTH[month - 1] or (month == 2 and day == 29 and not leap):
        return None
    return civil_days(year, month, day)


def _microseconds(text: str) -> int | None:
    found = _TIME.fullmatch(text)
    if not found:
        return None
    hours, minutes, seconds, fraction = int(found[1]), int(found[2]), int(found[3] or 0), found[4] or ""
    total = clock_microseconds(f"{hours}:{minutes}:{seconds}.{fraction}")
    return total if minutes < 60 and seconds < 60 and total <= 86_400_000_000 else None


def _parse_time(_: SqlType, text: str) -> str:
    microseconds = _microseconds(text)
    if microseconds is None:
        raise ValueError("a time like 17:05:00 is expected")
    return clock_text(microseconds)


def _parse_timetz(_: SqlType, text: str) -> str:
    found = re.fullmatch(rf"({_TIME.pattern})({_ZONE.pattern})", text)
    microseconds = _microseconds(found[1]) if found else None
    if found is None or microseconds is None:
        raise ValueError("a time with its zone like 17:05:00+02 is expected")
    zone = _zone_text(found[6])
    if abs(zone_seconds(zone)) >= 16 * 3600:
        raise ValueError("a zone within 16 hours of Greenwich is expected")
    return clock_text(microseconds) + zone


def _zone_text(zone: str) -> str:
    """A zone as PostgreSQL prints it."""
    if zone == "Z":
        return "+00"
    digits = zone[1:].replace(":", "").ljust(4, "0")
    sign = "+" if digits == "0000" else zone[0]
    return f"{sign}{digits[:2]}" + (f":{digits[2:]}" if digits[2:] != "00" else "")


def _parse_timestamp(sql_type: SqlType, text: str) -> str:
    if text in _INFINITE:
        return text
    zoned = sql_type.name == "timestamptz"
    microseconds = _timestamp(text, zoned)
    if microseconds is None:
        raise ValueError(f"a timestamp like 2024-02-29 17:05:00{'+00' if zoned else ''} is expected")
    return timestamp_text(microseconds, "+00" if zoned else "")


def _timestamp(text: str, zoned: bool) -> int | None:
    days = _days(text)
    if days is not None:
        microseconds = days * 86_400_000_000
    else:
        found = _TIMESTAMP.fullmatch(text)
        if not found or (found[7] and not zoned):
            return None
        days, clock = _days(found[1] + (found[8] or "")), _microseconds(found[2])
        if days is None or clock is None:
            return None
        zone = _zone_text(found[7]) if found[7] else "+00"
        if abs(zone_seconds(zone)) >= 16 * 3600 or int(zone[4:6] or 0) >= 60:
            return None
        microseconds = days * 86_400_000_000 + clock - zone_seconds(zone) * 1_000_000
    return microseconds if _FIRST_DAY <= microseconds // 86_400_000_000 < _TIMESTAMP_END else None


def _parse_interval(_: SqlType, text: str) -> str:
    iso = _ISO_INTERVAL.fullmatch(text)
    if iso and len(text) > 2 and not text.endswith("T"):
        years, months, weeks, days, hours, minutes = (int(iso[i] or 0) for i in range(1, 7))
        clock = clock_microseconds(f"0:0:{iso[8] or 0}.{iso[9] or ''}")
        parts = (
            years * 12 + months,
            weeks * 7 + days,
            (hours * 3600 + minutes * 60) * 1_000_000 + (-clock if iso[7] else clock),
        )
    elif (words := _words_interval(text)) is not None:
        parts = words
    else:
        try:
            found = interval_parts(text)
        except ValueError:
            found = (0, 0, 2**63)
        if isinstance(found, str):
            return found
        parts = found
    if not text or abs(parts[0]) > _INT4_MAX or abs(parts[1]) > _INT4_MAX or abs(parts[2]) >= 2**63:
        raise ValueError("an interval like '1 day 02:30:00' or P1DT2H30M is expected")
    return interval_text(*parts)


def _parse_jsonb(_: SqlType, text: str) -> str:
    try:
        return json_documents.normalised(text)
    except EvaluationError as error:
        raise ValueError("JSON is expected") from error


def _words_interval(text: str) -> tuple[int, int, int] | None:
    """``2 hours 30 minutes``: whole numbers with units, fractions of what is kept as time only."""
    if not _WORDS.fullmatch(text):
        return None
    totals = [0, 0, 0]
    for number, unit in _WORD.findall(text):
        place, factor = _UNITS[unit.lower()]
        amount = Fraction(number) * factor
        if amount.denominator != 1 or (place < 2 and "." in number):
            return None
        totals[place] += int(amount)
    return totals[0], totals[1], totals[2]


_PARSERS: dict[str, Callable[[SqlType, str], str]] = {
    **mysql_literals.PARSERS,
    **dict.fromkeys(("text", "varchar", "bpchar", "name"), _parse_text),
    **dict.fromkeys(_RANGES, _parse_integer),
    "numeric": _parse_numeric,
    "float4": _parse_float,
    "float8": _parse_float,
    "bool": _parse_bool,
    "uuid": _parse_uuid,
    UUID: _parse_uuid,
    "bytea": _parse_bytea,
    "date": _parse_date,
    "time": _parse_time,
    "timetz": _parse_timetz,
    "timestamp": _parse_timestamp,
    "timestamptz": _parse_timestamp,
    "interval": _parse_interval,
    "jsonb": _parse_jsonb,
}
