"""Conversion of query arguments and JSON parameters into the values of a view's parameters.

*Invariants*: every returned value is in normal form, like the engine's keys, and is never cached under another spelling
(values of refresh views are spelled as the upstream prints them). Every error names the argument and the expected form.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import prod
from typing import Any
from urllib.parse import unquote_plus

from dataflow.functions import arrays
from dataflow.plan.nodes import Members
from dataflow.schema import SqlType
from dataflow.types import Key, Value
from service.ground.errors import ApiError
from service.leaf_store.answer import PageWindow
from service.leaf_store.catalog import CLAIMS, ParameterInfo, ParameterRole, ViewInfo
from service.leaf_store.layout import HASH_BYTES, entry_key, is_hashed, key_in, view_head
from service.leaf_store.pages import read_token
from service.leaf_store.request import Given, LeafRequest, Values, check_of, picked_places, request_of
from service.web.entry_names import EntryNames, entry_of_query, texts_of
from service.web.principal import Principal

#: Maximum remembered query strings of a view.
_MAX_REMEMBERED = 4096
#: Longer query strings are not remembered.
_MAX_REMEMBERED_BYTES = 512
#: Maximum length of one value: about what a GET has room for by default. Parsing a document takes microseconds per
#: character.
_MAX_CHARACTERS = 16_384
_NULL_SUFFIX = ":null"
_MAX_SHOWN = 60
#: Maximum digits of a LIMIT or OFFSET: a bigint has room for them.
_MAX_COUNT_DIGITS = 19


_Parse = Callable[[str], str]
_Texts = Callable[[list[Any]], list[str] | None]


class Arguments:
    """The arguments of one view."""

    def __init__(self, info: ViewInfo, max_keys: int) -> None:
        self.info = info
        self._max_keys = max_keys
        self._head = view_head(info.id)
        #: The parameters that clients supply, by name; of a parameter with two uses, the first use.
        self._parameters = {p.name: p for p in reversed(info.given) if not p.is_claim}
        self._parsers = [
            (parameter, _parser(parameter, info.refreshed), texts_of(parameter.type)) for parameter in info.parameters
        ]
        #: Whether a read has exactly one key, and at most one row selection.
        self._is_one_key = info.refreshed or (
            not info.timed and all(parameter.role is ParameterRole.EQUAL for parameter in info.parameters)
        )
        #: With claims, the same query string is a different read for each principal: none is remembered.
        self._is_remembered = self._is_one_key and not info.claims
        self._remembered: dict[bytes, bytes] = {}
        #: For views with a row selection: the selected rows' place, by remembered query string.
        self._places: dict[bytes, bytes] = {}
        self.place_of = self._places.__getitem__
        #: The keys of hashed entry names, which cannot be decoded.
        self._hashed: dict[bytes, Key] = {}
        #: Leaf store entry of a query string by the fast path; None: use `parse`. Only for complete answers to one key
        #: without NULL.
        self.entry_of = entry_of_query(info, self._remembered.get)
        #: Leaf store entries of JSON parameters by the fast path, in the same cases.
        self.entries = EntryNames(info)

    def parse(self, query: bytes, principal: Principal | None = None) -> tuple[Values, PageWindow | None]:
        """Parse a query string into values and a page window. Raises ApiError(parameter_…), and as `values`."""
        given: dict[str, Any] = {}
        for name, text in _pairs(query):
            if self._takes_list(name):
                given.setdefault(name, []).append(text)
                continue
            if name in given:
                raise ApiError(
                    "parameter_type",
                    f"Parameter {name!r} must be given only once.",
                    "For several keys use POST /v1/views/{view}/query.",
                    members={"parameter": name},
                )
            given[name] = text
        limit, after = self._page(given)
        values = self.values(given, principal)
        window = self.window(values, limit, after)
        if window is None and len(query) <= _MAX_REMEMBERED_BYTES and self._is_remembered:
            self._remember(query, request_of(self.info, values))
        return values, window

    def _remember(self, query: bytes, request: LeafRequest) -> None:
        for key in request.keys:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
                self._places.clear()
                self._hashed.clear()
            for place in picked_places(self.info, request):
                self._places[query] = place
            self._remembered[query] = name = entry_key(self._head, key)
            if is_hashed(name):
                self._hashed[name] = key

    def key_of(self, name: bytes) -> Key | None:
        """Return the key of an entry name returned by `entry_of`; None if it is no longer remembered."""
        if is_hashed(name):
            return self._hashed.get(name)
        return key_in(name) if self.info.parameters else ()

    def values(self, given: Mapping[str, Any], principal: Principal | None = None) -> Values:
        """Convert parameters by name, as text or JSON; claims are taken from the principal.

        Raises ApiError(parameter_…, unauthenticated, forbidden, too_large).
        """
        if given.keys() != self._parameters.keys():
            raise self._other_names(given)
        if self.info.claims:
            given = {**given, **self._claims_of(principal)}
        values = tuple(
            [
                self._value(given[parameter.name], parameter, parse, texts)
                if parameter.members is None
                else self._members(given, parameter, parse, parameter.members)
                for parameter, parse, texts in self._parsers
            ]
        )
        n_keys = keys_of(value for value, p in zip(values, self.info.parameters, strict=True) if not p.whole)
        if max([n_keys, *(len(value) for value in values if isinstance(value, tuple))]) > self._max_keys:
            raise ApiError(
                "too_large",
                f"The lists expand to {n_keys} keys, or have too many values.",
                f"Request at most {self._max_keys} at once.",
            )
        return values

    def _claims_of(self, principal: Principal | None) -> dict[str, Any]:
        """Return the claims as parameter values. Errors do not show the token's contents."""
        if principal is None:
            raise ApiError("unauthenticated", f"View {self.info.name!r} needs a token, and the request has none.")
        claims = {name: principal.claim(name.removeprefix(CLAIMS)) for name in self.info.claims}
        for parameter, parse, texts in self._parsers:
            if not parameter.is_claim:
                continue
            claim = parameter.name.removeprefix(CLAIMS)
            # A view may take NULL for "all rows", as in (:p IS NULL OR …).
            if claims[parameter.name] is None:
                raise ApiError("forbidden", f"The token lacks the claim {claim!r}, which this view needs.")
            try:
                self._value(claims[parameter.name], parameter, parse, texts)
            except ApiError:
                raise ApiError(
                    "forbidden", f"The token's claim {claim!r} is not a value of type {parameter.type.sql}."
                ) from None
        return claims

    def window(self, values: Values, limit: int | None, after: str | None) -> PageWindow | None:
        """Return the requested page of an ordered view; None: all rows. Raises ApiError(parameter_type,
        parameter_unknown)."""
        if limit is None and after is None:
            return None
        name = "limit" if limit is not None else "after"
        if not self.info.ordered:
            raise ApiError(
                "parameter_unknown",
                f"View {self.info.name!r} has no ORDER BY, so {name!r} is not supported.",
                "Omit it, or add an ORDER BY to the view.",
                members={"parameter": name},
            )
        if limit is not None and not 0 < limit < 1 << 31:
            raise _ill_typed("limit", str(limit), "a positive integer")
        if after is not None:
            try:
                place = read_token(after, check_of(self.info, values))
                if self.info.direct:
                    self.info.ordering.cut_of_place(place.suffix[:-HASH_BYTES])
            except ValueError:
                expected = "the 'next' of an earlier page of this read, with the same parameters"
                raise _ill_typed("after", after, expected) from None
        return PageWindow(limit, after)

    def _page(self, given: dict[str, Any]) -> tuple[int | None, str | None]:
        """Remove the page's arguments from `given` and return them."""
        # A view's own parameter of that name has precedence.
        limit = given.pop("limit", None) if "limit" not in self._parameters else None
        after = given.pop("after", None) if "after" not in self._parameters else None
        if limit is not None and not (limit.isascii() and limit.isdigit() and len(limit) < 11):
            raise _ill_typed("limit", limit, "a positive integer")
        return None if limit is None else int(limit), after

    def _takes_list(self, name: str) -> bool:
        parameter = self._parameters.get(name)
        return parameter is not None and parameter.role is ParameterRole.LIST

    def _value(self, given: Any, parameter: ParameterInfo, parse: _Parse, texts: _Texts) -> Given:
        if parameter.role is not ParameterRole.LIST:
            if isinstance(given, list):
                # Another use of this parameter takes a list.
                raise _ill_typed(parameter.name, "a list", parameter.type.sql)
            return self._scalar(parameter, parse, given)
        several = given if isinstance(given, list) else [given]
        if not (self.info.refreshed or parameter.whole):
            # NULL equals nothing.
            several = [value for value in several if value is not None]
        listed: Sequence[Value] = texts(several) or [self._scalar(parameter, parse, value) for value in several]
        if self.info.refreshed:
            return tuple(listed)
        # Duplicates add no key, and the order does not matter.
        nulls = (None,) if None in listed else ()
        return (*sorted({value for value in listed if value is not None}), *nulls)

    def _members(self, given: Mapping[str, Any], parameter: ParameterInfo, parse: _Parse, members: Members) -> Given:
        """Return the list that members and constants make."""
        values = {self._scalar(member, parse, given[member.name]) for member in parameter.given}
        return tuple(sorted({value for value in values if value is not None}.union(members.constants)))

    def _scalar(self, parameter: ParameterInfo, parse: _Parse, given: Any) -> Value:
        text = _json_text(parameter.name, given, parameter.type)
        if text is None:
            return None
        if len(text) > _MAX_CHARACTERS:
            detail = f"Parameter {parameter.name!r} has {len(text)} characters."
            hint = f"Send at most {_MAX_CHARACTERS}."
            raise ApiError("too_large", detail, hint, members={"parameter": parameter.name})
        try:
            if "\0" in text:
                raise ValueError("text without zero bytes")
            return parse(text)
        except ValueError as reason:
            raise _ill_typed(parameter.name, text, f"{parameter.type.sql}: {reason}") from None

    def _other_names(self, given: Mapping[str, Any]) -> ApiError:
        for name in given:
            if name not in self._parameters:
                return self._unknown(name)
        return self._missing(next(known for name, known in self._parameters.items() if name not in given))

    def _missing(self, parameter: ParameterInfo) -> ApiError:
        name = parameter.name
        more = (
            "give it several times for a list"
            if parameter.role is ParameterRole.LIST
            else f"{name}{_NULL_SUFFIX} is NULL"
        )
        return ApiError(
            "parameter_missing",
            f"Parameter {name!r} of view {self.info.name!r} is missing.",
            f"Add {name}=<{parameter.type.sql}>; {more}.",
            members={"parameter": name},
        )

    def _unknown(self, name: str) -> ApiError:
        names = [parameter.name for parameter in self.info.given if not parameter.is_claim]
        near = get_close_matches(name, names, 1)
        if near:
            hint = f"Did you mean {near[0]!r}?"
        else:
            hint = f"Its parameters are: {', '.join(dict.fromkeys(names))}." if names else "It has no parameters."
        return ApiError(
            "parameter_unknown",
            f"View {self.info.name!r} has no parameter {name[:_MAX_SHOWN]!r}.",
            hint,
            members={"parameter": name},
        )


def keys_of(values: Iterable[Given]) -> int:
    """Return the number of keys of a read."""
    return prod(len(value) for value in values if isinstance(value, tuple))


def _pairs(query: bytes) -> list[tuple[str, str | None]]:
    """Return names and values of a query string; ``name:null`` is the name with NULL."""
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
                    f"{name!r} means NULL and must not have a value.",
                    f"Send {name.removesuffix(_NULL_SUFFIX)}=<value>, or {name} alone.",
                    members={"parameter": name.removesuffix(_NULL_SUFFIX)},
                )
            pairs.append((name.removesuffix(_NULL_SUFFIX), None))
        else:
            pairs.append((name, value))
    return pairs


def _parser(parameter: ParameterInfo, refreshed: bool) -> _Parse:
    sql_type = parameter.type
    if parameter.role in (ParameterRole.LIMIT, ParameterRole.OFFSET):
        return _count
    if refreshed:
        # The upstream computes with the value itself, and says what it takes where that is not known here.
        return sql_type.parse if sql_type.takes_parameters else str
    normal = sql_type.normal_form
    if normal is None:
        return sql_type.parse
    return lambda text: normal(sql_type.parse(text))


def _count(text: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) < _MAX_COUNT_DIGITS):
        raise ValueError("expected an integer that is not negative")
    return str(int(text))


def _json_text(name: str, given: Any, sql_type: SqlType) -> str | None:
    """Return a JSON scalar as text."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int | float):
        return str(given) if isinstance(given, int) else repr(given)
    if isinstance(given, list) and sql_type.kind == "array" and sql_type.element is not None:
        element = sql_type.element
        return arrays.render(tuple([_json_text(name, member, element) for member in given]))
    raise _ill_typed(name, "an array or object", f"{sql_type.sql}, as a JSON string, number, boolean or null")


def _ill_typed(name: str, text: str, expected: str) -> ApiError:
    shown = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
    return ApiError(
        "parameter_type",
        f"Parameter {name!r} cannot be {shown!r}.",
        f"Expected {expected}.",
        members={"parameter": name},
    )
