"""Values of each type as ``json`` and ``jsonb``, and the functions that build documents of them: TO_JSON,
JSON_BUILD_OBJECT, JSON_BUILD_ARRAY.

Not here: functions on documents (`json`), aggregates that make them (`ops.aggregate_lists`).
"""

from collections.abc import Callable
from decimal import Decimal

from dataflow.errors import EvaluationError
from dataflow.functions import arrays
from dataflow.functions.compiler import Compile, Compiler, Function
from dataflow.json_documents import normalised, quoted
from dataflow.scalar import Call
from dataflow.schema import SqlType
from dataflow.types import Row, Value

#: The text of a non-NULL value as JSON.
JsonText = Callable[[str], str]

#: Other types of the upstream's own that are plain text to JSON. Of the rest (composites, ranges, extensions' types)
#: it is not known whether a cast to json says otherwise.
_PLAIN = frozenset(
    f'pg_catalog."{name}"'
    for name in ("inet", "cidr", "macaddr", "macaddr8", "money", "xml", "tsvector", "tsquery", "varbit", "pg_lsn")
)


def plain(sql_type: SqlType) -> bool:
    """Return whether it is known of a type that its values are their texts to arrays and JSON."""
    return sql_type.kind in ("base", "enum") or sql_type.sql in _PLAIN


def json_text(sql_type: SqlType) -> JsonText:
    """How values of a type become ``json``. ValueError if that is not known."""
    if sql_type.kind == "array" and sql_type.element is not None:
        return _array(json_text(sql_type.element), ",")
    if sql_type.is_boolean:
        return _boolean
    if sql_type.is_number:
        return _number
    return _verbatim if sql_type.is_document else _string(sql_type)


def jsonb_text(sql_type: SqlType) -> JsonText:
    """How values of a type become ``jsonb``, as that prints. ValueError if that is not known."""
    if sql_type.kind == "array" and sql_type.element is not None:
        return _array(jsonb_text(sql_type.element), ", ")
    if sql_type.is_float:
        return _float_as_numeric
    return normalised if sql_type.is_document and sql_type.name == "json" else json_text(sql_type)


def json_key(sql_type: SqlType) -> JsonText:
    """The text, not yet quoted, that values of a type are as keys of an object. ValueError if that is not known."""
    if sql_type.is_document:
        raise ValueError(f"{sql_type.sql} is no key of an object")
    if sql_type.is_boolean:
        return _boolean
    return _scalar_text(sql_type) or _verbatim


def jsonb_order(text: str) -> tuple[int, bytes]:
    """The sort key of an object's keys in ``jsonb``."""
    data = text.encode()
    return len(data), data


def _string(sql_type: SqlType) -> JsonText:
    text = _scalar_text(sql_type)
    return quoted if text is None else lambda value: quoted(text(value))


def _scalar_text(sql_type: SqlType) -> JsonText | None:
    """How a value that becomes a string is written in it; None: as it is."""
    if not plain(sql_type):
        raise ValueError(f"{sql_type.sql} is not made JSON here")
    return _date if sql_type.is_moment else None


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


# --- functions ------------------------------------------------------------------------------------------------------


def jsonb_object(values: dict[str, str]) -> str:
    """A ``jsonb`` object of texts that are JSON."""
    return "{" + ", ".join([f"{quoted(key)}: {values[key]}" for key in sorted(values, key=jsonb_order)]) + "}"


def json_object(pairs: list[tuple[str, str]]) -> str:
    """A ``json`` object as JSON_BUILD_OBJECT writes it, keys that repeat included."""
    return "{" + ", ".join([f"{quoted(key)} : {value}" for key, value in pairs]) + "}"


def _to_json(text_of: Callable[[SqlType], JsonText]) -> Compiler:
    def compiler(call: Call, compile_: Compile) -> Function:
        (argument,) = call.arguments
        value, text = compile_.scalar(argument), text_of(argument.type)
        return lambda row: None if (found := value(row)) is None else text(found)

    return compiler


def _build_array(text_of: Callable[[SqlType], JsonText]) -> Compiler:
    def compiler(call: Call, compile_: Compile) -> Function:
        parts = [_element(compile_.scalar(a), text_of(a.type)) for a in call.arguments]
        return lambda row: "[" + ", ".join([part(row) for part in parts]) + "]"

    return compiler


def _build_object(text_of: Callable[[SqlType], JsonText], build: Callable[[list[tuple[str, str]]], str]) -> Compiler:
    """Keys and values in turn."""

    def compiler(call: Call, compile_: Compile) -> Function:
        keys = [_key(compile_.scalar(a), json_key(a.type)) for a in call.arguments[::2]]
        values = [_element(compile_.scalar(a), text_of(a.type)) for a in call.arguments[1::2]]
        pairs = list(zip(keys, values, strict=True))
        return lambda row: build([(key(row), value(row)) for key, value in pairs])

    return compiler


def _element(value: Function, text: JsonText) -> Callable[[Row], str]:
    return lambda row: "null" if (found := value(row)) is None else text(found)


def _key(value: Function, text: JsonText) -> Callable[[Row], str]:
    def function(row: Row) -> str:
        found = value(row)
        if found is None:
            raise EvaluationError("null value not allowed for object key")
        return text(found)

    return function


COMPILERS: dict[str, Compiler] = {
    "to_json": _to_json(json_text),
    "to_jsonb": _to_json(jsonb_text),
    "json_build_array": _build_array(json_text),
    "jsonb_build_array": _build_array(jsonb_text),
    "json_build_object": _build_object(json_text, json_object),
    "jsonb_build_object": _build_object(jsonb_text, lambda pairs: jsonb_object(dict(pairs))),
}
