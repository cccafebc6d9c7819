"""Recently applied transactions, kept for lookups whose snapshot does not see them.

A lookup's result becomes current by adding what every applied transaction that its snapshot does not see did to its
table. A transaction leaves once a snapshot sees it that was taken before every lookup still in flight was issued: what
one snapshot sees, every later one does.

A snapshot that is not exact sees for sure less than it may have seen. Only what it sees for sure leaves, and nothing
leaves that is behind something that stays: what a transaction that is unsure did to a row may have been undone since.

*Invariants*: entries are in stream order; an entry that some lookup in flight may not see is never trimmed.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import dropwhile, takewhile

from dataflow.engine.events import TableDelta, Transaction
from dataflow.sizing import row_bytes
from dataflow.types import Position, Row, Snapshot

#: What an entry takes without its rows: its transaction, with its tables.
_ENTRY_BYTES = 700
#: A row before any was measured; how many transactions one is measured for; how slowly the mean follows.
_ROW_BYTES, _MEASURED, _PACE = 300, 8, 8


class Ring:
    """Applied transactions in stream order."""

    def __init__(self) -> None:
        self._entries: deque[Transaction] = deque()
        #: Snapshots by the time (of the engine's own counter) at which they arrived, not used for trimming yet.
        self._snapshots: deque[tuple[int, Snapshot]] = deque()
        #: Where the last transaction ended that touched a table and is not here any more, or never was. All lookups
        #: in flight see it.
        self._trimmed: dict[str, Position] = {}
        #: Rows in the entries.
        self.rows = 0
        #: What a row takes, on average: of some transactions a row is measured.
        self._row_bytes = _ROW_BYTES

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, transaction: Transaction) -> None:
        """Adds a transaction that was applied."""
        self._entries.append(transaction)
        self.rows += _rows(transaction)
        if len(self._entries) % _MEASURED == 1:
            for row in _some_rows(transaction):
                self._row_bytes += (row_bytes(row) - self._row_bytes) // _PACE

    def clear(self) -> None:
        """Forgets everything: the stream starts anew."""
        self._entries.clear()
        self._snapshots.clear()
        self._trimmed.clear()
        self.rows = 0

    def state_bytes(self) -> int:
        """About what the entries take."""
        return self.rows * self._row_bytes + len(self._entries) * _ENTRY_BYTES

    def up_to(self, position: Position) -> Iterator[Transaction]:
        """Those that end at or before `position`, in stream order."""
        return takewhile(lambda t: t.end <= position, self._entries)

    def unseen(self, table: str, snapshot: Snapshot) -> list[TableDelta]:
        """Changes of `table` by the transactions that `snapshot` does not see for sure, in stream order."""
        return [
            delta
            for t in self._entries
            if (delta := t.tables.get(table)) is not None and not snapshot.sees(t.id, t.end)
        ]

    def unsure(self, table: str, snapshot: Snapshot) -> list[TableDelta]:
        """Changes of `table` by the transactions that `snapshot` may have seen or not, in stream order."""
        return [
            delta for t in self._entries if (delta := t.tables.get(table)) is not None and snapshot.unsure(t.id, t.end)
        ]

    def since_unseen(self, table: str, snapshot: Snapshot) -> list[TableDelta]:
        """Changes of `table` from the first transaction on that `snapshot` does not see for sure."""
        later = dropwhile(lambda t: snapshot.sees(t.id, t.end), self._entries)
        return [delta for t in later if (delta := t.tables.get(table)) is not None]

    def join(self, table: str, bound: Position) -> None:
        """Notes that everything that changed `table` before the stream had it ended at or before `bound`; all answers
        from now on have seen it."""
        self._trimmed[table] = max(bound, self._trimmed.get(table, -1))

    def _touching(self, tables: frozenset[str]) -> Iterator[Transaction]:
        return (t for t in self._entries if not tables.isdisjoint(t.tables))

    def note(self, snapshot: Snapshot, arrived: int) -> None:
        """Remembers a snapshot that arrived at time `arrived`."""
        self._snapshots.append((arrived, snapshot))

    def forget_snapshots(self) -> None:
        """Forgets the snapshots: they may see transactions that are gone, whose ids will be those of others."""
        self._snapshots.clear()

    def newest_snapshot(self) -> int:
        """When the newest snapshot that was not used yet arrived; -1 if there is none."""
        return self._snapshots[-1][0] if self._snapshots else -1

    def trim(self, oldest_issue: int | None) -> int:
        """Forgets what no lookup can miss, given when the oldest one in flight was issued; returns how many."""
        usable: Snapshot | None = None
        while self._snapshots and may_trim_by(self._snapshots[0][0], oldest_issue):
            usable = self._snapshots.popleft()[1]
        if usable is None or not self._entries:
            return 0
        before = len(self._entries)
        kept: deque[Transaction] = deque()
        for transaction in self._entries:
            if usable.sees(transaction.id, transaction.end) and (usable.exact or not kept):
                self._note_trimmed(transaction)
            else:
                kept.append(transaction)
        self._entries = kept
        self.rows = sum(map(_rows, kept))
        return before - len(kept)

    def _note_trimmed(self, transaction: Transaction) -> None:
        """Entries leave as they become visible, which is not in stream order."""
        for table in transaction.tables:
            self._trimmed[table] = max(transaction.end, self._trimmed.get(table, -1))

    def exact_position(
        self,
        tables: frozenset[str],
        snapshot: Snapshot,
        applied: Position,
        concerns: Callable[[Transaction], bool] = lambda _: True,
    ) -> Position | None:
        """Position at which the rows that `snapshot` saw of `tables` are exact; None if transactions cross.

        From the last one that it sees up to just before the first that it does not see. What was trimmed it sees. One
        that it may have seen or not crosses every other. So does one that it does not see and that has overflown: the
        table may have been another one when it was read (EXCHANGE PARTITION of MariaDB and MySQL).
        Transactions that `concerns` denies do not count.
        """
        first_unseen: Position | None = None
        for transaction in self._touching(tables):
            sees = snapshot.sees(transaction.id, transaction.end)
            unsure = not snapshot.exact and snapshot.unsure(transaction.id, transaction.end)
            if sees == (first_unseen is None) and not unsure:
                continue
            if concerns(transaction):
                if sees or unsure or any(d.overflow for t, d in transaction.tables.items() if t in tables):
                    return None
                first_unseen = transaction.end
        if first_unseen is None:
            return applied
        last_trimmed = max((end for table, end in self._trimmed.items() if table in tables), default=-1)
        return first_unseen - 1 if last_trimmed < first_unseen else None


def may_trim_by(arrived: int, oldest_issue: int | None) -> bool:
    """Return whether a snapshot that arrived then was taken before every lookup in flight was issued."""
    return oldest_issue is None or arrived < oldest_issue


def _rows(transaction: Transaction) -> int:
    return 1 + sum(
        len(d.removed) + len(d.added) + 2 * len(d.partial) + len(d.implied) for d in transaction.tables.values()
    )


def _some_rows(transaction: Transaction) -> Iterator[Row]:
    """One of each table."""
    for delta in transaction.tables.values():
        yield from (delta.added or delta.removed)[:1]
