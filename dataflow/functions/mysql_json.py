"""JSON functions of MariaDB: documents are texts, and what is taken out of one is a piece of its text.

*Invariants*: what is read is a document to every version of the server: as RFC 8259 has it, at most 31 levels deep, its
escapes characters. The server reads some other texts too, or up to their first error: these are "not computed".

Not here: which arguments are exact (`sql.mysql.documents`), JSON of PostgreSQL (`json`, `json_constructors`).
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence

from dataflow import bounds
from dataflow.errors import EvaluationError
from dataflow.functions.compiler import Compile, Compiler, Function
from dataflow.functions.json import elements, members
from dataflow.functions.signature import Signature, Table
from dataflow.json_documents import check_strings, checked, is_json, string_text
from dataflow.memo import remembered
from dataflow.scalar import Call
from dataflow.schema import SqlType
from dataflow.types import Value
from dataflow.types.documents import MARIADB_DOCUMENT, MARIADB_JSON
from dataflow.types.mysql_dates import DATE, DATETIME, TIME, TIMESTAMP
from dataflow.types.rules import ValueKind

#: A step of a path: the name of a field, or a place in an array.
Step = str | int
_STEP = re.compile(r'\.([A-Za-z0-9_]+)|\."([^"\\*]*)"|\[(0|[1-9][0-9]{0,8})\]')
_SPACES = " \t\n\r"
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_BRACKETS = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
_SEPARATORS = re.compile(rf"({_STRING})|[ \t\n\r]*([,:])[ \t\n\r]*|[ \t\n\r]+", re.DOTALL)
#: Texts that are strings or numbers to a server at most.
_LOOSE_STRINGS = re.compile(_STRING, re.DOTALL)
_LOOSE_NUMBERS = re.compile(r"[-+.0-9][-+.0-9eE]*")
_MAX_LEVELS = 31
#: Parts of a document, times those of another that is looked for in it.
_MAX_PAIRS = 200_000
#: Numbers that differ by less are equal to JSON_CONTAINS.
_TOLERANCE = 1e-12
_WORDS = {"true": "1", "false": "0", "null": None}
_TYPES = {"{": "OBJECT", "[": "ARRAY", '"': "STRING", "t": "BOOLEAN", "f": "BOOLEAN", "n": "NULL"}
_ESCAPES = {chr(i): f"\\u{i:04X}" for i in range(32)} | {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}
_ESCAPED = str.maketrans(_ESCAPES)
_PLAIN_KINDS = (ValueKind.INTEGER, ValueKind.UNSIGNED, ValueKind.DECIMAL)


# --- documents --------------------------------------------------------------------------------------------------------


@remembered(entries=1000)
def document(text: str) -> str:
    """A document without the space around it. EvaluationError if it is not one to every server."""
    try:
        check_strings(checked(text))
    except (EvaluationError, ValueError) as error:
        raise EvaluationError("not computed: a text that is not certainly JSON") from error
    if text.count("[") + text.count("{") > _MAX_LEVELS and _levels(text) > _MAX_LEVELS:
        raise EvaluationError(f"not computed: JSON of more than {_MAX_LEVELS} levels")
    return text.strip(_SPACES)


def _levels(text: str) -> int:
    level = deepest = 0
    for found in _BRACKETS.finditer(text):
        match found[0]:
            case "[" | "{":
                level += 1
                deepest = max(deepest, level)
            case "]" | "}":
                level -= 1
            case _:
                pass  # A string.
    return deepest


def _valid(text: str) -> str:
    """JSON_VALID. Servers differ in strings and numbers, so only what is none with any of these is FALSE."""
    try:
        document(text)
    except EvaluationError:
        outline = _LOOSE_NUMBERS.sub("0", _LOOSE_STRINGS.sub('""', bounds.bounded_parts(text)))
        if not is_json(outline):
            return "f"
        raise
    return "t"


# --- paths ------------------------------------------------------------------------------------------------------------


@remembered(entries=1000)
def steps_of(path: str) -> tuple[Step, ...] | None:
    """The steps of a path of names and places (``$.a."b c"[0]``); None for any other."""
    steps: list[Step] = []
    position = 1
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            return None
        name, quoted_name, place = found.groups()
        steps.append(int(place) if place is not None else quoted_name if name is None else name)
        position = found.end()
    return tuple(steps) if path[:1] == "$" else None


def _places(text: str, steps: Sequence[Step], *, escaped: bool = True) -> Iterator[str]:
    """The values that the steps lead to, in the document's order: several where names repeat. To a place, a value that
    is no array is one of itself. `escaped`: names may be written with escapes."""
    if not steps:
        yield text
        return
    step, rest = steps[0], steps[1:]
    found: list[str]
    if isinstance(step, str):
        named = [(key, value) for key, value in members(text) if string_text(key) == step]
        if not escaped and any("\\" in key for key, _ in named):
            raise EvaluationError("not computed: JSON_EXTRACT by a name that is written with escapes")
        found = [value for _, value in named]
    elif (listed := elements(text)) is None:
        found = [] if step else [text]
    else:
        found = listed[step : step + 1]
    for value in found:
        yield from _places(value, rest, escaped=escaped)


def _at(text: str, path: str) -> Iterator[str]:
    return _places(document(text), steps_of(path) or ())


def _json_value(text: str, path: str) -> str | None:
    """JSON_VALUE: the first scalar that the path leads to."""
    return next((_scalar(value) for value in _at(text, path) if value[0] not in "[{"), None)


def _scalar(text: str) -> str | None:
    if text[0] == '"':
        return string_text(text)
    return _WORDS.get(text, text)


def _extracted(text: str, path: str) -> str | None:
    """JSON_EXTRACT of one path: strings and numbers as they are written, one space behind each separator."""
    steps = steps_of(path) or ()
    value = next(_places(document(text), steps, escaped=False), None)
    if value is None or value[0] not in "[{":
        return value
    bounds.bounded(len(value) + value.count(",") + value.count(":"))
    return _SEPARATORS.sub(_separated, value)


def _separated(found: re.Match[str]) -> str:
    return found[1] or (f"{found[2]} " if found[2] else "")


def _exists(text: str, path: str) -> str:
    return "f" if next(_at(text, path), None) is None else "t"


def _length(text: str, path: str = "$") -> str | None:
    """JSON_LENGTH: fields, elements, or 1 of a scalar."""
    value = next(_at(text, path), None)
    if value is None:
        return None
    listed = elements(value)
    if listed is not None:
        return str(len(listed))
    return str(len(members(value))) if value[0] == "{" else "1"


def _type(text: str) -> str:
    value = document(text)
    return _TYPES.get(value[0]) or ("DOUBLE" if "." in value else "INTEGER")


def _unquoted(text: str) -> str:
    """JSON_UNQUOTE: what is no string stays as it is."""
    return string_text(document(text)) if text.lstrip(_SPACES)[:1] == '"' else text


# --- JSON_CONTAINS ----------------------------------------------------------------------------------------------------


def _contains_at(text: str, wanted: str, path: str = "$") -> str:
    value, looked_for = next(_at(text, path), None), document(wanted)
    if value is None:
        return "f"
    if _parts(value) * _parts(looked_for) > _MAX_PAIRS:
        raise EvaluationError("not computed: a document of many parts in one of many parts")
    return "t" if _contains(value, looked_for) else "f"


def _parts(text: str) -> int:
    return 1 + text.count(",") + text.count("[") + text.count("{")


def _contains(text: str, wanted: str) -> bool:
    """Return whether a document contains another: an array what one of its elements contains, and other arrays by
    element; an object those of which it contains each field. Strings are equal as they are written."""
    match text[0]:
        case "{":
            return wanted[0] == "{" and _contains_fields(text, wanted)
        case "[" if wanted[0] == "[":
            return all(_contains(text, element) for element in elements(wanted) or ())
        case "[":
            return any(_contains(element, wanted) for element in elements(text) or ())
        case '"':
            return text == wanted
        case _ if text in _WORDS or wanted[0] not in "-0123456789":
            return text == wanted
        case _:
            return abs(_double(text) - _double(wanted)) < _TOLERANCE


def _contains_fields(text: str, wanted: str) -> bool:
    """By the first field of each name."""
    own = {string_text(key): value for key, value in reversed(members(text))}
    for key, value in members(wanted):
        found = own.get(string_text(key))
        if found is None or not _contains(found, value):
            return False
    return True


def _double(text: str) -> float:
    return min(max(float(text), -sys.float_info.max), sys.float_info.max)


# --- documents of values ----------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """A string as JSON."""
    return f'"{text.translate(_ESCAPED)}"'


def element(sql_type: SqlType) -> Callable[[Value], str]:
    """How values of a type become JSON. ValueError if that is not known."""
    text = _element_text(sql_type)
    return lambda value: "null" if value is None else text(value)


def _element_text(sql_type: SqlType) -> Callable[[str], str]:
    kind = sql_type.rules.kind
    if kind in _PLAIN_KINDS or sql_type.name in (MARIADB_JSON, MARIADB_DOCUMENT):
        return str
    if sql_type.is_boolean:
        return lambda value: "true" if value == "t" else "false"
    if sql_type.is_string or kind is ValueKind.LABELS or sql_type.name in (DATE, DATETIME, TIMESTAMP, TIME):
        return quoted
    raise ValueError(f"JSON of {sql_type.sql} is not known")


def array_of(values: Sequence[str]) -> str:
    """JSON_ARRAYAGG's array of texts that are JSON."""
    bounds.bounded(sum(map(len, values)) + len(values))
    return f"[{','.join(values)}]"


def object_of(pairs: Sequence[tuple[str, str]]) -> str:
    """JSON_OBJECTAGG's object of names and texts that are JSON, names that repeat included."""
    written = [f"{quoted(name)}:{value}" for name, value in pairs]
    return f"{{{bounds.joined(', ', written)}}}"


def _array(call: Call, compile_: Compile) -> Function:
    parts = [(compile_.scalar(a), element(a.type)) for a in call.arguments]
    return lambda row: f"[{bounds.joined(', ', [text(part(row)) for part, text in parts])}]"


def _object(call: Call, compile_: Compile) -> Function:
    """Names, which are constants, and values in turn."""
    names = [quoted(compile_.scalar(a)(()) or "") for a in call.arguments[::2]]
    values = [(compile_.scalar(a), element(a.type)) for a in call.arguments[1::2]]
    pairs = [(name, *value) for name, value in zip(names, values, strict=True)]
    return lambda row: f"{{{bounds.joined(', ', [f'{name}: {text(part(row))}' for name, part, text in pairs])}}}"


COMPILERS: dict[str, Compiler] = {"JSON_ARRAY": _array, "JSON_OBJECT": _object}


#: Types of what is read as a document.
_SUBJECTS = ("text", MARIADB_DOCUMENT)


def _of_documents(function: Callable[..., str | None], result: str, *rests: str) -> tuple[Signature, ...]:
    """Overloads for texts and for documents, each with further arguments of texts."""
    return tuple(
        Signature((subject, *rest.split()), result, function) for subject in _SUBJECTS for rest in rests or ("",)
    )


MYSQL_JSON: Table = {
    "JSON_VALUE": _of_documents(_json_value, "text", "text"),
    "JSON_EXTRACT": _of_documents(_extracted, MARIADB_DOCUMENT, "text"),
    "JSON_EXISTS": _of_documents(_exists, "bool", "text"),
    "JSON_LENGTH": _of_documents(_length, "int4", "", "text"),
    "JSON_TYPE": _of_documents(_type, "text"),
    "JSON_VALID": _of_documents(_valid, "bool"),
    "JSON_UNQUOTE": _of_documents(_unquoted, "text"),
    "JSON_QUOTE": (Signature(("text",), "text", quoted),),
    "JSON_CONTAINS": _of_documents(
        _contains_at, "bool", *(f"{wanted}{path}" for wanted in _SUBJECTS for path in ("", " text"))
    ),
}

__all__ = ["COMPILERS", "MYSQL_JSON", "array_of", "document", "element", "object_of", "steps_of"]
