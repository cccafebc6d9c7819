"""Arrays by their text (array_out): elements, subscripts, lengths.

Not here: ANY and ALL (`comparison`), aggregates that make arrays (`dataflow.ops`).
"""

import re
from collections.abc import Sequence

from dataflow import bounds
from dataflow.errors import EvaluationError
from dataflow.memo import remembered
from dataflow.types import Value

_BOUND = re.compile(r"\[(-?\d+):(-?\d+)\]")
_QUOTED = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_ELEMENT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^,{}"]+', re.DOTALL)
_BARE = re.compile(r"[^,{}\"]+")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MAX_DIMENSIONS = 6
#: Of an array's text: elements are read one by one.
_MAX_CHARACTERS = 4 << 20
#: Elements of an array that has quotes.
_MAX_QUOTED = 15_000
_MUST_QUOTE = re.compile(r'[{}",\\\s]', re.ASCII)

#: Elements, nested as deep as the array has dimensions.
Elements = list["Value | Elements"]


class Array:
    """An array's elements and the subscript that its first dimension begins with."""

    __slots__ = ("elements", "first")

    def __init__(self, elements: Elements, first: int) -> None:
        self.elements = elements
        self.first = first


@remembered(entries=1000)
def parse(text: str) -> Array:
    """The array that the upstream printed."""
    if len(text) > _MAX_CHARACTERS:
        raise EvaluationError(f"not computed: an array of more than {_MAX_CHARACTERS} characters")
    if text[:1] == "{" and text[-1:] == "}" and (plain := _plain(text)) is not None:
        return Array(plain, 1)
    bounds.bounded_parts(text)
    position = text.find("{")
    bound = _BOUND.match(text)
    elements, end = _parse(text, position)
    if end != len(text):
        raise ValueError(f"not an array: {text!r}")
    return Array(elements, int(bound[1]) if bound else 1)


def _plain(text: str) -> Elements | None:
    """The elements of an array of one dimension, if they can be split; None if they have to be read one by one."""
    if '"' not in text and text.count("{") == 1 and ",," not in text:
        parts: Elements = text[1:-1].split(",") if len(text) > 2 else []  # type: ignore[assignment]
        return [None if part == "NULL" else part for part in parts] if "NULL" in text else parts
    if "{" not in text[1:] and "}" not in text[:-1]:
        tokens = _ELEMENT.findall(bounds.bounded_parts(text, _MAX_QUOTED))
        if "\\" in text:
            return [_element(token) for token in tokens]
        return [t[1:-1] if t[0] == '"' else None if t == "NULL" else t for t in tokens]
    return None


def _element(token: str) -> Value:
    if token[0] == '"':
        return _ESCAPED.sub(r"\1", token[1:-1]) if "\\" in token else token[1:-1]
    return None if token == "NULL" else token


def _parse(text: str, position: int, depth: int = 1) -> tuple[Elements, int]:
    """The elements of the braces at `position`, and where they end."""
    if depth > _MAX_DIMENSIONS:
        raise ValueError(f"an array of at most {_MAX_DIMENSIONS} dimensions is expected")
    elements: Elements = []
    position += 1
    while text[position] != "}":
        if text[position] == ",":
            position += 1
        if text[position] == "{":
            nested, position = _parse(text, position, depth + 1)
            elements.append(nested)
        elif (quoted := _QUOTED.match(text, position)) is not None:
            elements.append(_ESCAPED.sub(r"\1", quoted[1]))
            position = quoted.end()
        else:
            bare = _BARE.match(text, position)
            if bare is None:
                raise ValueError(f"not an array: {text!r}")
            elements.append(None if bare[0] == "NULL" else bare[0])
            position = bare.end()
    return elements, position + 1


def render(elements: Sequence[Value]) -> str:
    """A one-dimensional array as the upstream prints it."""
    return "{" + ",".join("NULL" if e is None else _quoted(e) for e in elements) + "}"


def _quoted(element: str) -> str:
    if element and not _MUST_QUOTE.search(element) and (len(element) != 4 or element.upper() != "NULL"):
        return element
    escaped = element.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def flat(text: str) -> list[Value]:
    """All elements, of all dimensions."""
    elements = parse(text).elements
    if list not in set(map(type, elements)):
        return elements.copy()  # type: ignore[return-value]
    found: list[Value] = []
    waiting: Elements = list(reversed(elements))
    while waiting:
        element = waiting.pop()
        if isinstance(element, list):
            waiting += reversed(element)
        else:
            found.append(element)
    return found


def flat_constant(text: str) -> list[Value]:
    """The elements of an array that is written as a string. ValueError unless it is written as it would be printed."""
    if not text.startswith("{") or not text.endswith("}"):
        raise ValueError("an array like {1,2} is expected")
    try:
        elements = parse(text).elements
    except IndexError:
        raise ValueError("an array like {1,2} is expected") from None
    flattened = [e for e in elements if not isinstance(e, list)]
    if len(flattened) != len(elements) or any(e is not None and e != e.strip() for e in flattened):
        raise ValueError("an array of one dimension without spaces is expected")
    return flattened


def subscript(text: str, index: str) -> Value:
    """``array[index]``: NULL outside of it, and for a part of several dimensions."""
    array = parse(text)
    place = int(index) - array.first
    if not 0 <= place < len(array.elements):
        return None
    found = array.elements[place]
    return None if isinstance(found, list) else found


def length(text: str, dimension: str) -> Value:
    """ARRAY_LENGTH; NULL if there is no such dimension."""
    if not 1 <= int(dimension) <= _MAX_DIMENSIONS:
        return None
    elements: object = parse(text).elements
    for _ in range(int(dimension) - 1):
        elements = elements[0] if isinstance(elements, list) and elements else None
    if not isinstance(elements, list) or not elements:
        return None
    return str(len(elements))


def upper(text: str, dimension: str) -> Value:
    """ARRAY_UPPER: the last subscript of a dimension."""
    found = length(text, dimension)
    return None if found is None else str(int(found) + _first(text, dimension) - 1)


def lower(text: str, dimension: str) -> Value:
    """ARRAY_LOWER: the first subscript of a dimension."""
    return None if length(text, dimension) is None else str(_first(text, dimension))


def _first(text: str, dimension: str) -> int:
    bounds = _BOUND.findall(text.partition("=")[0]) if text.startswith("[") else []
    return int(bounds[int(dimension) - 1][0]) if bounds else 1


def cardinality(text: str) -> str:
    """CARDINALITY: the number of elements of all dimensions."""
    return str(len(flat(text)))


def joined(text: str, delimiter: str, null: str | None = None) -> str:
    """ARRAY_TO_STRING, with `null` for NULLs if it is given. The elements' own text is what their types print."""
    texts = (null if e is None else e for e in flat(text))
    return bounds.joined(delimiter, [t for t in texts if t is not None])
