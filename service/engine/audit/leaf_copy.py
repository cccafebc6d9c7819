"""Copy of the leaf store from one read transaction: rows of each key, and its parameters for the upstream.

A read transaction prevents the reuse of old pages, so the store grows while it is open: keys and rows are written to a
file at once and compared later.

*Invariants*: the copy is of one commit; a key that cannot be queried is counted with the reason.

Not here: queries (`job`), comparison (`comparison`).
"""

import marshal
from collections.abc import Iterable, Iterator
from random import Random
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, NamedTuple

from dataflow.functions import arrays
from dataflow.types import Key, ViewId
from service.engine.audit.messages import ViewResult, ViewToAudit
from service.leaf_store.catalog import ParameterRole, ViewInfo
from service.leaf_store.encoder import answer_suffix
from service.leaf_store.layout import (
    COUNT_SLICE,
    INLINE,
    PART,
    Places,
    entry_key,
    is_hashed,
    key_in,
    load_places,
)
from service.leaf_store.reader import null_answer
from service.leaf_store.request import Values
from service.leaf_store.scan import covered_rows
from service.leaf_store.transaction import LeafTransaction

#: Time limit of copying.
COPY_S = 20.0
#: Entries between two checks of the time.
_LOOK = 256
_WITHIN = "further parameters select among the key's rows"
_CLOCK = "which of the key's rows are read depends on the current time"
_RANGES = "only ranges of the key's rows are read"
_LATER = "only later rows of the key are cached"
_HASHED = "the key is too long or contains a NULL, so the store has only its hash"
_LATE = "copying the leaf store took too long"
#: Only key of a view without parameters.
_ALL: Key = ()


class CopiedKey(NamedTuple):
    """Cached key: values of the upstream's parameters, and rows as readers see them, as JSON.

    `prefix`: the key has further parts after these values.
    """

    view: int
    key: Key
    values: Values
    rows: list[bytes]
    prefix: bool


class LeafCopy:
    """Copy in an unnamed file."""

    def __init__(self) -> None:
        self._file: IO[bytes] = TemporaryFile()  # noqa: SIM115  (`close`)
        self.keys = 0

    def add(self, stored: CopiedKey) -> None:
        marshal.dump(tuple(stored), self._file)
        self.keys += 1

    def __iter__(self) -> Iterator[CopiedKey]:
        self._file.seek(0)
        for _ in range(self.keys):
            yield CopiedKey(*marshal.load(self._file))

    def close(self) -> None:
        self._file.close()


def copy(
    txn: LeafTransaction,
    infos: dict[ViewId, ViewInfo],
    views: Iterable[ViewToAudit],
    results: dict[ViewId, ViewResult],
    sample: int | None,
    random: Random,
) -> LeafCopy:
    """Copies the cached keys of these views."""
    picture = LeafCopy()
    until = monotonic() + COPY_S
    for view in views:
        info, result = infos.get(view.id), results[view.id]
        if info is None or info.status != "ready":
            result.skip("the view is not ready" if info is None else f"the view is {info.status}", 0)
            continue
        for name, entry in _entries(txn, info, result, sample, random, until):
            stored = _stored(txn, info, name, entry)
            if isinstance(stored, str):
                result.skip(stored)
            else:
                picture.add(stored)
    return picture


def _entries(
    txn: LeafTransaction, info: ViewInfo, result: ViewResult, sample: int | None, random: Random, until: float
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yields names of entries with their contents; None for the one key of a fully materialized view without rows."""
    names: list[bytes] = []
    for name in _names(txn, info.head):
        result.keys += 1
        if sample is None or len(names) < sample:
            names.append(name)
        elif (place := random.randrange(result.keys)) < sample:
            names[place] = name
    if not names and not _key_parts(info) and txn.get(info.head) is not None:
        result.keys += 1
        yield entry_key(info.head, _ALL), None
    if len(names) < result.keys and names:
        result.skip("not in the sample", result.keys - len(names))
    for number, name in enumerate(names):
        if number % _LOOK == 0 and monotonic() > until:
            result.skip(_LATE, len(names) - number)
            return
        yield name, txn.get(name)


def _names(txn: LeafTransaction, head: bytes) -> Iterator[bytes]:
    """Yields the names of a view's entries, which are followed by their rows."""
    with txn.cursor() as cursor:
        found = cursor.set_range(head)
        while found:
            key, value = cursor.item()
            if not key.startswith(head):
                return
            found = cursor.next()
            if len(key) == len(head):
                continue
            yield key
            for _ in range(0 if value[0] == INLINE else int.from_bytes(value[COUNT_SLICE], "big")):
                found = cursor.next()


def _stored(txn: LeafTransaction, info: ViewInfo, name: bytes, entry: bytes | None) -> CopiedKey | str:
    """Returns the key, or why it cannot be compared."""
    if is_hashed(name):
        return _HASHED
    key = key_in(name) if _key_parts(info) else _ALL
    if entry is None:
        # Fully materialized, without rows.
        rows = [null_answer(info).rows[1:-1]] if info.null_rows not in (None, "[]") else []
        values = _values(info, key, len(rows), prefix=False)
        return values if isinstance(values, str) else CopiedKey(info.id, key, values, rows, prefix=False)
    cut = _cut(entry)
    if isinstance(cut, str):
        return cut
    places, prefix = cut
    records = list(covered_rows(txn, name, entry, places))
    if not info.direct:
        if prefix:
            return _LATER
        records = sorted((answer_suffix(suffix), json, copies) for suffix, json, copies in records)
    rows = [json for _, json, copies in records for _ in range(copies)]
    values = _values(info, key, len(rows), prefix)
    if isinstance(values, str):
        return values
    end = None if info.limit_rows is None else info.offset_rows + info.limit_rows
    if end is not None and len(rows) >= end:
        prefix = False
    return CopiedKey(info.id, key, values, rows[info.offset_rows : end], prefix)


def _key_parts(info: ViewInfo) -> int:
    """Number of values in a key."""
    if info.refreshed:
        return len(info.parameters)
    equal = sum(parameter.role in (ParameterRole.EQUAL, ParameterRole.LIST) for parameter in info.parameters)
    return len(info.clock_keys) + equal - info.within


def _cut(entry: bytes) -> tuple[Places, bool] | str:
    """Returns which of the key's rows are covered, and whether others follow."""
    if entry[0] != PART:
        return (b"", None), False
    start, end = load_places(entry)[0]
    return _LATER if start else ((start, end), end is not None)


def _values(info: ViewInfo, key: Key, rows: int, prefix: bool) -> Values | str:
    """Returns the parameter values that select these rows, or why there are none."""
    if info.refreshed:
        return key
    if info.within:
        return _WITHIN
    if info.timed:
        return _CLOCK
    of_key = iter(key)
    values: list[str | tuple[str | None, ...] | None] = []
    for parameter in info.parameters:
        match parameter.role:
            case ParameterRole.EQUAL:
                values.append(next(of_key))
            case ParameterRole.LIST:
                value = next(of_key)
                values.append(tuple(arrays.flat(value)) if parameter.whole and value is not None else (value,))
            case ParameterRole.LIMIT:
                # One row more, so that a missing one is detected.
                values.append(str(rows if prefix else rows + 1))
            case ParameterRole.OFFSET:
                values.append("0")
            case _:
                return _RANGES
    return tuple(values)


__all__ = ["CopiedKey", "LeafCopy", "copy"]
