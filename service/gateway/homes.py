"""Homes of keys at a gateway, from requests alone: a gateway does not know views or types.

*Theory*: the *text* of a key is its parameters in a fixed order; it is hashed into a slot as entries of keys are
(`service.sharding.homes`). Two spellings of one value may have two homes; then two shards have the key, both
correctly.

*Invariants*: the same in every process: prewarmed keys are filled where they will be read. A query string and equal
JSON have the same home.

Not here: homes while the number of shards changes (`moving`); fully materialized views (`known`).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_plus

from service.sharding.homes import SLOTS, homes_among, order_of, slot_of_key

#: Arguments of the page and of subscriptions; they do not belong to the key.
_NOT_OF_KEY = frozenset({"limit", "after", "live"})
_NULL = ":null"
#: Slots of longer query strings are not cached.
_MAX_REMEMBERED_BYTES = 256
_Pairs = Iterable[tuple[str, str]]


def home_of(shards: int, view: str, params: Mapping[str, Any]) -> int:
    """Return the home of a view's key among so many shards, if its answers do not depend on the client."""
    return homes_among(shards).of_slot(slot_of(view, params))


def slot_of(view: str, params: Mapping[str, Any], who: bytes = b"") -> int:
    """Return the slot of a key by its JSON parameters. `who` is the client, if answers depend on it."""
    return slot_of_key(view, _text(_pairs_of(params), who))


def slot_of_query(view: str, query: bytes, who: bytes = b"") -> int:
    """Return the slot of a key by a query string."""
    length = len(view) + len(query) + len(who)
    return (_remembered if length <= _MAX_REMEMBERED_BYTES else _slot_of_query)(view, query, who)


def _slot_of_query(view: str, query: bytes, who: bytes) -> int:
    return slot_of_key(view, _text(_pairs_in(query), who))


_remembered = lru_cache(maxsize=1 << 14)(_slot_of_query)


@lru_cache(maxsize=1 << 16)
def replicas_of(slot: int, replicas: int) -> tuple[int, ...]:
    """Return the replicas of a slot's home by preference: the first one is used while it is reachable. Drawn
    independently of homes, or all slots of a shard would prefer the same replica."""
    return tuple(order_of(SLOTS + slot, replicas))


def _text(pairs: _Pairs, who: bytes) -> bytes:
    return (
        "\0".join([f"{name}={value}" for name, value in sorted(pairs)]).encode("utf-8", "surrogatepass") + b"\0" + who
    )


def _pairs_in(query: bytes) -> _Pairs:
    for part in query.split(b"&"):
        if part:
            raw_name, _, raw_value = part.partition(b"=")
            name = unquote_plus(raw_name.decode("latin-1"))
            if name not in _NOT_OF_KEY:
                yield name, unquote_plus(raw_value.decode("latin-1"))


def _pairs_of(params: Mapping[str, Any]) -> _Pairs:
    for name, value in params.items():
        if name in _NOT_OF_KEY:
            continue
        for each in value if isinstance(value, list) else (value,):
            yield (name + _NULL, "") if each is None else (name, _scalar(each))


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
