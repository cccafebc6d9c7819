"""One transaction while its events come in, from topics that know nothing of each other.

*Invariants*: each change is held once, however often it was delivered: by its identity within the transaction, which a
redelivery does not change.

Not here: when it is whole, and what comes before it (`assembler`).
"""

from collections import Counter

from cdc.change import TableChange
from cdc.debezium.envelope import End, RowEvent, TransactionKey
from cdc.debezium.rows import Change

#: A TRUNCATE among the changes.
TRUNCATE: Change = ((), ())
#: A change whose rows are of no interest.
NOTHING: Change = (None, None)


def identity_of(event: RowEvent, postgres: bool) -> int:
    """What tells an event from all others of its transaction, and sorts them.

    Its place in the log, which is that of several: PostgreSQL has ``total_order`` for them. Connectors of the binary
    log count anew when they are restarted within a transaction; there it is the row's number within the log's event,
    and a changed key is a delete and an insert of one row, in this order.
    """
    if postgres:
        return event.position << 32 | event.order
    row: int = event.source.get("row") or 0
    return (event.position << 32 | row) << 1 | (event.op == "c")


class PendingTransaction:
    """A transaction of which something has been seen."""

    __slots__ = (
        "begun",
        "changes",
        "end",
        "guessed",
        "held",
        "key",
        "overflow",
        "partial",
        "position",
        "restarted",
        "seen_at",
        "size",
        "stale",
        "xid",
    )

    def __init__(self, key: TransactionKey, xid: int, seen_at: float) -> None:
        self.key = key
        #: PostgreSQL: the id in 64 bits.
        self.xid = xid
        #: The offset of its BEGIN; None if that has not been seen.
        self.begun: int | None = None
        self.end: End | None = None
        #: By collection, by identity.
        self.changes: dict[str, dict[int, Change]] = {}
        #: The last place in the stream that is known to be within it, or its end; 0: none is.
        self.position = 0
        #: Changes in `changes`.
        self.held = 0
        #: Nothing says where it is: `position` is before what comes next.
        self.guessed = False
        #: Rows are not held (any more): anything in its tables may have changed.
        self.overflow = False
        #: Collections of which the same is true.
        self.partial: set[str] = set()
        #: There was a second BEGIN, or END lacks what is there: it may count what came after a restart only.
        self.restarted = False
        #: It is known to be old: already delivered, or from before the start.
        self.stale = False
        #: Bytes of its events.
        self.size = 0
        #: When something of it was seen last.
        self.seen_at = seen_at

    def forget_rows(self, collection: str | None = None) -> None:
        """Hold no rows (of one table): too many, or of no use."""
        if collection is not None:
            self.partial.add(collection)
            self.held -= len(self.changes[collection])
            self.changes[collection] = {}
            return
        self.overflow = True
        self.size = self.held = 0
        self.changes = {collection: {} for collection in self.changes}

    def table_change(self, collection: str) -> TableChange:
        """The net change of one table."""
        held = self.changes.get(collection, {})
        changes = list(held.values())
        truncated = TRUNCATE in changes
        if truncated:
            ordered = [held[identity] for identity in sorted(held)]
            last = len(ordered) - ordered[::-1].index(TRUNCATE)
            changes = ordered[last:]
        removed = [] if truncated else [old for old, _ in changes if old is not None]
        if truncated:
            # What goes after it came after it.
            gone = Counter(old for old, _ in changes if old is not None)
            added = list((Counter(new for _, new in changes if new is not None) - gone).elements())
        else:
            added = [new for _, new in changes if new is not None]
        change = TableChange(removed, added, truncated)
        change.settle()
        return change
