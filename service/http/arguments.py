"""From what a client sent to the key of a view: query arguments and JSON parameters.

*Invariants*: a key that comes out of here has normal forms only, as the engine's keys have, and is never cached under
another spelling. Every refusal names the argument and says what is expected.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any
from urllib.parse import unquote_plus

from dataflow.schema import SqlType
from dataflow.types import Key, Value
from dataflow.values import normal_form, parse_parameter
from service.errors import ApiError
from service.leaf_store.answer import Window
from service.leaf_store.catalog import NamedType, ViewInfo
from service.leaf_store.layout import entry_key, view_head
from service.leaf_store.paging import read_token

#: Digits that every integer of the type has room for.
_INTEGER_DIGITS = {"int2": 4, "int4": 9, "int8": 18}
_TEXT_TYPES = frozenset({"text", "varchar"})
_MAX_FAST_TEXT = 128
#: Query strings whose entry is remembered, by view.
_MAX_REMEMBERED = 4096
_NULL_SUFFIX = ":null"
_MAX_SHOWN = 60


class Arguments:
    """Reads a view's arguments."""

    def __init__(self, info: ViewInfo) -> None:
        self.info = info
        self._head = view_head(info.id)
        self._parsers = {parameter.name: _parser(parameter) for parameter in info.parameters}
        self._remembered: dict[bytes, bytes] = {}
        #: The leaf store's entry that a query string asks for, if that can be said fast; None: see `parse`. Only for
        #: whole answers to keys without NULL.
        self.entry_of = _fast_form(info, self._remembered.get)

    def parse(self, query: bytes) -> tuple[Key, Window | None]:
        """The key and the window that a query string asks for. ApiError ``parameter_…``."""
        given: dict[str, str | None] = {}
        for name, text in _pairs(query):
            if name in given:
                raise ApiError(
                    "parameter_type",
                    f"Parameter {name!r} is given more than once.",
                    "Give it once; for several keys use POST /v1/views/{view}/query.",
                    members={"parameter": name},
                )
            given[name] = text
        window = self._window(given)
        key = self.key(given)
        if window is None and None not in key:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[query] = entry_key(self._head, key)
        return key, window

    def key(self, given: Mapping[str, Any]) -> Key:
        """The key from parameters by name: text, or what JSON has for it. ApiError ``parameter_…``."""
        for name in given:
            if name not in self._parsers:
                raise self._unknown(name)
        for name in self._parsers:
            if name not in given:
                raise ApiError(
                    "parameter_missing",
                    f"Parameter {name!r} of view {self.info.name!r} is missing.",
                    f"Add {name}=<{self._type(name).sql}>; {name}{_NULL_SUFFIX} is NULL.",
                    members={"parameter": name},
                )
        return tuple(self._value(name, given[name]) for name in self._parsers)

    def window(self, limit: int | None, after: str | None) -> Window | None:
        """The part of an ordered view's rows; None: all of them. ApiError ``parameter_type``."""
        if limit is None and after is None:
            return None
        name = "limit" if limit is not None else "after"
        if not self.info.ordered:
            raise ApiError(
                "parameter_unknown",
                f"View {self.info.name!r} has no ORDER BY, so {name!r} has no meaning.",
                "Leave it out, or add an ORDER BY to the view.",
                members={"parameter": name},
            )
        if limit is not None and not 0 < limit < 1 << 31:
            raise _ill_typed("limit", str(limit), "a positive integer")
        if after is not None:
            try:
                read_token(after)
            except ValueError:
                raise _ill_typed("after", after, "the 'next' of an earlier page of this view") from None
        return Window(limit, after)

    def _window(self, given: dict[str, str | None]) -> Window | None:
        # A view's own parameter of that name comes first.
        limit = given.pop("limit", None) if "limit" not in self._parsers else None
        after = given.pop("after", None) if "after" not in self._parsers else None
        if limit is not None and not (limit.isascii() and limit.isdigit() and len(limit) < 11):
            raise _ill_typed("limit", limit, "a positive integer")
        return self.window(None if limit is None else int(limit), after)

    def _type(self, name: str) -> SqlType:
        return next(parameter.type for parameter in self.info.parameters if parameter.name == name)

    def _value(self, name: str, given: Any) -> Value:
        text = _json_text(name, given, self._type(name))
        if text is None:
            return None
        try:
            if "\0" in text:
                raise ValueError("text without zero bytes")
            return self._parsers[name](text)
        except ValueError as reason:
            raise _ill_typed(name, text, f"{self._type(name).sql}: {reason}") from None

    def _unknown(self, name: str) -> ApiError:
        names = list(self._parsers)
        near = get_close_matches(name, names, 1)
        if near:
            hint = f"Did you mean {near[0]!r}?"
        else:
            hint = f"Its parameters are: {', '.join(names)}." if names else "It has no parameters."
        return ApiError(
            "parameter_unknown",
            f"View {self.info.name!r} has no parameter {name[:_MAX_SHOWN]!r}.",
            hint,
            members={"parameter": name},
        )


def _pairs(query: bytes) -> list[tuple[str, str | None]]:
    """Names and values of a query string; ``name:null`` is the name with NULL."""
    pairs: list[tuple[str, str | None]] = []
    for part in query.split(b"&") if query else ():
        if not part:
            continue
        raw_name, _, raw_value = part.partition(b"=")
        try:
            name = unquote_plus(raw_name.decode("ascii"), errors="strict")
            value = unquote_plus(raw_value.decode("ascii"), errors="strict")
        except ValueError:
            raise ApiError("bad_request", "The query string is not percent-encoded UTF-8.") from None
        if name.endswith(_NULL_SUFFIX):
            if value:
                raise ApiError(
                    "parameter_type",
                    f"{name!r} means NULL and takes no value.",
                    f"Send {name.removesuffix(_NULL_SUFFIX)}=<value>, or {name} alone.",
                    members={"parameter": name.removesuffix(_NULL_SUFFIX)},
                )
            pairs.append((name.removesuffix(_NULL_SUFFIX), None))
        else:
            pairs.append((name, value))
    return pairs


def _parser(parameter: NamedType) -> Callable[[str], str]:
    sql_type = parameter.type
    normal = normal_form(sql_type)
    if normal is None:
        return lambda text: parse_parameter(sql_type, text)
    return lambda text: normal(parse_parameter(sql_type, text))


_EntryOf = Callable[[bytes], bytes | None]


def _fast_form(info: ViewInfo, general: _EntryOf) -> _EntryOf:
    """Query string -> entry, in the plainest cases: no parameter, or one whose text is its own normal form."""
    head = view_head(info.id) + b"\x00"
    if not info.parameters:
        return lambda query: general(query) if query else head + b"\0"
    sql_type, name = info.parameters[0].type, info.parameters[0].name
    if len(info.parameters) > 1 or sql_type.kind != "base" or not (name.isascii() and name.isidentifier()):
        return general
    if sql_type.name in _INTEGER_DIGITS:
        return _fast_integer(head, name.encode() + b"=", _INTEGER_DIGITS[sql_type.name], general)
    if sql_type.name in _TEXT_TYPES and normal_form(sql_type) is None:
        return _fast_text(head, name.encode() + b"=", general)
    return general


def _fast_integer(head: bytes, prefix: bytes, digits: int, general: _EntryOf) -> _EntryOf:
    start, end = len(prefix), len(prefix) + digits

    def entry_of(query: bytes) -> bytes | None:
        text = query[start:]
        # A leading zero is another spelling of the same number.
        if query.startswith(prefix) and text.isdigit() and text[0] != 48 and len(query) <= end:
            return head + text + b"\0"
        return general(query)

    return entry_of


def _fast_text(head: bytes, prefix: bytes, general: _EntryOf) -> _EntryOf:
    start, end = len(prefix), len(prefix) + _MAX_FAST_TEXT

    def entry_of(query: bytes) -> bytes | None:
        text = query[start:]
        if query.startswith(prefix) and text.isalnum() and len(query) <= end:
            return head + text + b"\0"
        return general(query)

    return entry_of


def _json_text(name: str, given: Any, sql_type: SqlType) -> str | None:
    """The text of a JSON scalar."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int | float):
        return str(given) if isinstance(given, int) else repr(given)
    raise _ill_typed(name, "an array or object", f"{sql_type.sql}, as a JSON string, number, boolean or null")


def _ill_typed(name: str, text: str, expected: str) -> ApiError:
    shown = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
    return ApiError(
        "parameter_type",
        f"Parameter {name!r} cannot be {shown!r}.",
        f"Expected {expected}.",
        members={"parameter": name},
    )
