"""json and jsonb by their text. The upstream keeps json as it was written and prints jsonb in one way; what is taken
out of either is a piece of the text.

*Invariants*: no function here builds text of a json value, but for `normalised` (a cast to jsonb) and texts of strings.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from json import JSONDecodeError, JSONDecoder
from typing import Any

from dataflow import arithmetic
from dataflow.errors import EvaluationError
from dataflow.functions import arrays
from dataflow.functions.signature import Signature, Table, refused, signature

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_INDEX = re.compile(r"[ \t\n\v\f\r]*[+-]?\d{1,10}[ \t\n\v\f\r]*")
_DECODER = JSONDecoder(parse_float=str, parse_int=str, strict=False)
_INT4 = 2**31
_MAX_DIGITS = 4000


def _skip(text: str, position: int) -> int:
    """Behind the white space at `position`."""
    found = _SPACE.match(text, position)
    return position if found is None else found.end()


def _value_end(text: str, position: int) -> int:
    """Behind the value at `position`."""
    if text[position] == '"':
        found = _STRING.match(text, position)
        assert found is not None
        return found.end()
    return _DECODER.raw_decode(text, position)[1]


def _check_strings(text: str) -> None:
    """The upstream reads all strings, and some escapes are no characters to it."""
    if "\\u" not in text:
        return
    for found in _STRING.finditer(text):
        _string(found[0])


def _string(token: str) -> str:
    """The text of a string with its quotes."""
    value: str = _DECODER.decode(token)
    if "\\u" in token and ("\0" in value or any("\ud800" <= c <= "\udfff" for c in value)):
        raise EvaluationError("unsupported Unicode escape sequence")
    return value


# --- taking out -----------------------------------------------------------------------------------------------------


def _field(text: str, name: str) -> str | None:
    """The text of an object's field: of the last one of that name."""
    found = _fields(text, name)
    return found[-1] if found else None


def _fields(text: str, name: str) -> list[str]:
    """The texts of an object's fields of that name: to json there may be several."""
    position = _skip(text, 0)
    found: list[str] = []
    if text[position] != "{":
        return found
    position = _skip(text, position + 1)
    while text[position] != "}":
        end = _value_end(text, position)
        key = _string(text[position:end])
        start = _skip(text, _skip(text, end) + 1)
        end = _value_end(text, start)
        if key == name:
            found.append(text[start:end])
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return found


def _elements(text: str) -> list[str] | None:
    """The texts of an array's elements; None if it is none."""
    position = _skip(text, 0)
    if text[position] != "[":
        return None
    found: list[str] = []
    position = _skip(text, position + 1)
    while text[position] != "]":
        end = _value_end(text, position)
        found.append(text[position:end])
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return found


def _element(text: str, index: str) -> str | None:
    elements = _elements(text)
    if elements is None:
        return None
    place = int(index)
    place += len(elements) if place < 0 else 0
    return elements[place] if 0 <= place < len(elements) else None


def _scalar_element(text: str, index: str) -> str | None:
    """To jsonb, a scalar is an array of itself."""
    if text[0] in "{[":
        return _element(text, index)
    return text if int(index) in (0, -1) else None


def _path(text: str, path: str) -> str | None:
    """What a path of keys and subscripts leads to."""
    steps = [step for step in arrays.flat(path) if step is not None]
    if len(steps) != len(arrays.flat(path)):
        return None
    return _at(text.strip(" \t\n\r"), steps)


def _at(text: str, steps: list[str]) -> str | None:
    if not steps:
        return text
    first, *rest = steps
    if text[0] == "{":
        # The last of several fields that leads to the end of the path.
        return next((end for f in reversed(_fields(text, first)) if (end := _at(f, rest)) is not None), None)
    if text[0] == "[" and _INDEX.fullmatch(first) and -_INT4 <= int(first) < _INT4:
        element = _element(text, first)
        return None if element is None else _at(element, rest)
    return None


def as_text(value: str | None) -> str | None:
    """What ``->>`` makes of a json value."""
    if value is None or value == "null":
        return None
    return _string(value) if value[0] == '"' else value


def _checked(function: Callable[[str, str], str | None]) -> Callable[[str, str], str | None]:
    def checked(text: str, argument: str) -> str | None:
        _check_strings(text)
        return function(text, argument)

    return checked


def _json_path(text: str, path: str) -> str | None:
    if None in arrays.flat(path):
        return None
    _check_strings(text)
    return _path(text, path)


def _textual(function: Callable[[str, str], str | None]) -> Callable[[str, str], str | None]:
    return lambda text, argument: as_text(function(text, argument))


def _array_length(text: str) -> str:
    elements = _elements(text)
    if elements is None:
        raise EvaluationError("cannot get array length of a non-array")
    return str(len(elements))


_TYPES = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}


def _type_of(text: str) -> str:
    return _TYPES.get(text[_skip(text, 0)], "number")


# --- jsonb's values ---------------------------------------------------------------------------------------------------


class Number(str):
    """A number's text, apart from a string's."""

    __slots__ = ()


_VALUES = JSONDecoder(parse_float=Number, parse_int=Number, strict=False)


def _value(text: str) -> Any:
    """A jsonb as Python's values; numbers by their text."""
    return _VALUES.decode(text)


@lru_cache(maxsize=10_000)
def normal_form(text: str) -> str:
    """The text that equal jsonb values share: numbers lose trailing zeros."""
    return _rendered(_value(text), _shortest_number)


def _shortest_number(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def _contains(container: Any, contained: Any, top: bool = True) -> bool:
    """``container @> contained``."""
    if isinstance(container, dict):
        if not isinstance(contained, dict):
            return False
        return all(k in container and _contains(container[k], v, False) for k, v in contained.items())
    if isinstance(container, list):
        if not isinstance(contained, list):
            # As a special exception, an array contains a primitive value, but only at the top.
            return top and not isinstance(contained, dict) and any(_same(e, contained) for e in container)
        return all(any(_element_contains(e, wanted) for e in container) for wanted in contained)
    return not isinstance(contained, dict | list) and _same(container, contained)


def _element_contains(element: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict | list):
        return type(element) is type(wanted) and _contains(element, wanted, False)
    return _same(element, wanted)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Number) and isinstance(b, Number):
        return _shortest_number(a) == _shortest_number(b)
    return type(a) is type(b) and bool(a == b)


def _contains_text(container: str, contained: str) -> str:
    return "t" if _contains(_value(container), _value(contained)) else "f"


def _has_key(text: str, key: str) -> str:
    """``text ? key``: a key of the object, a string of the array, or the string itself."""
    value = _value(text)
    if isinstance(value, dict):
        return "t" if key in value else "f"
    strings = value if isinstance(value, list) else [value]
    return "t" if any(type(v) is str and v == key for v in strings) else "f"


def _has_some(text: str, keys: str) -> str:
    return "t" if any(k is not None and _has_key(text, k) == "t" for k in arrays.flat(keys)) else "f"


def _has_all(text: str, keys: str) -> str:
    return "t" if all(k is None or _has_key(text, k) == "t" for k in arrays.flat(keys)) else "f"


# --- text to json -----------------------------------------------------------------------------------------------------


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"no JSON: {name}")


def _read_number(text: str) -> Number:
    mantissa, _, power = text.lower().partition("e")
    if len(mantissa) > _MAX_DIGITS or abs(int(power or 0)) > _MAX_DIGITS:
        raise EvaluationError("a number of too many digits")
    return Number(arithmetic.plain_decimal(f"{mantissa}e{power or 0}"))


_STRICT = JSONDecoder(parse_float=_read_number, parse_int=_read_number, parse_constant=_refuse_constant)


def checked(text: str) -> str:
    """A cast to json: the text, if it is JSON."""
    _parsed(text)
    return text


def normalised(text: str) -> str:
    """A cast to jsonb: as the upstream prints it."""
    value = _parsed(text)
    _check_strings(text)
    return _rendered(value, str)


def _parsed(text: str) -> Any:
    try:
        return _STRICT.decode(text)
    except (JSONDecodeError, RecursionError) as error:
        raise EvaluationError("invalid input syntax for type json") from error


def _rendered(value: Any, number: Callable[[str], str]) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Number():
            return number(value)
        case str():
            return quoted(value)
        case list():
            return "[" + ", ".join(_rendered(v, number) for v in value) + "]"
    keys = sorted(value, key=lambda k: (len(k.encode()), k.encode()))
    return "{" + ", ".join(f"{quoted(k)}: {_rendered(value[k], number)}" for k in keys) + "}"


_ESCAPES = {
    **{c: f"\\u{c:04x}" for c in range(32)},
    ord("\b"): "\\b", ord("\f"): "\\f", ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t",
    ord('"'): '\\"', ord("\\"): "\\\\",
}  # fmt: skip


def quoted(text: str) -> str:
    """A string as the upstream writes it in JSON (escape_json)."""
    return f'"{text.translate(_ESCAPES)}"'


# --- the table --------------------------------------------------------------------------------------------------------


def _for_both(key: Callable[[str, str], str | None], index: dict[str, Any], *, text: bool) -> tuple[Signature, ...]:
    found: list[Signature] = []
    for name in ("json", "jsonb"):
        for argument, function in (("text", key), ("int4", index[name])):
            taken = _checked(function) if name == "json" else function
            result = "text" if text else name
            found.append(Signature((name, argument), result, _textual(taken) if text else taken))
    return tuple(found)


def _joined(left: str, right: str) -> str:
    """``jsonb || jsonb``: two objects as one, else arrays, a value that is none as one of itself."""
    a, b = _value(left), _value(right)
    if isinstance(a, dict) and isinstance(b, dict):
        return _rendered({**a, **b}, str)
    return _rendered([*_as_list(a), *_as_list(b)], str)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _without_key(text: str, key: str) -> str:
    value = _value(text)
    if isinstance(value, dict):
        return _rendered({k: v for k, v in value.items() if k != key}, str)
    if not isinstance(value, list):
        raise EvaluationError("cannot delete from scalar")
    return _rendered([v for v in value if type(v) is not str or v != key], str)


def _without_element(text: str, index: str) -> str:
    value = _value(text)
    if not isinstance(value, list):
        raise EvaluationError("cannot delete from an object or a scalar by a number")
    place = int(index) + (len(value) if int(index) < 0 else 0)
    return _rendered([v for i, v in enumerate(value) if i != place], str)


def _stripped(value: Any) -> Any:
    """Without the fields of objects that are null."""
    if isinstance(value, dict):
        return {k: _stripped(v) for k, v in value.items() if v is not None}
    return [_stripped(v) for v in value] if isinstance(value, list) else value


_INDEXES = {"json": _element, "jsonb": _scalar_element}
_PATHS = {"json": _json_path, "jsonb": _path}

JSON: Table = {
    "->": _for_both(_field, _INDEXES, text=False),
    "->>": _for_both(_field, _INDEXES, text=True),
    "#>": tuple(Signature((n, "text[]"), n, path) for n, path in _PATHS.items()),
    "#>>": tuple(Signature((n, "text[]"), "text", _textual(path)) for n, path in _PATHS.items()),
    "?": (signature("jsonb text", "bool", _has_key),),
    "?|": (signature("jsonb text[]", "bool", _has_some),),
    "?&": (signature("jsonb text[]", "bool", _has_all),),
    "@>": (signature("jsonb jsonb", "bool", _contains_text),),
    "<@": (signature("jsonb jsonb", "bool", lambda a, b: _contains_text(b, a)),),
    "json_array_length": (signature("json", "int4", _array_length),),
    "jsonb_array_length": (signature("jsonb", "int4", _array_length),),
    "json_typeof": (signature("json", "text", _type_of),),
    "jsonb_typeof": (signature("jsonb", "text", _type_of),),
    "jsonb_strip_nulls": (signature("jsonb", "jsonb", lambda a: _rendered(_stripped(_value(a)), str)),),
    "||": (signature("jsonb jsonb", "jsonb", _joined),),
    "-": (
        signature("jsonb text", "jsonb", _without_key),
        signature("jsonb int4", "jsonb", _without_element),
        *refused("jsonb text[] -> jsonb"),
    ),
}

__all__ = ["JSON", "as_text", "checked", "normal_form", "normalised", "quoted"]
