"""Answers of the session before, set aside for reads of what a new session has not stored yet.

*Theory*: what was stored stays exact at its version when a session ends; it only ages. A session that begins empty
would pass all reads to the database at once, so until it is warm, holes are answered as they were while the engine was
away: with the old version and its age. The records stay where they are, since no view's id is used twice; meta and
catalog get other keys.

*Invariants*: a read is answered from one session's records. Once a session has stored a key whole, no read of the key
alone goes back to the session before: if it is evicted, that session's entry is, too. Where that cannot be done, none
is used any more; nor once a view was dropped, replaced or planned again.

Not here: how long they are used (`service.engine.workload.until_warm`), which reads may use them
(`service.worker.reads.reads`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import lmdb

from dataflow.engine.effects import LeafDrop, LeafEvict, LeafForget
from dataflow.types import Key, ViewId
from service.leaf_store.answer import LeafState, PageWindow, StoredAnswer
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.layout import (
    CATALOG_KEY,
    DOUBT_KEY,
    META_KEY,
    PREVIOUS_CATALOG_KEY,
    PREVIOUS_META_KEY,
    VIEWS_HEAD,
    key_part,
    view_head,
)
from service.leaf_store.reader import LeafReader, answer_in
from service.leaf_store.request import Values
from service.leaf_store.transaction import LeafTransaction


@dataclass(frozen=True, slots=True)
class PreviousAnswers:
    """The last state of the session before, and its views by name."""

    state: LeafState
    views: dict[str, ViewInfo]

    def answers(
        self, txn: LeafTransaction, reads: Sequence[tuple[ViewInfo, Values, PageWindow | None]]
    ) -> list[StoredAnswer] | None:
        """Return the answers of all reads, exact at the state's position; None if one is a hole, or its view meant
        something else. Raises ValueError if a page's token does not belong to its read."""
        found = []
        for info, values, window in reads:
            before = self.views.get(info.name)
            if before is None or before.status != "ready" or not _is_same(before, info):
                return None
            answer = answer_in(txn, before, values, window)
            if answer is None:
                return None
            found.append(answer)
        return found

    def evict(self, txn: LeafTransaction, info: ViewInfo, key: Key) -> None:
        """Make a key a hole here, too. Its rows stay until all are deleted."""
        before = self.views.get(info.name)
        if before is None or not _is_same(before, info):
            return
        if txn.get(before.head) is not None:
            # A view that was kept whole has no holes.
            withdraw(txn)
        else:
            txn.delete(before.head + key_part(key))


def _is_same(before: ViewInfo, info: ViewInfo) -> bool:
    """Return whether reads of a view may have the records of another session. Those of a refreshed view do not say how
    old they are; answers that are computed at the read may be missing since they cannot be computed."""
    return (
        "" != before.meaning == info.meaning
        and before.definition == info.definition
        and not info.refreshed
        and info.at_read is None
    )


class PreviousReader:
    """Finds them in transactions of an environment. *State*: `_found`, made from `_record`."""

    def __init__(self, environment: lmdb.Environment) -> None:
        self._environment = environment
        self._record: bytes | None = None
        self._found: PreviousAnswers | None = None

    def find(self, txn: LeafTransaction) -> PreviousAnswers | None:
        record = txn.get(PREVIOUS_META_KEY)
        if record != self._record:
            self._record, self._found = record, None
            if record is not None:
                state = LeafReader.parse_state(record)
                catalog = LeafReader(self._environment).catalog_in(txn, state, PREVIOUS_CATALOG_KEY)
                self._found = PreviousAnswers(state, catalog.by_name)
        return self._found


def set_aside(txn: LeafTransaction) -> bool:
    """Set the store's contents aside; return False, without a change, if it has none, they may be wrong, or others are
    aside already."""
    meta, catalog = txn.get(META_KEY), txn.get(CATALOG_KEY)
    if meta is None or catalog is None or any(txn.get(key) is not None for key in (DOUBT_KEY, PREVIOUS_META_KEY)):
        return False
    txn.put(PREVIOUS_META_KEY, meta)
    txn.put(PREVIOUS_CATALOG_KEY, catalog)
    txn.delete(META_KEY)
    txn.delete(CATALOG_KEY)
    return True


def withdraw(txn: LeafTransaction) -> None:
    """Have no read use them from now on."""
    txn.delete(PREVIOUS_META_KEY)
    txn.delete(PREVIOUS_CATALOG_KEY)


def evict_also(
    txn: LeafTransaction, found: PreviousAnswers, views: Mapping[ViewId, ViewInfo], effects: Iterable[object]
) -> None:
    """Do to them what effects evict or drop of `views`. Nothing newer was read of a view that is incomplete, as one is
    whose load is abandoned."""
    for effect in effects:
        if not isinstance(effect, LeafEvict | LeafForget | LeafDrop):
            continue
        info = views[effect.view]
        if isinstance(effect, LeafDrop):
            # Queries without a name of their own come and go.
            ends = info.name in found.views
        elif isinstance(effect, LeafEvict) and effect.key:
            found.evict(txn, info, effect.key)
            ends = False
        else:
            ends = not info.building
        if ends:
            withdraw(txn)


def delete_some(txn: LeafTransaction, first: ViewId, most: int) -> int:
    """Delete at most so many records of views with ids below `first`; return how many."""
    end, deleted = view_head(first), 0
    with txn.cursor() as cursor:
        if cursor.set_range(VIEWS_HEAD):
            while deleted < most and VIEWS_HEAD <= cursor.key() < end:
                cursor.delete()
                deleted += 1
    return deleted
