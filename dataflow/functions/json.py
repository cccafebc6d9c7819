"""json and jsonb by their text. The upstream keeps json as it was written and prints jsonb in one way; what is taken
out of either is a piece of the text.

*Invariants*: no function here builds text of a json value, but for texts of strings.

Not here: casts from text, equality (`json_documents`).
"""

import re
from collections.abc import Callable, Container
from json import JSONDecoder
from typing import Any

from dataflow import bounds
from dataflow.errors import EvaluationError
from dataflow.functions import arrays
from dataflow.functions.signature import Signature, Table, refused, signature
from dataflow.json_documents import (
    Number,
    check_strings,
    container_end,
    decode,
    render,
    shortest_number,
    string_text,
    without_nulls,
)

_SPACES = " \t\n\r"
_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR = re.compile(rf"{_STRING.pattern}|[^,:\]}} \t\n\r]+", re.DOTALL)
_INDEX = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]{1,10}")
_INT4 = 2**31
#: Characters that the steps of a path may look through in all, beyond the first's.
_MAX_STEPS = 1 << 20
#: Arrays and objects that are looked for in an array, times the parts of those that it has.
_MAX_PAIRS = 200_000


def _skip(text: str, position: int) -> int:
    """Behind the white space at `position`."""
    found = _SPACE.match(text, position)
    return position if found is None else found.end()


def _value_end(text: str, position: int) -> int:
    """Behind the value at `position`."""
    if text[position] in "[{":
        return container_end(text, position)
    found = _SCALAR.match(text, position)
    assert found is not None
    return found.end()


# --- taking out -----------------------------------------------------------------------------------------------------


def _field(text: str, name: str) -> str | None:
    """The text of an object's field: of the last one of that name."""
    found = fields(text, name)
    return found[-1] if found else None


def fields(text: str, name: str) -> list[str]:
    """The texts of an object's fields of that name: to json there may be several."""
    return [value for key, value in members(text) if string_text(key) == name]


def members(text: str) -> list[tuple[str, str]]:
    """The names of an object's fields, with their quotes, and the fields' texts; none if it is no object."""
    position = _skip(bounds.bounded_parts(text), 0)
    found: list[tuple[str, str]] = []
    if text[position] != "{":
        return found
    position = _skip(text, position + 1)
    while text[position] != "}":
        end = _value_end(text, position)
        key = text[position:end]
        start = _skip(text, _skip(text, end) + 1)
        end = _value_end(text, start)
        found.append((key, text[start:end]))
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return found


def elements(text: str) -> list[str] | None:
    """The texts of an array's elements; None if it is none."""
    position = _skip(bounds.bounded_parts(text), 0)
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
    found = elements(text)
    if found is None:
        return None
    place = int(index)
    place += len(found) if place < 0 else 0
    return found[place] if 0 <= place < len(found) else None


def _scalar_element(text: str, index: str) -> str | None:
    """To jsonb, a scalar is an array of itself."""
    if text[0] in "{[":
        return _element(text, index)
    return text if int(index) in (0, -1) else None


def _path(text: str, path: str) -> str | None:
    """Follows a path of keys and subscripts."""
    steps = _steps(path)
    return None if steps is None else _at(text.strip(_SPACES), steps)


def _steps(path: str) -> list[str] | None:
    """The steps of a path; None if one is NULL."""
    elements = arrays.flat(path)
    steps = [step for step in elements if step is not None]
    return steps if len(steps) == len(elements) else None


def _at(text: str, steps: list[str]) -> str | None:
    """The value that the steps lead to: of several fields of a name the last one that leads to the end of the path."""
    looked_through = -len(text)
    waiting = [(text, 0)]
    while waiting:
        found, number = waiting.pop()
        if number == len(steps):
            return found
        step = steps[number]
        looked_through += len(found)
        if looked_through > _MAX_STEPS:
            raise EvaluationError("not computed: a path that deep into a document that long")
        if found[0] == "{":
            waiting += [(field, number + 1) for field in fields(found, step)]
        elif found[0] == "[" and _INDEX.fullmatch(step) and -_INT4 <= int(step) < _INT4:
            element = _element(found, step)
            if element is not None:
                waiting.append((element, number + 1))
    return None


def as_text(value: str | None) -> str | None:
    """A json value as ``->>`` prints it."""
    if value is None:
        return None
    bare = value.lstrip(_SPACES) if value[0] in _SPACES else value
    if bare == "null":
        return None
    return string_text(bare) if bare[0] == '"' else value


def _checked(function: Callable[[str, str], str | None]) -> Callable[[str, str], str | None]:
    def checked(text: str, argument: str) -> str | None:
        check_strings(text)
        return function(text, argument)

    return checked


def _json_path(text: str, path: str) -> str | None:
    steps = _steps(path)
    if steps is None:
        return None
    check_strings(text)
    return _at(text.strip(_SPACES), steps) if steps else _whole(text)


def _whole(text: str) -> str:
    """The value at an empty path: a document that is no object or array with the white space before it."""
    bare = text.strip(_SPACES)
    return bare if bare[0] in "{[" else text.rstrip(_SPACES)


def _textual(function: Callable[[str, str], str | None]) -> Callable[[str, str], str | None]:
    return lambda text, argument: as_text(function(text, argument))


def _array_length(text: str) -> str:
    found = elements(text)
    if found is None:
        raise EvaluationError("cannot get array length of a non-array")
    return str(len(found))


_TYPES = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}


def _type_of(text: str) -> str:
    return _TYPES.get(text[_skip(text, 0)], "number")


# --- jsonb's values ---------------------------------------------------------------------------------------------------


_VALUES = JSONDecoder(parse_float=Number, parse_int=Number, strict=False)


def _value(text: str) -> Any:
    """A jsonb as Python's values; numbers by their text."""
    return decode(_VALUES, bounds.bounded_parts(text, bounds.MAX_DECODED_PARTS))


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
        return _list_contains(container, contained)
    return not isinstance(contained, dict | list) and _same(container, contained)


def _list_contains(container: list[Any], contained: list[Any]) -> bool:
    """Plain values are looked up; arrays and objects are compared with each that there is, within bounds."""
    plain = {_plain(e) for e in container if not isinstance(e, dict | list)}
    nested = [e for e in contained if isinstance(e, dict | list)]
    if any(not isinstance(e, dict | list) and _plain(e) not in plain for e in contained):
        return False
    candidates = [e for e in container if isinstance(e, dict | list)]
    if len(nested) * sum(len(candidate) + 1 for candidate in candidates) > _MAX_PAIRS:
        raise EvaluationError("not computed: arrays of many arrays or objects, each compared with each")
    return all(any(_element_contains(e, wanted) for e in candidates) for wanted in nested)


def _plain(value: Any) -> tuple[type, Any]:
    """The form that equal plain values share."""
    return type(value), shortest_number(value) if isinstance(value, Number) else value


def _element_contains(element: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict | list):
        return type(element) is type(wanted) and _contains(element, wanted, False)
    return _same(element, wanted)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Number) and isinstance(b, Number):
        return shortest_number(a) == shortest_number(b)
    return type(a) is type(b) and bool(a == b)


def _contains_text(container: str, contained: str) -> str:
    if container[0] not in "[{" and contained[0] in "[{":
        return "f"
    return "t" if _contains(_value(container), _value(contained)) else "f"


def _has_key(text: str, key: str) -> str:
    """``text ? key``: a key of the object, a string of the array, or the string itself."""
    return "t" if key in _keys(text) else "f"


def _keys(text: str) -> Container[str]:
    value = _value(text)
    if isinstance(value, dict):
        return value
    return {v for v in (value if isinstance(value, list) else [value]) if type(v) is str}


def _has_some(text: str, keys: str) -> str:
    present = _keys(text)
    return "t" if any(k is not None and k in present for k in arrays.flat(keys)) else "f"


def _has_all(text: str, keys: str) -> str:
    present = _keys(text)
    return "t" if all(k is None or k in present for k in arrays.flat(keys)) else "f"


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
        return render({**a, **b}, str)
    return render([*_as_list(a), *_as_list(b)], str)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _without_key(text: str, key: str) -> str:
    value = _value(text)
    if isinstance(value, dict):
        return render({k: v for k, v in value.items() if k != key}, str)
    if not isinstance(value, list):
        raise EvaluationError("cannot delete from scalar")
    return render([v for v in value if type(v) is not str or v != key], str)


def _without_element(text: str, index: str) -> str:
    value = _value(text)
    if not isinstance(value, list):
        raise EvaluationError("cannot delete from an object or a scalar by a number")
    place = int(index) + (len(value) if int(index) < 0 else 0)
    return render([v for i, v in enumerate(value) if i != place], str)


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
    "jsonb_strip_nulls": (signature("jsonb", "jsonb", lambda a: render(without_nulls(_value(a)), str)),),
    "||": (signature("jsonb jsonb", "jsonb", _joined),),
    "-": (
        signature("jsonb text", "jsonb", _without_key),
        signature("jsonb int4", "jsonb", _without_element),
        *refused("jsonb text[] -> jsonb"),
    ),
}
