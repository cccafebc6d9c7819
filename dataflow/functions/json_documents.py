"""JSON documents as Python's values, and back, of any depth: nothing here recurses.

Objects are dictionaries, arrays lists, strings texts, numbers `Number`.
"""

import re
from collections.abc import Callable
from json import JSONDecodeError, JSONDecoder
from json.encoder import encode_basestring
from typing import Any

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(rf'{_STRING}|[\[\]{{}},:]|[^\[\]{{}},:" \t\n\r]+|"', re.DOTALL)
_NEXT_BRACKET = re.compile(rf'[^\[\]{{}}"]*(?:{_STRING}[^\[\]{{}}"]*)*[\[\]{{}}]', re.DOTALL)
_CLOSING = {list: "]", dict: "}"}


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
        """The whole document."""
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
