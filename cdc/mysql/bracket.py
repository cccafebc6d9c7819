"""What a lookup of MySQL 8 saw, as far as that can be told: two brackets around the snapshot
(ARCHITECTURE.md, "Versioned lookups").

MySQL does not say where in the binary log a consistent snapshot is. So a lookup reads, in this order:

1. ``@@global.gtid_executed``: what is in it had committed, so the snapshot sees it;
2. ``START TRANSACTION WITH CONSISTENT SNAPSHOT``;
3. the log's file and offset (``SHOW BINARY LOG STATUS``, ``SHOW MASTER STATUS``): what the snapshot sees was in the log
   before it committed, so what ends behind that is not seen. Not ``gtid_executed`` again: the engine commits first.

Then the rows. What ends before that place and is not in the set is *unsure*: it may be seen or not.

A snapshot that others are to be compared with (the stream's start, a table that joined, a heartbeat) also reads, after
that, ``@@global.gtid_owned`` and then ``@@global.gtid_executed``. A transaction gets its id before it is written to the
log and owns it until it is executed, so all that ends before the place is in one of the two: it has *begun*.

*Invariants*: what `sees` affirms was visible; what neither it nor `unsure` affirms was not.

Not here: who reads that (`service.upstream.mysql`); what becomes of rows that are unsure (`dataflow.engine.doubt`).
"""

from dataclasses import dataclass
from typing import Self

from cdc.gtid import GtidSet


@dataclass(frozen=True, slots=True)
class BracketSnapshot:
    """A snapshot that saw all of `seen`, and nothing behind `position`. A transaction is its `gtid.transaction_id`."""

    seen: GtidSet
    position: int
    #: All that ends at or before `position`, and perhaps more. None: that was not read.
    begun: GtidSet | None = None

    #: Whether `seen` has all that ends at or before `position`.
    exact: bool = False

    def sees(self, transaction: int, end: int) -> bool:  # noqa: ARG002  (what ends behind the position is not in `seen`)
        """Whether that committed transaction was visible for sure."""
        return transaction in self.seen

    def unsure(self, transaction: int, end: int) -> bool:
        """Whether it may have been visible or not."""
        return not self.exact and end <= self.position and transaction not in self.seen

    def covers(self, other: "BracketSnapshot") -> bool:
        """Whether everything that `other` may see is seen here for sure. No, if `other` does not say what had begun."""
        return other.begun is not None and other.begun <= self.seen

    def finished(self, other: "BracketSnapshot") -> bool:
        """Whether all that ends before the place of `other` is seen: the stream may lack it, of a table that joined."""
        return self.covers(other)

    def closed(self) -> Self:
        """Return this snapshot: `begun` already has every transaction that had an id."""
        return self
