"""Where a gateway reads a key, by what a request says of it: a gateway knows no views, and so no types.

*Theory*: the *text* of a key is its parameters in one order, whatever the request's; it is hashed into a slot as the
entries of keys are (`service.sharding.homes`). Two spellings of one value may have two homes; then two shards hold that
key, and both are right.

*Invariants*: the same in every process: what is filled beforehand goes where it will be asked for. A query string and
JSON that say the same have the same home.

Not here: homes while the number of shards changes (`moving`); views of which this is not all (`known`).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_plus

from service.sharding.homes import SLOTS, homes_among, order_of, slot_of_key

#: What a query string says of the page, or of how it is followed; not of the key.
_NOT_OF_KEY = frozenset({"limit", "after", "live"})
_NULL = ":null"
#: Slots of longer query strings are not remembered.
_MAX_REMEMBERED_BYTES = 256
_Pairs = Iterable[tuple[str, str]]


def home_of(shards: int, view: str, params: Mapping[str, Any]) -> int:
    """The shard among so many where a gateway reads a key of a view, if its answers are not one client's."""
    return homes_among(shards).of_slot(slot_of(view, params))


def slot_of(view: str, params: Mapping[str, Any], who: bytes = b"") -> int:
    """The slot of a key by its parameters, as JSON has them. `who` asks, if answers are one client's."""
    return slot_of_key(view, _text(_pairs_of(params), who))


def slot_of_query(view: str, query: bytes, who: bytes = b"") -> int:
    """The slot of a key by a query string."""
    length = len(view) + len(query) + len(who)
    return (_remembered if length <= _MAX_REMEMBERED_BYTES else _slot_of_query)(view, query, who)


def _slot_of_query(view: str, query: bytes, who: bytes) -> int:
    return slot_of_key(view, _text(_pairs_in(query), who))


_remembered = lru_cache(maxsize=1 << 14)(_slot_of_query)


@lru_cache(maxsize=1 << 16)
def replicas_of(slot: int, replicas: int) -> tuple[int, ...]:
    """The replicas of a slot's home, in the order in which they are asked: the first one keeps the slot's keys as long
    as it is there. Drawn apart from homes: else those of one shard would all draw the same."""
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
