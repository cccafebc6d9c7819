"""One transaction while its events arrive, from topics that are not ordered among each other.

*Invariant*: each change is stored once, however often it is delivered, by its identity within the transaction, which is
the same in duplicates.

Not here: completeness and order of transactions (`assembler`).
"""

from collections import Counter

from cdc.change import TableChange
from cdc.debezium.events import End, TransactionKey
from cdc.debezium.rows import Change
from cdc.row_images import RowImages

#: A TRUNCATE among the changes.
TRUNCATE: Change = ((), ())
#: A change whose rows are not needed.
NOTHING: Change = (None, None)


class PendingTransaction:
    """A transaction with at least one event."""

    __slots__ = (
        "begun",
        "changes",
        "end",
        "guessed",
        "held",
        "key",
        "mark",
        "overflow",
        "partial",
        "position",
        "restarted",
        "seen_at",
        "size",
        "stale",
        "xid",
    )

    def __init__(self, key: TransactionKey, xid: int, seen_at: float, mark: int = 0) -> None:
        self.key = key
        #: Number of the chunk of records that has its first event (`read_offsets`).
        self.mark = mark
        #: Id that snapshots know it by (PostgreSQL: 64 bits, MySQL: global id); 0: its position (MariaDB).
        self.xid = xid
        #: Offset of its BEGIN; None if it has not arrived.
        self.begun: int | None = None
        self.end: End | None = None
        #: Changes by collection and identity.
        self.changes: dict[str, dict[int, Change]] = {}
        #: Its end, or its last known position; 0: unknown.
        self.position = 0
        #: Number of changes in `changes`.
        self.held = 0
        #: `position` was derived from the next transaction.
        self.guessed = False
        #: Rows were dropped: any row of its tables may have changed.
        self.overflow = False
        #: Collections whose rows were dropped.
        self.partial: set[str] = set()
        #: It has a second BEGIN, or more events than END names: END may count the events since a restart only.
        self.restarted = False
        #: It was delivered before, or precedes the start.
        self.stale = False
        #: Bytes of its events.
        self.size = 0
        #: Time of its last event.
        self.seen_at = seen_at

    def forget_rows(self, collection: str | None = None) -> None:
        """Drop the rows of one table, or of all."""
        if collection is not None:
            self.partial.add(collection)
            self.held -= len(self.changes[collection])
            self.changes[collection] = {}
            return
        self.overflow = True
        self.size = self.held = 0
        self.changes = {collection: {} for collection in self.changes}

    def table_change(self, collection: str, identity: tuple[int, ...]) -> TableChange:
        """Return the net change of one table. `identity`: positions of the columns that old rows have; empty: all."""
        held = self.changes.get(collection, {})
        if identity:
            return _partial_change([held[at] for at in sorted(held)], identity)
        changes = list(held.values())
        truncated = TRUNCATE in changes
        if truncated:
            ordered = [held[identity] for identity in sorted(held)]
            last = len(ordered) - ordered[::-1].index(TRUNCATE)
            changes = ordered[last:]
        removed = [] if truncated else [old for old, _ in changes if old is not None]
        if truncated:
            # Rows that are removed after the TRUNCATE were added after it.
            gone = Counter(old for old, _ in changes if old is not None)
            added = list((Counter(new for _, new in changes if new is not None) - gone).elements())
        else:
            added = [new for _, new in changes if new is not None]
        change = TableChange(removed, added, truncated)
        change.settle()
        return change


def _partial_change(changes: list[Change], identity: tuple[int, ...]) -> TableChange:
    """Return the net change of changes in order; it overflows if they contradict each other."""
    change, images = TableChange(), RowImages(identity)
    for event in changes:
        old, row = event
        if event == TRUNCATE:
            images.clear()
            change.truncated = True
        elif not (
            images.update(old, row)
            if old is not None and row is not None
            else images.insert(row)
            if row is not None
            else old is None or images.delete(old)
        ):
            change.drop_rows()
            return change
    images.fill(change)
    if change.truncated and (change.removed or change.partial):
        change.drop_rows()
    change.settle()
    return change
