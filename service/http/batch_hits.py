"""Batches whose keys are all in the leaf store: what a body asks for, read in one transaction.

*Theory*: `AskedKeys` runs every step over all keys at once: names column by column (`EntryNames`), one `get` each, one
join. `AskedItems` does that for each of its reads; one that is not plain (a list, a range, a page) is read the general
way, in the same transaction.

*Invariants*: what is answered is what `Reads.read` would answer. Only hits are counted: None means that nothing was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard, cast

import orjson

from service.http.arguments import keys_of
from service.http.batches import Batches, Item, result_of
from service.http.reads import ViewRoute, Wanted
from service.http.touches import Touches
from service.leaf_store.layout import ENTRY_BYTES, INLINE
from service.leaf_store.reader import answer_in, rows_in
from service.leaf_store.request import Values
from service.leaf_store.transaction import Transaction

_FIRST, _BETWEEN, _LAST = b'{"rows":[', b'],"next":null},{"rows":[', b'],"next":null}'
_OBJECTS = {dict}
_FIELDS = frozenset(Item._fields)
_LIMITS, _AFTERS = frozenset({int, type(None)}), frozenset({str, type(None)})
#: What every parser of JSON reads alike; of other numbers this one's makes floats where they are large.
_EXACT = frozenset({str, int, bool, type(None)})


@dataclass(frozen=True, slots=True)
class AskedKeys:
    """The body of ``POST /v1/views/{view}/query``. `names` are its keys' entries, if they can be said fast."""

    route: ViewRoute
    content: bytes
    names: Sequence[bytes] | None

    @classmethod
    def of(cls, route: ViewRoute, content: bytes) -> "AskedKeys | None":
        """None if it does not have the documented form."""
        entries = route.arguments.entries
        names: Sequence[bytes] | None = entries.of_body(content)
        if names is None:
            keys = _keys(content)
            if keys is None:
                return None
            names = entries.of(keys) if keys else None
        return cls(route, content, names)

    def hits(self, txn: Transaction, max_keys: int, touches: Touches) -> bytes | None:
        """The results; None if they are not all there, or not plain. NotCoveredError."""
        names = self.names
        if names is None or len(names) > max_keys:
            return None
        rows = _rows(txn, self.route, names)
        if rows is None:
            return None
        self.route.counters.hits += len(names)
        touches.note_all(names)
        return b"".join((_FIRST, _BETWEEN.join(rows), _LAST))

    def wanted(self, batches: Batches) -> list[Wanted] | None:
        """The same, the general way; None for what the documented application parses otherwise. ApiError."""
        keys = _keys(self.content)
        exact = keys is not None and all(map(_is_exact, keys))
        return batches.keys(self.route.info.name, keys) if keys is not None and exact else None


def _keys(content: bytes) -> list[dict[str, Any]] | None:
    """None if the body does not have the documented form."""
    keys = _field(content, "keys")
    return keys if _are_objects(keys) else None


def _field(content: bytes, name: str) -> Any:
    """The one field of a JSON object."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return body.get(name) if type(body) is dict and len(body) == 1 else None


class _Hit(NamedTuple):
    """One of several reads. `name` is its entry's, if it is a whole answer to one key; else it has `values`."""

    route: ViewRoute
    result: bytes
    name: bytes | None
    values: Values = ()

    def note_in(self, touches: Touches) -> None:
        self.route.counters.hits += 1
        if self.name is not None:
            touches.note(self.name)
        else:
            touches.note_read(self.route.info, self.values)


@dataclass(frozen=True, slots=True)
class AskedItems:
    """The body of ``POST /v1/read``; `routes` are the views that can be read."""

    routes: Mapping[str, ViewRoute]
    items: list[Item]

    @classmethod
    def of(cls, routes: Mapping[str, ViewRoute], content: bytes) -> "AskedItems | None":
        """None if it does not have the documented form."""
        reads = _field(content, "reads")
        if not _are_objects(reads):
            return None
        items = [_item(read) for read in reads]
        known = [item for item in items if item is not None]
        return cls(routes, known) if len(known) == len(items) else None

    def hits(self, txn: Transaction, max_keys: int, touches: Touches) -> bytes | None:
        """The results; None if they are not all there. ApiError, NotCoveredError."""
        if len(self.items) > max_keys:
            return None
        hits = []
        for item in self.items:
            hit = self._hit(txn, item)
            if hit is None:
                return None
            hits.append(hit)
        if sum([keys_of(hit.values) for hit in hits]) > max_keys:
            return None
        for hit in hits:
            hit.note_in(touches)
        return b",".join([hit.result for hit in hits])

    def _hit(self, txn: Transaction, item: Item) -> _Hit | None:
        route = self.routes.get(item.view)
        if route is None:
            return None
        whole = item.limit is None and item.after is None
        names = route.arguments.entries.of([item.params]) if whole else None
        if names is None:
            return _general_hit(txn, route, item)
        rows = _rows(txn, route, names)
        return None if rows is None else _Hit(route, b"".join((_FIRST, rows[0], _LAST)), names[0])

    def wanted(self, batches: Batches) -> list[Wanted] | None:
        """The same, the general way; None for what the documented application parses otherwise. ApiError."""
        return batches.items(self.items) if all(_is_exact(item.params) for item in self.items) else None


def _general_hit(txn: Transaction, route: ViewRoute, item: Item) -> _Hit | None:
    if not _is_exact(item.params):
        return None
    values = route.arguments.values(item.params)
    answer = answer_in(txn, route.info, values, route.arguments.window(values, item.limit, item.after))
    return None if answer is None else _Hit(route, result_of(answer), None, values)


def _rows(txn: Transaction, route: ViewRoute, names: Sequence[bytes]) -> list[bytes] | None:
    """The rows of whole keys, without the brackets; None if an entry is not there. NotCoveredError."""
    found = list(map(txn.get, names))
    if not all(found):
        return None
    entries = cast(list[bytes], found)
    if route.bare:
        rows = [entry[ENTRY_BYTES:] for entry in entries if entry[0] == INLINE]
        if len(rows) == len(entries):
            return rows
    info = route.info
    return [rows_in(txn, info, name, entry)[0] for name, entry in zip(names, entries, strict=True)]


def _are_objects(given: Any) -> TypeGuard[list[dict[str, Any]]]:
    return type(given) is list and set(map(type, given)) <= _OBJECTS


def _item(read: dict[str, Any]) -> Item | None:
    """One of the reads; None if it does not have the documented form."""
    view, params, limit, after = read.get("view"), read.get("params", {}), read.get("limit"), read.get("after")
    if type(view) is not str or type(params) is not dict or not read.keys() <= _FIELDS:
        return None
    if type(limit) not in _LIMITS or type(after) not in _AFTERS:
        return None
    return Item(view, params, limit, after)


def _is_exact(params: Mapping[str, Any]) -> bool:
    return all(
        type(value) in _EXACT or (type(value) is list and set(map(type, value)) <= _EXACT) for value in params.values()
    )
