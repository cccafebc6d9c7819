"""Writer of the leaf store, in the engine process.

*Invariants*: one LMDB commit carries all effects of a step with their position and catalog; a commit that fails
leaves readers, and the byte counts, at the previous one. Nothing is synced: the store lives in shared memory and a
cold start rebuilds it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import lmdb

from dataflow.collations import Collation
from dataflow.engine.effects import LeafDrop, LeafEffect
from dataflow.plan.nodes import View
from dataflow.types import Key, Position, Row, ViewId
from service.leaf_store.answer import PageWindow, StoredAnswer
from service.leaf_store.catalog import INCOMPLETE, ViewInfo, collations_of, describe, dump_view, join_catalog
from service.leaf_store.collations import StoredCollations
from service.leaf_store.commit import Commit, StoredRecords
from service.leaf_store.encoder import ViewEncoder
from service.leaf_store.layout import (
    CATALOG_KEY,
    DOUBT_KEY,
    HEAD_BYTES,
    LAST_ID,
    LAST_ID_KEY,
    META,
    META_KEY,
    view_head,
)
from service.leaf_store.previous import PreviousReader, delete_some, evict_also, set_aside, withdraw
from service.leaf_store.reader import MAX_READERS, LeafReader, answer_of
from service.leaf_store.request import Values
from service.leaf_store.reserve import Reserve
from service.leaf_store.serving_options import SERVING, Serving
from service.leaf_store.transaction import LeafTransaction, begin, clear

#: Commits between checks for slots of dead readers, whose old pages cannot be reused.
_COMMITS_PER_READER_CHECK = 4096
#: Statuses of views of which nothing older may be answered any more.
_UNSURE = frozenset({"outdated", "quarantined", "broken"})
_T = TypeVar("_T")


class _ViewRecord(NamedTuple):
    """A view's part of the catalog, the view that it was written from, and its collations by digest."""

    info: ViewInfo
    body: bytes
    collations: tuple[tuple[str, Collation], ...]


class LeafWriter:
    """Applies a step's leaf effects as one LMDB commit.

    Order of calls for a view: `register` (before the first effect that names it), any number of commits, a `LeafDrop`.
    `register`, `publish` and `set_status` become visible to readers with the next `commit`.

    *Maintains*: `_encoders` and `_views` have the same views: the registered ones. `_records` has some of them, each
    with what it was written from.
    """

    def __init__(self, path: Path, map_bytes: int = 1 << 30) -> None:
        """Open or create the store in directory `path`. `map_bytes` is the map's initial size; it grows as needed."""
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._environment = lmdb.open(
            str(path),
            map_size=map_bytes,
            sync=False,
            metasync=False,
            writemap=True,
            max_readers=MAX_READERS,
            max_spare_txns=4,
        )
        self._environment.reader_check()
        self._reserve = Reserve(path / "data.mdb")
        self._reader = LeafReader(self._environment)
        self._previous = PreviousReader(self._environment)
        self._collations = StoredCollations()
        self._encoders: dict[ViewId, ViewEncoder] = {}
        self._views: dict[ViewId, ViewInfo] = {}
        self._records: dict[ViewId, _ViewRecord] = {}
        self._bytes: defaultdict[ViewId, int] = defaultdict(int)
        #: Views with a row that cannot be encoded; they have no records until they are dropped.
        self._failed: dict[ViewId, Exception] = {}
        state = self._reader.state()
        self._catalog_version = 0 if state is None else state.catalog_version
        self._epoch = "" if state is None else state.epoch
        self._one_by_one = 0 if state is None else state.one_by_one
        #: Position and time of the last commit since the last `reset`.
        self._last = None if state is None else (state.position, state.at_ms)
        #: True while readers have what was stored before `reset`; and whether it is set aside then.
        self._outdated = self._sets_aside = False
        #: True while records of the session before are in the store: of views with ids below `_first_id`. Whether they
        #: are withdrawn with the next commit.
        self.has_previous = self._withdraws = False
        self._first_id = ViewId(0)
        # A discarded store leaves no last id, but it may still have readers.
        self._last_id = max(self._stored_id(), int(time.time()))
        self._catalog_changed = True
        self._catalog_held = False
        self._commits = 0
        #: Partly covered keys with many rows that the last commit changed, and their numbers of rows.
        self.large_parts: dict[tuple[ViewId, Key], int] = {}

    @property
    def reader(self) -> LeafReader:
        """The reader of this process (LMDB allows one open environment a process). It sees the last commit."""
        return self._reader

    @property
    def epoch(self) -> str:
        """The epoch of the next commit."""
        return self._epoch

    def new_id(self) -> ViewId:
        """Return an id that no view of this store ever had, in any process: readers may still hold old ids."""
        self._last_id += 1
        return ViewId(self._last_id)

    def _stored_id(self) -> int:
        with self._environment.begin() as txn:
            record = txn.get(LAST_ID_KEY)
        return 0 if record is None else int(LAST_ID.unpack(record)[0])

    def reset(self, epoch: str, *, aside: bool = False) -> None:
        """Discard views, rows and position; readers have them until the next commit, which replaces all at once.
        `epoch` names the new epoch. `aside`: the commit sets them aside, unless something is aside already."""
        self._last, self._outdated = None, True
        self._sets_aside, self._withdraws = aside, False
        self._first_id = ViewId(self._last_id + 1)
        self._collations.reset()
        self._encoders.clear()
        self._views.clear()
        self._records.clear()
        self._bytes.clear()
        self._failed.clear()
        self.large_parts = {}
        self._epoch = epoch
        # Positions of another server may be lower.
        self._one_by_one = 0
        self._catalog_changed = True
        self._catalog_held = False

    def hold_catalog(self) -> None:
        """Leave readers with the views of the last catalog until `reset`, whatever is registered."""
        self._catalog_held = True

    @contextmanager
    def catalog_held(self) -> Iterator[None]:
        """Publish the views that are registered in the block together, at its end: until then readers have the last
        catalog, and after `reset` all that was stored, unless the block commits effects. A commit must have been made
        by the end."""
        self._catalog_held = True
        try:
            yield
        finally:
            self._catalog_held = False
            self.commit_catalog()

    def commit_catalog(self, *drops: LeafDrop) -> None:
        """Publish changes of the catalog at the position of the last commit; before the first, there are no readers."""
        if self._last is not None:
            self.commit(drops, *self._last)

    def set_epoch(self, epoch: str) -> None:
        """Set a new epoch from the next commit on, whose effects evict all keys of the old one."""
        self._epoch = epoch

    def register(
        self,
        view: ViewId,
        plan: View,
        *,
        status: str = "ready",
        listed: bool = True,
        refreshed: bool = False,
        serving: Serving = SERVING,
        never_null: Collection[int] = (),
        meaning: str = "",
    ) -> None:
        """Register `view`. Unless `listed`, its name denotes the previous view until `publish(view)`.

        `refreshed`: fills are answers of the upstream; a key has all parameters as given, NULL is like any other
        value, and a list is the text of an array.
        """
        self._encoders[view] = ViewEncoder(view, plan, refreshed, serving.bigint_text)
        null_rows, rows = None, plan.answer.rows_for_null
        if rows is not None:
            encoder = ViewEncoder(view, plan.answer, refreshed, serving.bigint_text)
            null_rows = f"[{b','.join([encoder.encode(row)[1] for row in rows]).decode()}]"
        info = describe(view, plan, null_rows, status, listed, refreshed, serving, never_null)
        self._views[view] = replace(info, meaning=meaning)
        self._catalog_changed = True

    def set_never_null(self, view: ViewId, never_null: Collection[int]) -> None:
        """Set which output columns are never NULL, from the next commit on."""
        info = self._views[view]
        columns = tuple(replace(c, nullable=number not in never_null) for number, c in enumerate(info.columns))
        if columns != info.columns:
            self._views[view] = replace(info, columns=columns)
            self._catalog_changed = True

    def publish(self, view: ViewId) -> None:
        """Let the name of `view` denote it from the next commit on (a replacement that is ready)."""
        self.withdraw_previous()
        name = self._views[view].name
        for other, info in self._views.items():
            if info.name == name:
                self._views[other] = replace(info, listed=other == view)
        self._catalog_changed = True

    def set_status(self, view: ViewId, status: str, reason: str | None = None) -> None:
        """Set the status (`ViewInfo.status`), from the next commit on."""
        if status in _UNSURE or (status in INCOMPLETE and self._views[view].status not in INCOMPLETE):
            # Readers of a view that is loaded again had newer answers.
            self.withdraw_previous()
        self._views[view] = replace(self._views[view], status=status, reason=reason)
        self._catalog_changed = True

    def withdraw_previous(self) -> None:
        """Have no read use the records of the session before, from the next commit on."""
        self._withdraws = self._withdraws or (self.has_previous and not self._catalog_held)

    @property
    def uses_previous(self) -> bool:
        """True while reads may use the records of the session before."""
        with self._reader.begin() as txn:
            return self._previous.find(txn) is not None

    def delete_previous(self, most: int) -> None:
        """Delete some records of the session before, at once; `has_previous` says if there are more."""

        def write(txn: LeafTransaction) -> int:
            withdraw(txn)
            return delete_some(txn, self._first_id, most)

        self.has_previous = self._written(write) == most
        if not self.has_previous:
            # The old one keeps the catalog that it found.
            self._previous = PreviousReader(self._environment)

    def doubt(self) -> None:
        """Note that what is stored may be wrong: no process sets it aside then."""
        self._written(lambda txn: txn.put(DOUBT_KEY, b""))

    def _written(self, write: Callable[[LeafTransaction], _T]) -> _T:
        """Commit what `write` writes, with as much memory as it needs."""
        self._reserve.keep(self.resident_bytes)
        while True:
            try:
                with begin(self._environment, write=True) as txn:
                    return write(txn)
            except lmdb.MapFullError:
                # The transaction is aborted as a whole. Readers follow the new size by themselves.
                self._environment.set_mapsize(2 * self._environment.info()["map_size"])

    @property
    def most_bytes(self) -> int:
        """Return the maximum bytes of contents for the file system's current room."""
        return self._reserve.contents_bytes

    def commit(
        self, effects: Iterable[LeafEffect | StoredRecords], position: Position, at_ms: int, *, together: bool = False
    ) -> dict[ViewId, Exception]:
        """Commit all effects in their order, with the position at which they are exact; effects may be empty.
        `together`: they come from several transactions. Returns the views that failed, which have no records from
        now on."""
        effects = list(effects)
        if self._outdated and self._catalog_held and not effects:
            self._last = (position, at_ms)
            return {}
        # Readers have the last catalog, whose views' records would get this commit's version.
        self._sets_aside = self._sets_aside and not self._catalog_held
        dropped = [effect.view for effect in effects if type(effect) is LeafDrop]
        views = [info for view, info in self._views.items() if view not in dropped]
        self._catalog_changed = self._catalog_changed or bool(dropped)
        changed = self._catalog_changed and not self._catalog_held
        version = self._catalog_version + changed
        one_by_one = position if together else self._one_by_one

        def write(txn: LeafTransaction) -> tuple[Commit, set[str]]:
            self._write_previous(txn, effects)
            commit = Commit(txn, self._encoders, position, self._failed)
            for effect in effects:
                commit.apply(effect)
            if commit.failed.keys() - self._failed.keys():
                # They have lost what they had.
                withdraw(txn)
            written: set[str] = set()
            if changed:
                records = [self._record(info) for info in views]
                written = self._collations.put(txn, dict(c for r in records for c in r.collations))
                txn.put(CATALOG_KEY, join_catalog(record.body for record in records))
                txn.put(LAST_ID_KEY, LAST_ID.pack(self._last_id))
            txn.put(META_KEY, META.pack(position, at_ms, version, one_by_one) + self._epoch.encode())
            return commit, written

        commit, written = self._written(write)
        self._collations.stored(written)
        self._catalog_version = version
        self._last, self._outdated, self._withdraws = (position, at_ms), False, False
        self._one_by_one = one_by_one
        self._catalog_changed = self._catalog_changed and not changed
        self.large_parts = {at: rows for at, rows in commit.large.items() if at[0] not in dropped}
        failed = {view: error for view, error in commit.failed.items() if view not in self._failed}
        self._failed = commit.failed
        self._settle(commit.grown, dropped)
        return failed

    def _write_previous(self, txn: LeafTransaction, effects: Sequence[LeafEffect | StoredRecords]) -> None:
        """Write what a commit does to the records of the session before: set them aside, or delete them, if it is the
        first of this one."""
        if self._outdated:
            self.has_previous = self._sets_aside and set_aside(txn)
            if not self.has_previous:
                clear(self._environment, txn)
            txn.put(LAST_ID_KEY, LAST_ID.pack(self._last_id))
        elif self._withdraws:
            withdraw(txn)
        if self.has_previous and (found := self._previous.find(txn)) is not None:
            evict_also(txn, found, self._views, effects)

    def _record(self, info: ViewInfo) -> _ViewRecord:
        """Return a view's part of the catalog, cached: a change of one view writes the parts of all."""
        known = self._records.get(info.id)
        if known is None or known.info is not info:
            digest = self._collations.digest
            collations = tuple((digest(collation), collation) for collation in collations_of(info))
            known = self._records[info.id] = _ViewRecord(info, dump_view(info, digest), collations)
        return known

    def _settle(self, grown: dict[ViewId, int], dropped: list[ViewId]) -> None:
        """Update the state after a successful commit."""
        for view, more in grown.items():
            self._bytes[view] += more
        for view in self._failed:
            self._bytes[view] = 0
        for view in dropped:
            del self._encoders[view], self._views[view]
            self._records.pop(view, None)
            self._bytes.pop(view, None)
            self._failed.pop(view, None)
        self._commits += 1
        if self._commits % _COMMITS_PER_READER_CHECK == 0:
            self._environment.reader_check()

    def render(
        self, view: ViewId, rows: Sequence[Row], values: Values, window: PageWindow | None = None
    ) -> StoredAnswer:
        """Return an answer from rows that the upstream computed (a fallback), not the leaf store.

        `rows` are of the relation of `View.answer`, in the order of the answer, after LIMIT and OFFSET; columns that
        readers do not see may be NULL. Raises ValueError if the page's token does not belong to this read.
        """
        info = self._views[view]
        encoder = self._encoders[view] if info.at_read is None else info.computed.encoder
        return answer_of(encoder.encode_answer(rows), info, values, window)

    def records(self, view: ViewId) -> Iterator[tuple[bytes, bytes]]:
        """Yield a view's records without its head, for `StoredRecords` of a store with the same `encoding` of it."""
        head = view_head(view)
        with begin(self._environment) as txn, txn.cursor() as cursor:
            if cursor.set_range(head):
                for key, value in cursor.iternext(keys=True, values=True):
                    if not key.startswith(head):
                        break
                    yield key[HEAD_BYTES:], value

    def encoding(self, view: ViewId) -> str:
        """Return what the bytes of a view's records depend on beside its plan."""
        encoder = self._encoders[view]
        return f"bigint_text={encoder.bigint_text}"

    def has(self, view: ViewId) -> bool:
        """Return whether a view is registered: it may be dropped while a request waits for its answer."""
        return view in self._views

    def info(self, view: ViewId) -> ViewInfo:
        return self._views[view]

    @property
    def total_bytes(self) -> int:
        """Return the bytes of keys, values and overhead of all views."""
        return sum(self._bytes.values())

    def bytes_by_view(self) -> Mapping[ViewId, int]:
        """Return the bytes of each view: a live mapping, not a copy."""
        return self._bytes

    @property
    def used_bytes(self) -> int:
        """Return the memory of the store's contents: whole pages, unused space in them included."""
        stat = self._environment.stat()
        return int(stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]))

    @property
    def resident_bytes(self) -> int:
        """Return the memory of all pages ever written: `used_bytes`, and free pages."""
        return int(self._environment.stat()["psize"] * (self._environment.info()["last_pgno"] + 1))

    @property
    def map_bytes(self) -> int:
        return int(self._environment.info()["map_size"])

    def close(self) -> None:
        self._reserve.close()
        self._environment.close()
