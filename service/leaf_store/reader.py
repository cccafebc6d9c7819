"""Reads of the leaf store: any process, no locks, never a half commit.

Not here: the hot route's own reading of the common case (`service.http.hot`), which must agree with this one.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import lmdb

from dataflow.types import Key, ViewId
from service.leaf_store.answer import EMPTY_TAG, Answer, LeafState, Window
from service.leaf_store.catalog import LeafCatalog, ViewInfo, catalog_of, load_catalog
from service.leaf_store.layout import (
    CATALOG_KEY,
    COUNT_SLICE,
    ENTRY_BYTES,
    HASH_BYTES,
    HASH_SLICE,
    INLINE,
    META,
    META_KEY,
    PLAIN,
    content_hash,
    entry_key,
    split_special,
    view_head,
)
from service.leaf_store.paging import Place, read_token, write_token
from service.leaf_store.transaction import Transaction, begin

MAX_READERS = 512
#: A row with its place in the order and how many copies there are.
_Record = tuple[bytes, bytes, int]


class LeafReader:
    """Reads a leaf store that a `LeafWriter`, of this or another process, writes."""

    def __init__(self, environment: lmdb.Environment) -> None:
        self.environment = environment
        self._catalog = catalog_of(-1, [])

    @classmethod
    def open(cls, path: Path) -> "LeafReader":
        """Read-only, in a process of its own. FileNotFoundError while there is no store."""
        if not (path / "data.mdb").exists():
            raise FileNotFoundError(path)
        try:
            return cls(lmdb.open(str(path), readonly=True, create=False, max_readers=MAX_READERS, max_spare_txns=4))
        except lmdb.Error as reason:
            # The writer has created the file and not yet what is in it.
            raise FileNotFoundError(path) from reason

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()

    def begin(self) -> Transaction:
        """A read transaction; follows a map that the writer made larger."""
        try:
            return begin(self.environment)
        except lmdb.MapResizedError:
            self.environment.set_mapsize(0)
            return begin(self.environment)

    def state(self) -> LeafState | None:
        """The last commit's position and times; None before the first commit."""
        with self.begin() as txn:
            return self.state_in(txn)

    @staticmethod
    def state_in(txn: Transaction) -> LeafState | None:
        """As `state`, in a transaction."""
        record = txn.get(META_KEY)
        if record is None:
            return None
        position, at_ms, version = META.unpack_from(record)
        return LeafState(position, at_ms, record[META.size :].decode(), version)

    def catalog(self) -> LeafCatalog:
        """The views as of the last commit; empty before the first."""
        with self.begin() as txn:
            return self.catalog_in(txn, self.state_in(txn))

    def catalog_in(self, txn: Transaction, state: LeafState | None) -> LeafCatalog:
        """As `catalog`, in a transaction whose state is known. The same object as long as nothing changed."""
        if state is None:
            return catalog_of(-1, [])
        if state.catalog_version != self._catalog.version:
            self._catalog = load_catalog(state.catalog_version, txn.get(CATALOG_KEY) or b"[]")
        return self._catalog

    def read(self, keys: Sequence[tuple[ViewId, Key, Window | None]]) -> tuple[list[Answer | None], LeafState | None]:
        """The answers to all keys, in one transaction: all exact at the state's position. None: a hole, or no view.

        The state is None before the first commit. ValueError: a window's token is not one.
        """
        with self.begin() as txn:
            state = self.state_in(txn)
            views = self.catalog_in(txn, state).by_id
            return [
                None if (info := views.get(view)) is None else answer_in(txn, info, key, window)
                for view, key, window in keys
            ], state


def answer_in(txn: Transaction, info: ViewInfo, key: Key, window: Window | None) -> Answer | None:
    """The answer to one key; None: a hole."""
    if None in key:
        return null_answer(info)
    head = view_head(info.id)
    name = entry_key(head, key)
    entry = txn.get(name)
    if entry is None:
        if txn.get(head) is None:
            return None
        if info.null_rows != "[]":
            # An aggregate without GROUP BY has a row also for a key that no row of its input has.
            return null_answer(info)
        return page_of((), info, Window()) if info.cut or window else Answer(b"[]", EMPTY_TAG)
    if window is None:
        rows, tag = rows_in(txn, info, name, entry)
        return Answer(b"[" + rows + b"]", tag.hex())
    start = None if window.after is None else read_token(window.after)
    return page_of(_records(txn, name, entry, start), info, window, start)


def null_answer(info: ViewInfo) -> Answer:
    """The answer when nothing can be equal to the key: a parameter is NULL, or no row of a full view has it."""
    rows = info.null_rows.encode()
    # The tag that an entry with this one row would have.
    return Answer(rows, EMPTY_TAG if rows == b"[]" and not info.cut else content_hash(rows[1:-1]).hex())


def answer_of(bag: Sequence[_Record], info: ViewInfo, window: Window | None) -> Answer:
    """The answer that the leaf store would give if it held these rows under a key."""
    if window is None and not info.cut:
        digest = sum(copies * int.from_bytes(suffix[-HASH_BYTES:], "big") for suffix, _, copies in bag)
        tag = (digest % (1 << 8 * HASH_BYTES)).to_bytes(HASH_BYTES, "big")
        return Answer(b"[" + b",".join(_copies(bag)) + b"]", tag.hex())
    window = window or Window()
    start = None if window.after is None else read_token(window.after)
    records = bag if start is None else [record for record in bag if record[0] >= start.suffix]
    return page_of(records, info, window, start)


def rows_in(txn: Transaction, info: ViewInfo, name: bytes, entry: bytes) -> tuple[bytes, bytes]:
    """All rows that a read without a window answers, without the brackets, and the tag's bytes."""
    kind = entry[0]
    if not info.cut:
        if kind == INLINE:
            return entry[ENTRY_BYTES : ENTRY_BYTES + _count(entry)], entry[HASH_SLICE]
        values = _plain_values(txn, name, entry) if kind == PLAIN else _copies(_records(txn, name, entry))
        return b",".join(values), entry[HASH_SLICE]
    values = _plain_values(txn, name, entry) if kind == PLAIN else _copies(_records(txn, name, entry))
    end = None if info.limit_rows is None else info.offset_rows + info.limit_rows
    rows = b",".join(islice(values, info.offset_rows, end))
    return rows, content_hash(rows)


def page_of(records: Iterable[_Record], info: ViewInfo, window: Window, start: Place | None = None) -> Answer:
    """The page of `records` (in order; from the one of `start` on, if there is one) that `window` asks for."""
    skip = info.offset_rows if start is None else 0
    rank = 0 if start is None else start.rank
    left = None if info.limit_rows is None else max(0, info.limit_rows - rank)
    wanted = left if window.limit_rows is None else window.limit_rows if left is None else min(left, window.limit_rows)
    page: list[bytes] = []
    last: Place | None = None
    for suffix, json, copies in records:
        first = start.copy if start is not None and start.suffix == suffix else 0
        for copy in range(first, copies):
            if skip:
                skip -= 1
                continue
            if len(page) == wanted:
                more = last is not None and wanted != left
                return _page(page, write_token(last) if more and last is not None else None)
            page.append(json)
            last = Place(rank + len(page), copy + 1, suffix)
    return _page(page, None)


def _page(page: list[bytes], token: str | None) -> Answer:
    rows = b",".join(page)
    tagged = rows if token is None else rows + b"\0" + token.encode()
    return Answer(b"[" + rows + b"]", content_hash(tagged).hex(), token)


def _count(entry: bytes) -> int:
    return int.from_bytes(entry[COUNT_SLICE], "big")


def _plain_values(txn: Transaction, name: bytes, entry: bytes) -> Iterator[bytes]:
    cursor = txn.cursor()
    cursor.set_key(name)
    values = cursor.iternext(keys=False, values=True)
    next(values)
    return islice(values, _count(entry))


def _copies(records: Iterable[_Record]) -> Iterator[bytes]:
    for _, json, copies in records:
        for _ in range(copies):
            yield json


def _records(txn: Transaction, name: bytes, entry: bytes, start: Place | None = None) -> Iterable[_Record]:
    """The distinct rows of a key in order, from the one of `start` on."""
    if entry[0] == INLINE:
        end = ENTRY_BYTES + _count(entry)
        records: Iterable[_Record] = [(entry[end:] + entry[HASH_SLICE], entry[ENTRY_BYTES:end], 1)]
    elif entry[0] == PLAIN:
        return _plain_records(txn, name, b"" if start is None else start.suffix)
    else:
        records = _special_records(txn, name, entry)
    return records if start is None else [record for record in records if record[0] >= start.suffix]


def _plain_records(txn: Transaction, name: bytes, suffix: bytes) -> Iterator[_Record]:
    with txn.cursor() as cursor:
        # Behind the entry itself, or at the first suffix that is not before this one.
        found = cursor.set_range(name + (suffix or b"\0"))
        while found:
            key, value = cursor.item()
            if not key.startswith(name):
                return
            yield key[len(name) :], value, 1
            found = cursor.next()


def _special_records(txn: Transaction, name: bytes, entry: bytes) -> list[_Record]:
    """All rows, sorted here: a suffix that was cut does not sort right in the tree."""
    records = []
    with txn.cursor() as cursor:
        cursor.set_key(name)
        for _ in range(_count(entry)):
            cursor.next()
            key, value = cursor.item()
            if value[:1] == b"{":
                records.append((key[len(name) :], value, 1))
            else:
                copies, suffix, json = split_special(value)
                records.append((suffix or key[len(name) :], json, copies))
    return sorted(records)
