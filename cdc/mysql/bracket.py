"""Snapshots of MySQL 8, bounded from both sides (ARCHITECTURE.md, "Versioned lookups").

MySQL does not give the position of a consistent snapshot in the binary log. So a lookup reads, in this order:

1. ``@@global.gtid_executed``: these transactions had committed, so the snapshot sees them;
2. ``START TRANSACTION WITH CONSISTENT SNAPSHOT``;
3. the log's file and offset (``SHOW BINARY LOG STATUS``, ``SHOW MASTER STATUS``): a transaction is in the log before it
   commits, so one that ends after this position is not seen. A second ``gtid_executed`` would not do: the storage
   engine commits before a transaction is added to it.

The rows come next. A transaction that ends before that position and is not in the set is *unsure*.

A snapshot that others are compared with (the start of a stream, a table that joined, a heartbeat) then also reads
``@@global.gtid_owned`` and ``@@global.gtid_executed``. A transaction gets its id before it is written to the log and
owns it until it is executed, so each one that ends before the position is in one of the two: it has *begun*.

*Invariants*: a transaction that `sees` accepts was visible; one that neither `sees` nor `unsure` accepts was not.

Not here: these statements (`service.engine.databases.mysql`), the use of unsure rows
(`dataflow.engine.uncertain_visibility`).
"""

from dataclasses import dataclass
from typing import Self

from cdc.gtid import GtidSet


@dataclass(frozen=True, slots=True)
class BracketSnapshot:
    """A snapshot that saw all of `seen`, and nothing after `position`. Transactions are `gtid.transaction_id`s."""

    seen: GtidSet
    position: int
    #: All transactions that end at or before `position`, and possibly more. None: not read.
    begun: GtidSet | None = None

    #: Whether `seen` has every transaction that ends at or before `position`.
    exact: bool = False

    def sees(self, transaction: int, end: int) -> bool:  # noqa: ARG002  (`seen` has none that ends after the position)
        """Return whether the committed transaction was certainly visible."""
        return transaction in self.seen

    def unsure(self, transaction: int, end: int) -> bool:
        """Return whether the transaction may or may not have been visible."""
        return not self.exact and end <= self.position and transaction not in self.seen

    def covers(self, other: "BracketSnapshot") -> bool:
        """Return whether this certainly sees everything that `other` may see; False if `other` lacks `begun`."""
        return other.begun is not None and other.begun <= self.seen

    def finished(self, other: "BracketSnapshot") -> bool:
        """Return whether this sees what the stream lacks of a table that joined at `other`."""
        return self.covers(other)

    def closed(self) -> Self:
        """Return this snapshot: `begun` already has every transaction that had an id."""
        return self
