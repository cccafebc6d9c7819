"""What the leaf store has, copied out of one read transaction: of each key its rows, and what to ask the upstream for.

A read transaction keeps the pages of its time from reuse, so the store grows for as long as it is open: keys and rows
go to a file at once, and are compared later.

*Invariants*: what is copied is one commit's; a key that cannot be asked for is counted with the reason.

Not here: asking (`job`), comparing (`comparison`).
"""

import marshal
from collections.abc import Iterable, Iterator
from random import Random
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, NamedTuple

from dataflow.types import Key, ViewId
from service.engine.audit.messages import Audited, ViewResult
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

#: How long copying may take.
COPY_S = 20.0
#: Entries between two looks at the clock.
_LOOK = 256
_WITHIN = "the key's rows are picked by further parameters"
_RANGES = "only ranges of the key's rows are read"
_LATER = "of the key only later rows are kept"
_HASHED = "the key is too long, or has a NULL: the store does not say it"
_LATE = "copying the leaf store took too long"
#: The only key of a view without parameters.
_ALL: Key = ()


class CopiedKey(NamedTuple):
    """A cached key: the values to ask the upstream with, and its rows as readers see them, as JSON.

    `prefix`: the key goes on behind them.
    """

    view: int
    key: Key
    values: Values
    rows: list[bytes]
    prefix: bool


class Picture:
    """The copy: a file that nobody else sees."""

    def __init__(self) -> None:
        self._file: IO[bytes] = TemporaryFile()  # noqa: SIM115  (`close`)
        self.keys = 0

    def add(self, stored: CopiedKey) -> None:
        """One more key."""
        marshal.dump(tuple(stored), self._file)
        self.keys += 1

    def __iter__(self) -> Iterator[CopiedKey]:
        self._file.seek(0)
        for _ in range(self.keys):
            yield CopiedKey(*marshal.load(self._file))

    def close(self) -> None:
        """The file is gone."""
        self._file.close()


def copy(
    txn: LeafTransaction,
    infos: dict[ViewId, ViewInfo],
    views: Iterable[Audited],
    results: dict[ViewId, ViewResult],
    sample: int | None,
    random: Random,
) -> Picture:
    """The cached keys of these views."""
    picture = Picture()
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
    """Names of entries, with what they say; None of the one key of a view that is kept whole and has no rows."""
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
    """Of a view's entries; rows are behind them."""
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
    """The key, or why it cannot be compared."""
    if is_hashed(name):
        return _HASHED
    key = key_in(name) if _key_parts(info) else _ALL
    if entry is None:
        # Kept whole, and nothing there.
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
    """How many values a key has."""
    if info.refreshed:
        return len(info.parameters)
    return (
        sum(parameter.role in (ParameterRole.EQUAL, ParameterRole.LIST) for parameter in info.parameters) - info.within
    )


def _cut(entry: bytes) -> tuple[Places, bool] | str:
    """Which of the key's rows are looked at, and whether more follow them."""
    if entry[0] != PART:
        return (b"", None), False
    start, end = load_places(entry)[0]
    return _LATER if start else ((start, end), end is not None)


def _values(info: ViewInfo, key: Key, rows: int, prefix: bool) -> Values | str:
    """What a reader would ask with to get these rows, or why nobody can."""
    if info.refreshed:
        return key
    if info.within:
        return _WITHIN
    of_key = iter(key)
    values: list[str | tuple[str | None, ...] | None] = []
    for parameter in info.parameters:
        match parameter.role:
            case ParameterRole.EQUAL:
                values.append(next(of_key))
            case ParameterRole.LIST:
                values.append((next(of_key),))
            case ParameterRole.LIMIT:
                # One more than there are, so that one that is missing shows.
                values.append(str(rows if prefix else rows + 1))
            case ParameterRole.OFFSET:
                values.append("0")
            case _:
                return _RANGES
    return tuple(values)


__all__ = ["CopiedKey", "Picture", "copy"]
