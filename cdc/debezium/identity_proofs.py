"""Proofs that events were written under the replica identity that they are read by.

Events do not state the identity of their table, and ALTER TABLE is not in the topics: an update without an old row says
that the identity's columns did not change, whichever they are, and NULL may be a value that is not sent. So the catalog
decides, before old rows are delivered.

*Theory*: a table's *mark* differs after each statement that may alter its identity. Such a statement waits for all
writers of the table and excludes them until it ends. So if the table has the same mark at a snapshot that does not see
a transaction and at one that sees it, the transaction's events are of the identity at both.

*Invariant*: rows of a transaction without proof are dropped (`TableChange.overflow`): any row may have changed.

Not here: reading the catalog (`service.engine.databases.postgres.replica_identities`), images (`rows`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc.change import CommittedTransaction, TableChange, TableLayout
from cdc.postgres.position import PostgresSnapshot

#: Pauses until snapshots see a transaction. One that waits for a standby is in the topics long before.
_PAUSES_S = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    """Identity of one table at one time."""

    mark: str
    #: The columns' identities, as in `TableLayout.column_ids`; none: old rows are whole, or not logged.
    columns: frozenset[int]


@dataclass(frozen=True, slots=True)
class Identities:
    """Identities at a snapshot of the database, by the tables' ids."""

    snapshot: PostgresSnapshot
    tables: Mapping[int, ReplicaIdentity]


#: Reads the identities of these tables; None if the database cannot be asked.
ReadIdentities = Callable[[Sequence[int]], Awaitable[Identities | None]]


class IdentityProofs:
    """Proofs for the followed tables.

    *State*: `_since`, by table, the earliest snapshot since which it has its mark.
    """

    def __init__(self, read: ReadIdentities) -> None:
        self._read = read
        self._since: dict[int, tuple[PostgresSnapshot, ReplicaIdentity]] = {}
        self._tables: list[int] = []

    def state(self) -> list[Any]:
        """Return for each table its mark, and since which snapshot it has that, as JSON can have them."""
        return [
            [table, snapshot.text, identity.mark, sorted(identity.columns)]
            for table, (snapshot, identity) in self._since.items()
        ]

    def continues(self, state: list[Any]) -> None:
        """Take over the state of an earlier process; marks that differ by now prove nothing."""
        self._since = {
            table: (PostgresSnapshot.parse(snapshot), ReplicaIdentity(mark, frozenset(columns)))
            for table, snapshot, mark, columns in state
        }

    async def follow(self, layouts: Mapping[str, TableLayout]) -> None:
        """Prepare proofs for exactly these tables. Await it before their transactions are taken."""
        tables = sorted(layout.table_id for layout in layouts.values())
        if tables == self._tables:
            return
        self._tables = tables
        self._since = {table: since for table, since in self._since.items() if table in tables}
        if not self._since.keys() >= set(tables):
            await self._look()

    async def require(self, transactions: Iterable[CommittedTransaction]) -> None:
        """Drop the rows of changes with old rows whose identity is not proven."""
        doubted = [(t, change) for t in transactions for change in t.tables.values() if _needs_proof(change)]
        if not doubted:
            return
        found = await self._look()
        for pause_s in _PAUSES_S:
            if found is None or all(found.snapshot.sees(t.id, t.end) for t, _ in doubted):
                break
            await asyncio.sleep(pause_s)
            found = await self._look()
        for transaction, change in doubted:
            if found is None or not self._is_proven(transaction, change, found):
                change.drop_rows()

    def _is_proven(self, transaction: CommittedTransaction, change: TableChange, found: Identities) -> bool:
        assert change.layout is not None
        since, identity = self._since.get(change.layout.table_id, (found.snapshot, None))
        return (
            identity is not None
            and identity == found.tables.get(change.layout.table_id)
            and identity.columns == {change.layout.column_ids[i] for i in change.layout.key}
            and not since.sees(transaction.id, transaction.end)
            and found.snapshot.sees(transaction.id, transaction.end)
        )

    async def _look(self) -> Identities | None:
        """Read the identities; one that has another mark has it since now."""
        found = await self._read(self._tables)
        if found is not None:
            for table, identity in found.tables.items():
                if table not in self._since or self._since[table][1] != identity:
                    self._since[table] = found.snapshot, identity
            for table in self._since.keys() - found.tables.keys():
                del self._since[table]
        return found


def _needs_proof(change: TableChange) -> bool:
    return bool(change.removed or change.partial)
