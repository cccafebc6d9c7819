"""Reads of the leaf store: in any process, without locks, of complete commits only.

A stored answer is read in four places, which must agree: here, `service.worker.routes.hot` (one key),
`service.worker.routes.batch_hits` (many keys) and `service.worker.shards.hits` (keys of several shards).
In `tests/service/worker/`, `test_reads.py` compares the second with this module, `test_batch_route.py` the third;
`shards/test_router.py` checks the answers of the fourth.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from itertools import islice
from pathlib import Path

import lmdb

from dataflow.errors import EvaluationError
from dataflow.plan.parts import WHOLE
from dataflow.types import Key, ViewId
from service.leaf_store.answer import EMPTY_TAG, LeafState, PageWindow, StoredAnswer
from service.leaf_store.catalog import LeafCatalog, ViewInfo, catalog_of, load_catalog
from service.leaf_store.collations import LoadedCollations
from service.leaf_store.encoder import answer_suffix
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
    ROWS_SLICE,
    Places,
    Record,
    content_hash,
    entry_key,
)
from service.leaf_store.pages import Place, page_bounds, page_of, read_token
from service.leaf_store.read_ahead import NOTHING, Ahead
from service.leaf_store.request import LeafRequest, Values, check_of, names_of, picked_places, request_of
from service.leaf_store.scan import NotCoveredError, covered_rows, picked_rows
from service.leaf_store.transaction import LeafTransaction, begin

MAX_READERS = 512


class LeafReader:
    """Reads a leaf store that a `LeafWriter` of this or another process writes."""

    def __init__(self, environment: lmdb.Environment) -> None:
        self.environment = environment
        self._catalog = catalog_of(-1, [])
        self._collations = LoadedCollations()

    @classmethod
    def open(cls, path: Path) -> "LeafReader":
        """Open read-only, in another process than the writer's. Raises FileNotFoundError if there is no store yet."""
        if not (path / "data.mdb").exists():
            raise FileNotFoundError(path)
        try:
            return cls(lmdb.open(str(path), readonly=True, create=False, max_readers=MAX_READERS, max_spare_txns=4))
        except lmdb.Error as reason:
            # The writer has created the file but not its contents.
            raise FileNotFoundError(path) from reason

    def close(self) -> None:
        self.environment.close()

    def begin(self) -> LeafTransaction:
        """Begin a read transaction; follow a map that the writer has enlarged."""
        try:
            return begin(self.environment)
        except lmdb.MapResizedError:
            self.environment.set_mapsize(0)
            return begin(self.environment)

    def state(self) -> LeafState | None:
        """Return the last commit's position and times; None before the first commit."""
        with self.begin() as txn:
            return self.state_in(txn)

    @staticmethod
    def state_in(txn: LeafTransaction) -> LeafState | None:
        record = txn.get(META_KEY)
        return None if record is None else LeafReader.parse_state(record)

    @staticmethod
    def parse_state(record: bytes) -> LeafState:
        """Return the state of a meta record."""
        position, at_ms, version, one_by_one = META.unpack_from(record)
        return LeafState(position, at_ms, record[META.size :].decode(), version, one_by_one)

    def catalog(self) -> LeafCatalog:
        """Return the views of the last commit; none before the first."""
        with self.begin() as txn:
            return self.catalog_in(txn, self.state_in(txn))

    def catalog_in(self, txn: LeafTransaction, state: LeafState | None, key: bytes = CATALOG_KEY) -> LeafCatalog:
        """Do as `catalog`, with a known state. Returns the same object until the catalog changes."""
        if state is None:
            return catalog_of(-1, [])
        if state.catalog_version != self._catalog.version:
            record = txn.get(key)
            self._catalog = (
                catalog_of(state.catalog_version, [], known=False)
                if record is None
                else load_catalog(state.catalog_version, record, lambda digest: self._collations.find(txn, digest))
            )
        return self._catalog

    def read(
        self, reads: Sequence[tuple[ViewId, Values, PageWindow | None]], ahead: Ahead = NOTHING
    ) -> tuple[list[StoredAnswer | None], LeafState | None]:
        """Return the answers of all reads in one transaction: all are exact at the state's position. None: a hole,
        or no view. `ahead`: rows that were read already.

        The state is None before the first commit. Raises ValueError if a page's token does not belong to its read.
        """
        with self.begin() as txn:
            state = self.state_in(txn)
            views = self.catalog_in(txn, state).by_id
            return [
                None if (info := views.get(view)) is None else answer_in(txn, info, values, window, ahead)
                for view, values, window in reads
            ], state

    def rows_stored(self, info: ViewInfo, key: Key) -> int:
        """Return the number of rows stored under a key."""
        with self.begin() as txn:
            entry = txn.get(entry_key(info.head, key))
        return 0 if entry is None else int.from_bytes(entry[ROWS_SLICE], "big")


def answer_in(
    txn: LeafTransaction, info: ViewInfo, values: Values, window: PageWindow | None, ahead: Ahead = NOTHING
) -> StoredAnswer | None:
    """Return the answer of one read; None: part of it is not covered, the database would fail to compute it, or the
    view is building."""
    if info.building:
        return None
    try:
        if window is None and info.whole:
            names = names_of(info, values)
            if not names:
                return None if info.null_rows is None else null_answer(info)
            return (_whole_answer if info.one_key else _joined_answer)(txn, info, names, ahead)
        request = request_of(info, values, window)
        if not request.keys:
            return None if info.null_rows is None else null_answer(info)
        if request.picked:
            return _picked_answer(txn, info, request)
        check, start = _start(info, values, window)
        return page_of(_records(txn, info, request, start), request, start, check)
    except (NotCoveredError, EvaluationError):
        return None


def _whole_answer(txn: LeafTransaction, info: ViewInfo, names: Sequence[bytes], ahead: Ahead) -> StoredAnswer | None:
    """Return the view's complete answer for one key."""
    (name,) = names
    entry = txn.get(name)
    if entry is not None:
        rows, tag = rows_in(txn, info, name, entry, ahead)
        return StoredAnswer(b"[" + rows + b"]", tag.hex())
    if txn.get(info.head) is None:
        return None
    if info.null_rows is None:
        return StoredAnswer(b"[]", content_hash(b"").hex() if info.cut else EMPTY_TAG)
    # An aggregate without GROUP BY has a row even for a key without input rows.
    return null_answer(info)


def _joined_answer(txn: LeafTransaction, info: ViewInfo, names: Sequence[bytes], ahead: Ahead) -> StoredAnswer | None:
    """Return all rows of several keys, without an order; the tag is the sum of their tags."""
    found = [rows_in(txn, info, name, entry, ahead) for name in names if (entry := txn.get(name)) is not None]
    if len(found) < len(names) and txn.get(info.head) is None:
        return None
    tag = sum([int.from_bytes(tag, "big") for _, tag in found])
    return StoredAnswer(b"[" + b",".join([rows for rows, _ in found if rows]) + b"]", _tag(tag).hex())


def _picked_answer(txn: LeafTransaction, info: ViewInfo, request: LeafRequest) -> StoredAnswer | None:
    """Return the selected rows of some keys, without an order."""
    places = picked_places(info, request)
    found: list[Record] = []
    for key in request.keys:
        name = entry_key(info.head, key)
        entry = txn.get(name)
        if entry is not None:
            found += picked_rows(txn, name, entry, places)
        elif txn.get(info.head) is None:
            return None
    return _bag_answer(found)


def picked_in(txn: LeafTransaction, name: bytes, entry: bytes, place: bytes) -> tuple[bytes, bytes]:
    """Return the rows of a key at one place, without the brackets, and the tag's bytes. Raises NotCoveredError."""
    bag = list(picked_rows(txn, name, entry, [place]))
    return b",".join(_copies(bag)), _bag_tag(bag)


def _bag_answer(bag: Sequence[Record]) -> StoredAnswer:
    return StoredAnswer(b"[" + b",".join(_copies(bag)) + b"]", _bag_tag(bag).hex())


def _bag_tag(bag: Iterable[Record]) -> bytes:
    """Return the tag of rows without an order: the sum of their hashes, as for whole keys."""
    return _tag(sum([copies * int.from_bytes(suffix[-HASH_BYTES:], "big") for suffix, _, copies in bag]))


def _tag(digest: int) -> bytes:
    return (digest % (1 << 8 * HASH_BYTES)).to_bytes(HASH_BYTES, "big")


def null_answer(info: ViewInfo) -> StoredAnswer:
    """Return the answer if no row can match: a parameter is NULL, or a full view has no row of the key."""
    assert info.null_rows is not None
    rows = info.null_rows.encode()
    # The tag of an entry with this one row.
    return StoredAnswer(rows, EMPTY_TAG if rows == b"[]" and not info.cut else content_hash(rows[1:-1]).hex())


def answer_of(bag: Sequence[Record], info: ViewInfo, values: Values, window: PageWindow | None) -> StoredAnswer:
    """Return the answer of the leaf store if the read found these rows, after LIMIT and OFFSET."""
    if window is None and info.bag:
        return _bag_answer(bag)
    check, start = _start(info, values, window)
    records: Iterable[Record] = bag if info.direct or info.at_read else _resorted(bag)
    if start is not None:
        records = [record for record in records if record[0] >= start.suffix]
    request = replace(request_of(info, values, window), offset_rows=0)
    return page_of(records, request, start, check)


def rows_in(
    txn: LeafTransaction, info: ViewInfo, name: bytes, entry: bytes, ahead: Ahead = NOTHING
) -> tuple[bytes, bytes]:
    """Return all rows of a whole key's answer, without the brackets, and the tag's bytes. Raises NotCoveredError."""
    kind = entry[0]
    if not info.cut and kind == INLINE:
        return entry[ENTRY_BYTES : ENTRY_BYTES + _count(entry)], entry[HASH_SLICE]
    if not info.cut and name in ahead and ahead[name][0] == entry:
        return ahead[name][1], entry[HASH_SLICE]
    end = None if info.limit_rows is None else info.offset_rows + info.limit_rows
    if kind == PLAIN:
        values: Iterable[bytes] = _plain_values(txn, name, entry)
    else:
        values = _copies(covered_rows(txn, name, entry, all_wanted=end is None))
    if not info.cut:
        return b",".join(values), entry[HASH_SLICE]
    rows = b",".join(islice(values, info.offset_rows, end))
    return rows, content_hash(rows)


def _records(txn: LeafTransaction, info: ViewInfo, request: LeafRequest, start: Place | None) -> Iterable[Record]:
    """Return the rows of all keys of a request in the order of the answer, from the row of `start` on."""
    full = txn.get(info.head) is not None
    wanted = _places(info, request)
    all_wanted = not info.direct or page_bounds(request, start).rows is None
    if info.direct and start is not None:
        wanted = max(wanted[0], start.suffix), wanted[1]
    streams = []
    for key in request.keys:
        name = entry_key(info.head, key)
        entry = txn.get(name)
        if entry is not None:
            streams.append(covered_rows(txn, name, entry, wanted, all_wanted=all_wanted))
        elif not full:
            raise NotCoveredError
    if info.direct:
        return _filtered(streams[0] if len(streams) == 1 else merge(*streams), info, request)
    stored = (record for stream in streams for record in stream)
    if info.at_read is None:
        rows = _filtered(_resorted(stored), info, request)
    else:
        rows = info.computed.records(_filtered(stored, info, request))
    return rows if start is None else [row for row in rows if row[0] >= start.suffix]


def _filtered(records: Iterable[Record], info: ViewInfo, request: LeafRequest) -> Iterable[Record]:
    """Return the records, with suffixes in the order of the answer, that pass the filters."""
    if not request.filters:
        return records
    parts, filters = info.answer_ordering.columns_of_place, request.filters

    def passes(suffix: bytes) -> bool:
        columns = list(parts(suffix))[-len(filters) :]
        return all(low <= c and (high is None or c < high) for c, (low, high) in zip(columns, filters, strict=True))

    return (record for record in records if passes(record[0]))


def _start(info: ViewInfo, values: Values, window: PageWindow | None) -> tuple[bytes, Place | None]:
    """Return the check of this read's tokens, if it is for a page, and the place after which the page begins."""
    if window is None:
        return b"", None
    check = check_of(info, values)
    return check, None if window.after is None else read_token(window.after, check)


def _places(info: ViewInfo, request: LeafRequest) -> Places:
    if request.part == WHOLE:
        return b"", None
    ordering = info.ordering
    return ordering.place(request.part.start) or b"", ordering.place(request.part.end)


def _resorted(records: Iterable[Record]) -> list[Record]:
    """Return the records in the order of the answer, if it is not the store's."""
    return sorted([(answer_suffix(suffix), json, copies) for suffix, json, copies in records])


def _count(entry: bytes) -> int:
    return int.from_bytes(entry[COUNT_SLICE], "big")


def _plain_values(txn: LeafTransaction, name: bytes, entry: bytes) -> Iterable[bytes]:
    if not _count(entry):
        return ()
    cursor = txn.cursor()
    cursor.set_key(name)
    values = cursor.iternext(keys=False, values=True)
    next(values)
    return islice(values, _count(entry))


def _copies(records: Iterable[Record]) -> Iterator[bytes]:
    for _, json, copies in records:
        for _ in range(copies):
            yield json
