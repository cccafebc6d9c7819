"""Answers of the session before, set aside for reads of what a new session has not stored yet.

*Theory*: what was stored stays exact at its version when a session ends; it only ages. A session that begins empty
would pass all reads to the database at once, so until it is warm, holes are answered as they were while the engine was
away: with the old version and its age. The records stay where they are, since no view's id is used twice; meta and
catalog get other keys.

*Invariants*: a read is answered from one session's records. Once a session has stored a key, no read of the key alone
goes back to the session before: if it is evicted, that session's entry is, too. Nor does any read of a view that was
planned again.

Not here: how long they are used (`service.engine.workload.until_warm`), which reads may use them
(`service.worker.reads.reads`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dataflow.engine.effects import LeafEvict, LeafForget
from dataflow.types import Key, ViewId
from service.leaf_store.answer import LeafState, PageWindow, StoredAnswer
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.layout import (
    CATALOG_KEY,
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
            if before is None or before.status != "ready" or before.definition != info.definition:
                return None
            answer = answer_in(txn, before, values, window)
            if answer is None:
                return None
            found.append(answer)
        return found

    def evict(self, txn: LeafTransaction, info: ViewInfo, key: Key) -> None:
        """Make a key of a partial view a hole here, too. Its rows stay until all are deleted."""
        before = self.views.get(info.name)
        if before is not None:
            txn.delete(before.head + key_part(key))


class PreviousReader:
    """Finds them in transactions of a reader's environment. *State*: `_found`, made from `_record`."""

    def __init__(self, reader: LeafReader) -> None:
        self._reader = LeafReader(reader.environment)
        self._record: bytes | None = None
        self._found: PreviousAnswers | None = None

    def find(self, txn: LeafTransaction) -> PreviousAnswers | None:
        record = txn.get(PREVIOUS_META_KEY)
        if record != self._record:
            self._record, self._found = record, None
            if record is not None:
                state = LeafReader.parse_state(record)
                catalog = self._reader.catalog_in(txn, state, PREVIOUS_CATALOG_KEY)
                self._found = PreviousAnswers(state, catalog.by_name)
        return self._found


def set_aside(txn: LeafTransaction) -> bool:
    """Set the store's contents aside; return False, without a change, if it has none or others are aside already."""
    meta, catalog = txn.get(META_KEY), txn.get(CATALOG_KEY)
    if meta is None or catalog is None or txn.get(PREVIOUS_META_KEY) is not None:
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
    """Do to them what effects evict of `views`."""
    for effect in effects:
        if isinstance(effect, LeafEvict) and effect.key:
            found.evict(txn, views[effect.view], effect.key)
        elif isinstance(effect, LeafEvict | LeafForget):
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
