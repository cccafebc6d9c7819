"""Hits of batches: a body's keys, read in one transaction if the leaf store has all of them.

*Theory*: `AskedKeys` runs each step over all keys at once: names column by column (`EntryNames`), one `get` each,
one join. `AskedItems` does that for the keys of each of its reads; reads of a range or a page take the general path
in the same transaction. On a miss the parsed body is used by the general path.

*Invariants*: answers equal those of `Reads.read` and `service.leaf_store.reader` (compared in
`tests/service/worker/test_batch_route.py`). Only hits are counted: None means that nothing was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard, cast

import orjson

from dataflow.types import Position
from service.leaf_store.layout import COUNT_SLICE, ENTRY_BYTES, INLINE
from service.leaf_store.read_ahead import AtOnce
from service.leaf_store.reader import answer_in, rows_in
from service.leaf_store.request import names_of
from service.leaf_store.transaction import LeafTransaction
from service.leaf_store.unchanged import since_of, unchanged_since
from service.web.principal import Principal, require_read
from service.worker.reads.batches import AnyBatches, Item, result_of, rows_bytes
from service.worker.reads.notes import NOTED
from service.worker.reads.reads import ViewRoute, WantedRead
from service.worker.reads.touches import Touches
from service.worker.reads.view_reads import cache_control_of

_FIRST, _BETWEEN, _LAST = b'{"rows":[', b'],"next":null},{"rows":[', b'],"next":null}'
_BETWEEN_PARTS = _LAST + _FIRST
_AROUND_BYTES = len(_BETWEEN_PARTS)
_NO_ROWS = bytes(4)
_OBJECTS = {dict}
_FIELDS = frozenset(Item._fields)
_LIMITS, _AFTERS = frozenset({int, type(None)}), frozenset({str, type(None)})
#: Types that every JSON parser reads alike; orjson turns large numbers into floats.
_EXACT = frozenset({str, int, bool, type(None)})


#: The result of a read, and the entries it consists of, if known.
_Found = tuple[bytes, list[bytes] | None]


class PartHits(NamedTuple):
    """Joined results, the length of each, and the position since which all are unchanged (None: unknown)."""

    results: bytes
    lengths: list[int]
    since: Position | None


@dataclass(frozen=True, slots=True)
class AskedKeys:
    """The body of ``POST /v1/views/{view}/query``. `names` are its keys' entries, if the fast path applies."""

    batches: AnyBatches
    route: ViewRoute
    content: bytes
    names: Sequence[bytes] | None
    principal: Principal | None

    @classmethod
    def of(
        cls, batches: AnyBatches, route: ViewRoute, content: bytes, principal: Principal | None
    ) -> "AskedKeys | None":
        """Parse a body; None if it does not have the documented form. Raises ApiError(forbidden)."""
        require_read(principal, route.info.name)
        entries = route.arguments.entries
        names: Sequence[bytes] | None = entries.of_body(content)
        if names is None:
            keys = _keys(content)
            if keys is None:
                return None
            names = entries.of(keys) if keys else None
        return cls(batches, route, content, names, principal)

    def hits(self, txn: LeafTransaction, touches: Touches) -> bytes | None:
        """Return the results; None on a miss, or without the fast path. Raises NotCoveredError."""
        entries = self._entries(txn)
        return None if entries is None else results_of(self._rows(txn, entries, touches))

    def part(self, txn: LeafTransaction, touches: Touches) -> "PartHits | None":
        """Do as `hits`, for a part."""
        entries = self._entries(txn)
        if entries is None:
            return None
        since = since_of(txn, self.route.info, entries)
        rows = self._rows(txn, entries, touches)
        return PartHits(_FIRST + _BETWEEN_PARTS.join(rows) + _LAST, [len(row) + _AROUND_BYTES for row in rows], since)

    def _entries(self, txn: LeafTransaction) -> list[bytes] | None:
        names = self.names
        return None if names is None or len(names) > self.batches.max_keys else entries_of(txn, self.route, names)

    def _rows(self, txn: LeafTransaction, entries: Sequence[bytes], touches: Touches) -> list[bytes]:
        """Return the rows of the entries and count the reads. Raises NotCoveredError."""
        route, names = self.route, self.names or ()
        rows = rows_of(txn, route, names, entries, AtOnce())
        route.counters.hits += len(names)
        touches.note_all(names)
        if (noted := NOTED.get()) is not None:
            noted.entries(route.info, names, rows)
        return rows

    @property
    def views(self) -> list[ViewRoute]:
        return [self.route]

    @property
    def cache_control(self) -> tuple[bytes, bytes]:
        return self.route.cache_control

    def wanted(self) -> list[WantedRead] | None:
        """Return the reads for the general path; None for a body that the documented application parses differently.

        Raises ApiError.
        """
        keys = _keys(self.content)
        exact = keys is not None and all(map(_is_exact, keys))
        return self._wanted(keys) if keys is not None and exact else None

    def _wanted(self, keys: list[dict[str, Any]]) -> list[WantedRead]:
        return self.batches.keys(self.route.info.name, keys, self.principal)


def _keys(content: bytes) -> list[dict[str, Any]] | None:
    keys = _field(content, "keys")
    return keys if _are_objects(keys) else None


def _field(content: bytes, name: str) -> Any:
    """Return the only field of a JSON object."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return body.get(name) if type(body) is dict and len(body) == 1 else None


@dataclass(frozen=True, slots=True)
class AskedItems:
    """The body of ``POST /v1/read``."""

    reads: list[WantedRead]

    @classmethod
    def of(cls, batches: AnyBatches, content: bytes, principal: Principal | None) -> "AskedItems | None":
        """Parse a body; None if it does not have the documented form, or the documented application parses it
        differently.

        Raises ApiError.
        """
        reads = _field(content, "reads")
        if not _are_objects(reads):
            return None
        items = [item for read in reads if (item := _item(read)) is not None]
        return cls(batches.items(items, principal)) if len(items) == len(reads) else None

    def hits(self, txn: LeafTransaction, touches: Touches) -> bytes | None:
        """Return the results; None on a miss. Raises ApiError, NotCoveredError."""
        found = self._found(txn, touches)
        return None if found is None else b",".join([result for result, _ in found])

    def part(self, txn: LeafTransaction, touches: Touches) -> "PartHits | None":
        """Do as `hits`, for a part."""
        found = self._found(txn, touches)
        if found is None:
            return None
        results = [result for result, _ in found]
        since = [_since(txn, read, entries) for read, (_, entries) in zip(self.reads, found, strict=True)]
        known = [position for position in since if position is not None]
        newest = max(known, default=0) if len(known) == len(since) else None
        return PartHits(b"".join(results), list(map(len, results)), newest)

    def _found(self, txn: LeafTransaction, touches: Touches) -> list[_Found] | None:
        """Return the results and count the reads."""
        found, at_once = [], AtOnce()
        for read in self.reads:
            result = _result(txn, read, at_once)
            if result is None:
                return None
            found.append(result)
        for read in self.reads:
            read.view.counters.hits += 1
            touches.note_read(read.view.info, read.values)
        if (noted := NOTED.get()) is not None:
            sizes = [rows_bytes(result) for result, _ in found]
            noted.hits([(read.view.info, read.values) for read in self.reads], sizes)
        return found

    @property
    def views(self) -> list[ViewRoute]:
        return [read.view for read in self.reads]

    @property
    def cache_control(self) -> tuple[bytes, bytes]:
        return cache_control_of(read.view for read in self.reads)

    def wanted(self) -> list[WantedRead] | None:
        return self.reads


def _result(txn: LeafTransaction, read: WantedRead, at_once: AtOnce) -> _Found | None:
    """Return one result; None on a miss. Raises NotCoveredError."""
    info = read.view.info
    if read.window is None and info.whole:
        names = names_of(info, read.values)
        entries = entries_of(txn, read.view, names) if names else None
        if entries is not None:
            rows = rows_of(txn, read.view, names, entries, at_once)
            return b"".join((_FIRST, b",".join(filter(None, rows)), _LAST)), entries
    answer = answer_in(txn, info, read.values, read.window)
    return None if answer is None else (result_of(answer), None)


def _since(txn: LeafTransaction, read: WantedRead, entries: list[bytes] | None) -> Position | None:
    """Return the position since which a result is unchanged; None: unknown."""
    if entries is None:
        return unchanged_since(txn, read.view.info, read.values, read.window)
    return since_of(txn, read.view.info, entries)


def entries_of(txn: LeafTransaction, route: ViewRoute, names: Sequence[bytes]) -> list[bytes] | None:
    """Return the entries of these names; None if one is missing, or the view is building."""
    if route.info.building:
        return None
    found = list(map(txn.get, names))
    return cast(list[bytes], found) if all(found) else None


def rows_of(
    txn: LeafTransaction, route: ViewRoute, names: Sequence[bytes], entries: Sequence[bytes], at_once: AtOnce
) -> list[bytes]:
    """Return the rows of whole keys, without the brackets. Raises NotCoveredError."""
    info, bare, cut = route.info, route.bare, route.cut

    def rows_behind_it(name: bytes, entry: bytes) -> bytes:
        if not cut:
            at_once.take(entry)
        return rows_in(txn, info, name, entry)[0]

    return [
        # An entry without rows ends where the row would begin.
        entry[ENTRY_BYTES:]
        if bare and (entry[0] == INLINE or entry[COUNT_SLICE] == _NO_ROWS)
        else rows_behind_it(name, entry)
        for name, entry in zip(names, entries, strict=True)
    ]


def _are_objects(given: Any) -> TypeGuard[list[dict[str, Any]]]:
    return type(given) is list and set(map(type, given)) <= _OBJECTS


def _item(read: dict[str, Any]) -> Item | None:
    """Return one read of the body; None if it does not have the documented form."""
    view, params, limit, after = read.get("view"), read.get("params", {}), read.get("limit"), read.get("after")
    if type(view) is not str or type(params) is not dict or not read.keys() <= _FIELDS:
        return None
    if type(limit) not in _LIMITS or type(after) not in _AFTERS or not _is_exact(params):
        return None
    return Item(view, params, limit, after)


def _is_exact(params: Mapping[str, Any]) -> bool:
    return all(
        type(value) in _EXACT or (type(value) is list and set(map(type, value)) <= _EXACT) for value in params.values()
    )


def results_of(rows: Sequence[bytes]) -> bytes:
    """Return the joined results of several keys from their rows without brackets."""
    return b"".join((_FIRST, _BETWEEN.join(rows), _LAST))
