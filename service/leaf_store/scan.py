"""Scan of an entry's rows in the order of the store, within the covered part of its key.

Not here: pages (`pages`); whole answers in the plain case, which need no order (`reader`).
"""

from collections.abc import Iterable, Iterator, Sequence

from service.leaf_store.layout import (
    COUNT_SLICE,
    ENTRY_BYTES,
    HASH_BYTES,
    HASH_SLICE,
    INLINE,
    MAX_KEY_BYTES,
    PART,
    ROWS_SLICE,
    SPECIAL_SLICE,
    Places,
    Record,
    load_places,
    split_special,
)
from service.leaf_store.transaction import LeafTransaction

_EVERYTHING: Places = (b"", None)
_NO_COUNT = bytes(4)
#: Scanning this many rows is faster than finding one place.
_LOOK_THROUGH = 4
_BEHIND_HASHES = b"\xff" * (HASH_BYTES + 1)


class NotCoveredError(Exception):
    """The read needs rows beyond the covered part: a miss."""


def covered_rows(
    txn: LeafTransaction, name: bytes, entry: bytes, wanted: Places = _EVERYTHING, *, all_wanted: bool = True
) -> Iterator[Record]:
    """Return the rows from one place up to another. Raises NotCoveredError if coverage ends before that: at its end
    or, with `all_wanted`, immediately."""
    start, end = wanted
    if end is not None and end <= start:
        return
    if entry[0] != PART:
        yield from _rows(txn, name, entry, start, end)
        return
    for low, high in load_places(entry):
        if low <= start and (high is None or start < high):
            last = high is None or (end is not None and end <= high)
            if last or not all_wanted:
                yield from _rows(txn, name, entry, start, end if last else high)
            if last:
                return
    raise NotCoveredError


def picked_rows(txn: LeafTransaction, name: bytes, entry: bytes, places: Sequence[bytes]) -> Iterator[Record]:
    """Return the rows at some places; a repeated place is answered once."""
    rows = int.from_bytes(entry[ROWS_SLICE], "big")
    if not rows and entry[0] != PART:
        return
    if rows <= _LOOK_THROUGH * len(places):
        wanted = set(places)
        for record in covered_rows(txn, name, entry):
            if record[0][:-HASH_BYTES] in wanted:
                yield record
        return
    for place in sorted(set(places)):
        # A row's hash follows in its suffix: no hash is greater than this end.
        yield from covered_rows(txn, name, entry, (place, place + _BEHIND_HASHES))


def _rows(txn: LeafTransaction, name: bytes, entry: bytes, start: bytes, end: bytes | None) -> Iterable[Record]:
    if entry[0] == INLINE:
        json_end = ENTRY_BYTES + int.from_bytes(entry[COUNT_SLICE], "big")
        suffix = entry[json_end:] + entry[HASH_SLICE]
        inside = start <= suffix and (end is None or suffix < end)
        return [(suffix, entry[ENTRY_BYTES:json_end], 1)] if inside else []
    if entry[SPECIAL_SLICE] == _NO_COUNT:
        return _plain_rows(txn, name, start, end)
    return _special_rows(txn, name, start, end)


def _plain_rows(txn: LeafTransaction, name: bytes, start: bytes, end: bytes | None) -> Iterator[Record]:
    n = len(name)
    for key, value in _records(txn, name, start):
        suffix = key[n:]
        if end is not None and suffix >= end:
            return
        if suffix >= start:
            yield suffix, value, 1


def _special_rows(txn: LeafTransaction, name: bytes, start: bytes, end: bytes | None) -> Iterator[Record]:
    """Sort rows with cut suffixes: the tree orders them only by their first bytes."""
    n = len(name)
    kept = MAX_KEY_BYTES - n - HASH_BYTES
    group: list[Record] = []
    for key, value in _records(txn, name, start):
        if group and key[n : n + kept] != group[0][0][:kept]:
            yield from sorted(group)
            group = []
        row = _record(key[n:], value)
        if row[0] >= start and (end is None or row[0] < end):
            group.append(row)
        elif end is not None and key[n : n + kept] > end:
            break
    yield from sorted(group)


def _record(suffix: bytes, value: bytes) -> Record:
    if value[:1] == b"{":
        return suffix, value, 1
    copies, full, json = split_special(value)
    return full or suffix, json, copies


def _records(txn: LeafTransaction, name: bytes, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Return keys and values of an entry's rows in the order of the tree, from `start` or somewhat before it."""
    # Bytes that are never cut from a suffix. Without a start: after the entry itself.
    kept = start[: MAX_KEY_BYTES - len(name) - HASH_BYTES] or b"\0"
    with txn.cursor() as cursor:
        found = cursor.set_range(name + kept)
        while found:
            item = cursor.item()
            if not item[0].startswith(name):
                return
            yield item
            found = cursor.next()
