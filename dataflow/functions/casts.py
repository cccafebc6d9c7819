"""Casts: which are exact, and what they do. The identity where the text stays the same.

A cast to a type with a length, precision or scale (``numeric(10,2)``) is one to the plain type, then its own step.
"""

import re
from collections.abc import Callable
from fractions import Fraction

from dataflow import arithmetic, json_documents, numeric
from dataflow.errors import EvaluationError
from dataflow.functions import floats, moments
from dataflow.schema import SqlType

Cast = Callable[[str], str | None]

_SPACES = " \t\n\v\f\r"
_PREFIXED = re.compile(r"([+-]?)0([xob])((?:_?[0-9a-f])+)", re.IGNORECASE)
_BASES = {"x": 16, "o": 8, "b": 2}
_DECIMAL = re.compile(r"[+-]?[0-9]+(?:_[0-9]+)*")
_NUMBER = re.compile(r"([+-]?)(\d+(?:_\d+)*)?(?:\.(\d+(?:_\d+)*)?)?(?:e([+-]?\d+(?:_\d+)*))?", re.IGNORECASE | re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
#: What strtod may read beside these: hexadecimal digits, a NaN with a payload.
_LIBRARY_FLOAT = re.compile(r"[+-]?(?:0x|nan|inf)", re.IGNORECASE)
_SPECIAL = {
    "nan": "NaN",
    "infinity": "Infinity",
    "+infinity": "Infinity",
    "-infinity": "-Infinity",
    "inf": "Infinity",
    "+inf": "Infinity",
    "-inf": "-Infinity",
}
_WORDS = ("true", "false", "yes", "no", "on", "off", "1", "0")
_UUID = re.compile(r"[0-9a-f]{4}(?:-?[0-9a-f]{4}){7}", re.IGNORECASE)
_TYPMOD = re.compile(r"\w+\((-?\d+)(?:,(-?\d+))?\)")
_MAX_DIGITS = 4000
#: Beyond it, no numeric but 0 has so many digits.
_MAX_POWER = 200_000


def cast_function(source: SqlType, target: SqlType) -> Cast | None:
    """The cast of a value that is not NULL; None if it keeps the text. ValueError if it is not exact here."""
    if source == target:
        return None
    step = _plain(source, target)
    if not target.sql.endswith(")"):
        return step
    limit = _limited(target, source)
    return limit if step is None else _composed(step, limit)


def _composed(first: Cast, second: Cast) -> Cast:
    def both(text: str) -> str | None:
        value = first(text)
        return None if value is None else second(value)

    return both


def _plain(source: SqlType, target: SqlType) -> Cast | None:
    if target.kind == "base" and target.name in ("text", "varchar") and source.rules.prints_itself:
        return None
    if not "base" == source.kind == target.kind:
        raise ValueError(f"a cast from {source.sql} to {target.sql} is not known")
    if source.name == target.name or (source.is_text and target.name in ("text", "varchar")):
        return None
    if source.is_number:
        found = _from_number(source, target)
    elif source.is_text:
        found = _FROM_TEXT.get(target.name)
    else:
        found = _OTHER.get((source.name, target.name))
    if found is None:
        raise ValueError(f"a cast from {source.sql} to {target.sql} is not known")
    return None if found is _same else found


def _same(text: str) -> str:
    return text


# --- numbers --------------------------------------------------------------------------------------------------------


def _from_number(source: SqlType, target: SqlType) -> Cast | None:
    name = target.name
    if target.is_integer:
        if source.is_decimal:
            return lambda a: arithmetic.to_integer(a, name)
        if source.is_float:
            return lambda a: floats.to_integer(a, source.name, name)
        return _same if name > source.name else lambda a: str(arithmetic.check_range(int(a), name))
    if target.is_float:
        if source.is_whole:
            return lambda a: floats.from_integer(a, name)
        if source.is_decimal:
            return lambda a: floats.from_numeric(a, name)
        return floats.widened if name == "float8" else floats.narrowed
    if target.is_decimal:
        return _same if source.is_whole else lambda a: floats.to_numeric(a, source.name)
    if target.is_whole and source.is_integer:
        # Only of smaller unsigned integers: a signed one beside it makes the column a DECIMAL.
        return _same
    if target.is_boolean and source.name == "int4":
        return lambda a: "f" if a == "0" else "t"
    return _same if name == "bpchar" else None


# --- from text ------------------------------------------------------------------------------------------------------


def _wrong(text: str, type_name: str) -> EvaluationError:
    return EvaluationError(f"invalid input syntax for type {type_name}: {text[:100]!r}")


def _too_long(type_name: str) -> EvaluationError:
    return EvaluationError(f"not computed: a text of more than {_MAX_DIGITS} characters as {type_name}")


def _to_integer(target: str) -> Cast:
    def cast(text: str) -> str:
        stripped = text.strip(_SPACES)
        if len(stripped) > _MAX_DIGITS:
            raise _too_long(target)
        prefixed = _PREFIXED.fullmatch(stripped)
        if prefixed is not None:
            digits = prefixed[3].replace("_", "")
            try:
                value = int(prefixed[1] + digits, _BASES[prefixed[2].lower()])
            except ValueError:
                raise _wrong(text, target) from None
        elif _DECIMAL.fullmatch(stripped):
            value = int(stripped)
        else:
            raise _wrong(text, target)
        return str(arithmetic.check_range(value, target))

    return cast


def _to_numeric(text: str) -> str:
    stripped = text.strip(_SPACES)
    special = _SPECIAL.get(stripped.lower())
    if special is not None:
        return special
    if len(stripped) > _MAX_DIGITS:
        raise _too_long("numeric")
    prefixed = _PREFIXED.fullmatch(stripped)
    if prefixed is not None:
        try:
            return str(int(prefixed[1] + prefixed[3].replace("_", ""), _BASES[prefixed[2].lower()]))
        except ValueError:
            raise _wrong(text, "numeric") from None
    found = _NUMBER.fullmatch(stripped)
    if found is None or not (found[2] or found[3]):
        raise _wrong(text, "numeric")
    sign, whole, fraction, power = found[1], found[2] or "0", found[3] or "", int(found[4] or 0)
    if abs(power) > _MAX_POWER:
        raise _wrong(text, "numeric")
    digits = f"{whole}.{fraction}" if fraction else whole
    return arithmetic.plain_decimal(f"{sign}{digits}e{power}".replace("_", ""))


def _to_float(target: str) -> Cast:
    def cast(text: str) -> str:
        stripped = text.strip(_SPACES)
        special = _SPECIAL.get(stripped.lower())
        if special is not None:
            return special
        if len(stripped) > _MAX_DIGITS:
            raise _too_long(target)
        if not _FLOAT.fullmatch(stripped):
            if _LIBRARY_FLOAT.match(stripped):
                raise EvaluationError(f"not computed: a number as only the server's C library reads it as {target}")
            raise _wrong(text, target)
        mantissa = re.split("[eE]", stripped)[0]
        nonzero = any(c in "123456789" for c in mantissa)
        if not nonzero:
            return "-0" if stripped[0] == "-" else "0"
        value = float(stripped)
        if target == "float4" and value:
            value = floats.single(Fraction(stripped)) if abs(value) < 1e300 else float("inf")
        if not value or abs(value) == float("inf"):
            raise EvaluationError(f"{text!r} is out of range for type {target}")
        return floats.printed(value, target)

    return cast


def _to_bool(text: str) -> str:
    word = text.strip(_SPACES).lower()
    found = [w for w in _WORDS if word and w.startswith(word)]
    # "o" could be on or off.
    if len(found) != 1:
        raise _wrong(text, "boolean")
    return "t" if found[0] in ("true", "yes", "on", "1") else "f"


def _to_uuid(text: str) -> str:
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    if not _UUID.fullmatch(inner):
        raise _wrong(text, "uuid")
    digits = inner.replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_FROM_TEXT: dict[str, Cast] = {
    **{name: _to_integer(name) for name in ("int2", "int4", "int8")},
    "numeric": _to_numeric,
    **{name: _to_float(name) for name in ("float4", "float8")},
    "bool": _to_bool,
    "uuid": _to_uuid,
    "json": json_documents.checked,
    "jsonb": json_documents.normalised,
    "bpchar": _same,
}


# --- the others -----------------------------------------------------------------------------------------------------


def _trimmed(text: str) -> str:
    return text.rstrip(" ")


def _date_zoned(text: str) -> str:
    return moments.date_to_timestamp(text, "timestamptz")


def _plain_timestamp(text: str) -> str:
    return moments.retyped(text, "timestamp")


def _zoned_timestamp(text: str) -> str:
    return moments.retyped(text, "timestamptz")


def _time_interval(text: str) -> str:
    return moments.interval_of(0, 0, moments.clock(text))


def _interval_time(text: str) -> str:
    interval = moments.interval(text)
    if isinstance(interval, str):
        raise EvaluationError("cannot convert infinite interval to time")
    return moments.time(interval[2] % moments.DAY_US)


def _boolean_word(text: str) -> str:
    return "true" if text == "t" else "false"


_OTHER: dict[tuple[str, str], Cast] = {
    ("bpchar", "text"): _trimmed,
    ("bpchar", "varchar"): _trimmed,
    ("bool", "int4"): lambda a: "1" if a == "t" else "0",
    ("bool", "text"): _boolean_word,
    ("bool", "varchar"): _boolean_word,
    ("date", "timestamp"): moments.date_to_timestamp,
    ("date", "timestamptz"): _date_zoned,
    ("timestamp", "date"): moments.timestamp_date,
    ("timestamptz", "date"): moments.timestamp_date,
    ("timestamp", "time"): moments.timestamp_time,
    ("timestamptz", "time"): moments.timestamp_time,
    ("timestamp", "timestamptz"): _zoned_timestamp,
    ("timestamptz", "timestamp"): _plain_timestamp,
    ("time", "interval"): _time_interval,
    ("interval", "time"): _interval_time,
    ("json", "jsonb"): json_documents.normalised,
    ("jsonb", "json"): _same,
}


# --- lengths and scales ---------------------------------------------------------------------------------------------


def _limited(target: SqlType, source: SqlType) -> Cast:
    """The cast of a value of the plain type to a length, or to a precision and scale."""
    found = _TYPMOD.fullmatch(target.sql)
    if found is None:
        raise ValueError(f"a cast to {target.sql} is not known")
    first, second = int(found[1]), int(found[2] or 0)
    match target.name:
        case "numeric":
            return lambda a: _to_scale(a, first, second)
        case "varchar":
            return lambda a: a[:first]
        case "bpchar":
            # From char(n), what is cut must be taken from the padded value.
            return lambda a: a[:first].ljust(first)
        case "timestamp" | "timestamptz":
            return lambda a: moments.rounded_timestamp(a, first, target.name)
        case _:
            raise ValueError(f"a cast from {source.sql} to {target.sql} is not known")


def _to_scale(text: str, precision: int, scale: int) -> str:
    if text == "NaN":
        return text
    if text in ("Infinity", "-Infinity"):
        raise EvaluationError("numeric field overflow")
    rounded = arithmetic.round_to(text, scale)
    value = numeric.parse(rounded)
    if value and value.adjusted() >= precision - scale:
        raise EvaluationError("numeric field overflow")
    return rounded


def castable(source: SqlType, target: SqlType) -> bool:
    """Return whether the cast is known and exact."""
    try:
        cast_function(source, target)
    except ValueError:
        return False
    return True
