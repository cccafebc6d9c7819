"""Barrier for rows that miss changes which the stream does not bring: those committed before it began, and those of
transactions to a table before that was added to the publication.

*Maintains*: a table is *joining* until all that was open when it joined is known to be applied.

Not here: queries that wait for a snapshot that sees enough (`outstanding`).
"""

from collections.abc import Callable

from dataflow.engine.ring import Ring
from dataflow.types import Position, Snapshot


class PublicationBarrier:
    """Start of the stream, and the tables that joined it later."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._start: Snapshot | None = None
        #: Tables that joined the publication: lookups must see all that was open then.
        self._barriers: dict[str, Snapshot] = {}
        #: Those of them for which that may not have been applied yet, with the position where it will be, if it is
        #: known: reads of them are forwarded, which waits for it.
        self.joining: dict[str, Position | None] = {}
        #: Those of them for which the latest snapshot did not see enough: what was open then has not ended yet.
        self.stalled: set[str] = set()

    def restart(self, snapshot: Snapshot) -> None:
        """Begins a stream, of which `snapshot` sees the start."""
        self._barriers.clear()
        self.joining.clear()
        self.stalled.clear()
        self._start = snapshot

    def join(self, table: str, snapshot: Snapshot) -> None:
        """A table joins, before `snapshot` was taken."""
        self._barriers[table] = snapshot
        self.joining[table] = None
        if not snapshot.finished(snapshot):
            self.stalled.add(table)

    def note(self, snapshot: Snapshot, bound: Position | None) -> None:
        """A snapshot arrived; by `bound`, all that it sees is in the stream."""
        for table, known in self.joining.items():
            if snapshot.finished(self._barriers[table]):
                self.stalled.discard(table)
                if bound is not None and (known is None or bound < known):
                    self.joining[table] = bound
            elif known is None:
                self.stalled.add(table)

    def reach(self, applied: Position) -> None:
        """Tables are like others once all that was open when they joined has been applied."""
        for table, bound in list(self.joining.items()):
            if bound is not None and bound <= applied:
                del self.joining[table]
                self.stalled.discard(table)
                self._ring.join(table, bound)

    def sees_enough(self, snapshot: Snapshot, tables: frozenset[str]) -> bool:
        """Return whether the snapshot sees all that the stream does not bring of `tables`. Of such a one the bound is
        noted: when the stream has reached it, the tables have joined."""
        joined = tables.intersection(self._barriers)
        return self.covers_start(snapshot) and all(snapshot.finished(self._barriers[t]) for t in joined)

    def seen_by(self, position: Position) -> Callable[[Snapshot], bool]:
        """Tells of a snapshot that is taken from now on whether it sees all that ends at or before `position`, which is
        applied. (What has left the ring was seen by an earlier one.)"""
        recent = [(transaction.id, transaction.end) for transaction in self._ring.up_to(position)]

        def sees(snapshot: Snapshot) -> bool:
            return self.sees_enough(snapshot, frozenset(self._barriers)) and all(
                snapshot.sees(*each) for each in recent
            )

        return sees

    def covers_start(self, snapshot: Snapshot) -> bool:
        """Return whether the snapshot sees all from before the stream."""
        return self._start is not None and snapshot.covers(self._start)
