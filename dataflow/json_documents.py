"""JSON documents as Python's values, and back, of any depth: nothing here recurses.

Objects are dictionaries, arrays lists, strings texts, numbers `Number`. Also the texts of ``json``
and ``jsonb``: which are accepted, what a cast to ``jsonb`` makes of them, and when two are equal.
"""

import re
from collections.abc import Callable
from json import JSONDecodeError, JSONDecoder
from json.encoder import encode_basestring
from typing import Any

from dataflow import arithmetic, bounds
from dataflow.errors import EvaluationError
from dataflow.memo import remembered

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(rf'{_STRING}|[\[\]{{}},:]|[^\[\]{{}},:" \t\n\r]+|"', re.DOTALL)
_NEXT_BRACKET = re.compile(rf'[^\[\]{{}}"]*(?:{_STRING}[^\[\]{{}}"]*)*[\[\]{{}}]', re.DOTALL)
_CLOSING = {list: "]", dict: "}"}
_STRINGS = re.compile(_STRING, re.DOTALL)
#: Strings, and the numbers between them that have decimals.
_FRACTION = re.compile(rf"{_STRING}|-?\d+\.\d+", re.DOTALL | re.ASCII)
_DECODER = JSONDecoder(parse_float=str, parse_int=str, strict=False)
_MAX_DIGITS = 200_000
#: Numbers with decimals in a document that is compared.
_MAX_FRACTIONS = 20_000
_POWER_DIGITS = 8


class Number(str):
    """A number's text, apart from a string's."""

    __slots__ = ()


class _Written(str):
    """A piece of a document's text, apart from a string's."""

    __slots__ = ()


def decode(decoder: JSONDecoder, text: str) -> Any:
    """`decoder.decode`, of any depth. JSONDecodeError if the text is not JSON."""
    try:
        return decoder.decode(text)
    except RecursionError:
        return _Document(decoder, text).value()


class _Document:
    """A text that is read token by token."""

    def __init__(self, decoder: JSONDecoder, text: str) -> None:
        self._text = text
        self._decoder = decoder
        self._tokens = iter(_TOKEN.findall(text))
        #: What is open, the innermost last, and the key whose value comes next in each object.
        self._open: list[list[Any] | dict[str, Any]] = []
        self._keys: list[str] = []

    def value(self) -> Any:
        token = self._next()
        while True:
            if token in "[{":
                self._open.append([] if token == "[" else {})
                self._keys.append("")
                token = self._next()
                if token == _CLOSING[type(self._open[-1])]:
                    value = self._close()
                else:
                    token = self._value_or_key(token)
                    continue
            else:
                value = self._decoder.decode(token)
            while self._open:
                self._put(value)
                token = self._next()
                if token == ",":
                    token = self._value_or_key(self._next())
                    break
                if token != _CLOSING[type(self._open[-1])]:
                    raise self._error()
                value = self._close()
            else:
                if next(self._tokens, None) is not None:
                    raise self._error()
                return value

    def _value_or_key(self, token: str) -> str:
        """The first token of the next value; in an object its key is before it."""
        if isinstance(self._open[-1], list):
            return token
        if token[0] != '"' or self._next() != ":":
            raise self._error()
        self._keys[-1] = self._decoder.decode(token)
        return self._next()

    def _put(self, value: Any) -> None:
        container = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        else:
            container[self._keys[-1]] = value

    def _close(self) -> Any:
        self._keys.pop()
        return self._open.pop()

    def _next(self) -> str:
        token: str | None = next(self._tokens, None)
        if token is None:
            raise self._error()
        return token

    def _error(self) -> JSONDecodeError:
        return JSONDecodeError("Not a document", self._text[:80], 0)


def container_end(text: str, position: int) -> int:
    """Behind the object or array that begins at `position` of a document."""
    depth = 0
    while True:
        found = _NEXT_BRACKET.match(text, position)
        assert found is not None
        position = found.end()
        depth += 1 if text[position - 1] in "[{" else -1
        if not depth:
            return position


def render(value: Any, number: Callable[[str], str]) -> str:
    """The text of a document as the upstream prints ``jsonb``."""
    parts: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            parts.append("[")
            waiting.append(_Written("]"))
            for element in reversed(item):
                waiting += (element, _Written(", "))
        elif isinstance(item, dict):
            parts.append("{")
            waiting.append(_Written("}"))
            for key in sorted(item, key=_key_order, reverse=True):
                waiting += (item[key], _Written(f"{quoted(key)}: "), _Written(", "))
        else:
            parts.append(_scalar(item, number))
            continue
        if item:
            waiting.pop()  # Before the first one stands no comma.
    return "".join(parts)


def _key_order(key: str) -> tuple[int, bytes]:
    data = key.encode()
    return len(data), data


def _scalar(value: Any, number: Callable[[str], str]) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _Written():
            return value
        case Number():
            return number(value)
        case _:
            return quoted(value)


def without_nulls(value: Any) -> Any:
    """The document without the fields of objects that are null; it is changed."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            for key in [k for k, v in item.items() if v is None]:
                del item[key]
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return value


def quoted(text: str) -> str:
    """A string as the upstream writes it in JSON (escape_json)."""
    written: str = encode_basestring(text)
    return written


# --- texts ----------------------------------------------------------------------------------------------------------


def check_strings(text: str) -> None:
    """The upstream reads all strings, and some escapes are no characters to it."""
    if "\\u" not in text:
        return
    for found in _STRINGS.finditer(text):
        string_text(found[0])


def string_text(token: str) -> str:
    """The text of a string with its quotes."""
    value: str = _DECODER.decode(token)
    if "\\u" in token and ("\0" in value or any("\ud800" <= c <= "\udfff" for c in value)):
        raise EvaluationError("unsupported Unicode escape sequence")
    return value


@remembered(entries=1000)
def normal_form(text: str) -> str:
    """The text that equal jsonb values share: numbers lose trailing zeros. All else the upstream prints in one way."""
    if "." not in text:
        return text
    if len(text) > _MAX_FRACTIONS and text.count(".") > _MAX_FRACTIONS:
        raise EvaluationError("not computed: a document of so many numbers with decimals")
    return _FRACTION.sub(lambda found: found[0] if found[0][0] == '"' else shortest_number(found[0]), text)


def shortest_number(number: str) -> str:
    """A number without the last zeros of its decimals."""
    return number.rstrip("0").rstrip(".") if "." in number else number


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"no JSON: {name}")


def _read_number(text: str) -> Number:
    mantissa, _, power = text.lower().partition("e")
    if len(mantissa) > _MAX_DIGITS or len(power) > _POWER_DIGITS or abs(int(power or 0)) > _MAX_DIGITS:
        raise EvaluationError("a number of too many digits")
    return Number(arithmetic.plain_decimal(f"{mantissa}e{power or 0}"))


_CHECKING = JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse_constant)
_STRICT = JSONDecoder(parse_float=_read_number, parse_int=_read_number, parse_constant=_refuse_constant)


def is_json(text: str) -> bool:
    """Return whether a text of any length is JSON."""
    try:
        decode(_CHECKING, text)
    except ValueError:
        return False
    return True


def checked(text: str) -> str:
    """A cast to json: the text, if it is JSON. Its numbers may be of any size."""
    _parsed(text, _CHECKING)
    return text


def normalised(text: str) -> str:
    """A cast to jsonb: as the upstream prints it."""
    value = _parsed(text, _STRICT)
    check_strings(text)
    return render(value, str)


def _parsed(text: str, decoder: JSONDecoder) -> Any:
    try:
        return decode(decoder, bounds.bounded_parts(text, bounds.MAX_DECODED_PARTS))
    except JSONDecodeError as error:
        raise EvaluationError("invalid input syntax for type json") from error
