"""Proofs of replica identities: catalogs at snapshots in, rows that may be delivered out."""

import asyncio
from collections.abc import Sequence

import pytest

from cdc.change import UNKNOWN, CommittedTransaction, TableChange, TableLayout
from cdc.debezium.identity_proofs import Identities, IdentityProofs, ReplicaIdentity
from cdc.postgres.position import PostgresSnapshot

OID = 16384
LAYOUTS = {
    "whole": TableLayout(("id", "name"), OID, column_ids=(1, 3)),
    "by id": TableLayout(("id", "name"), OID, column_ids=(1, 3), key=(0,)),
    "by name": TableLayout(("id", "name"), OID, column_ids=(1, 3), key=(1,)),
}
BY_ID, BY_NAME, WHOLE = (frozenset(columns) for columns in ((1,), (3,), ()))


def at(next_xid: int, mark: str, columns: frozenset[int], *running: int) -> Identities:
    """A catalog that sees all transactions before `next_xid` but those that are running."""
    snapshot = PostgresSnapshot(min(running, default=next_xid), next_xid, frozenset(running))
    return Identities(snapshot, {OID: ReplicaIdentity(mark, columns)})


def change(layout: str) -> TableChange:
    if LAYOUTS[layout].key:
        return TableChange(partial=[(("1", UNKNOWN), ("1", "a"))], layout=LAYOUTS[layout])
    return TableChange([("1", "a")], [("1", "b")], layout=LAYOUTS[layout])


async def delivers(layout: str, xid: int, *catalogs: Identities | None) -> bool:
    """Return whether a transaction's rows are delivered. `catalogs`: as they are read, first when following."""
    left = list(catalogs)

    async def read(tables: Sequence[int]) -> Identities | None:
        assert tables == [OID]
        return left.pop(0) if len(left) > 1 else left[0]

    proofs = IdentityProofs(read)
    await proofs.follow({"t": LAYOUTS[layout]})
    transaction = CommittedTransaction(xid, 1000, {"t": change(layout)})
    await proofs.require([transaction])
    (found,) = transaction.tables.values()
    assert found.overflow or found == change(layout)
    return not found.overflow


@pytest.mark.parametrize(
    ("layout", "catalogs", "expected"),
    [
        ("by id", [at(90, "m", BY_ID), at(110, "m", BY_ID)], True),
        ("whole", [at(90, "m", WHOLE), at(110, "m", WHOLE)], True),
        # It was running when the catalog was first read.
        ("by id", [at(110, "m", BY_ID, 100), at(120, "m", BY_ID)], True),
        # Altered since, altered and altered back, never as the layout has it.
        ("by id", [at(90, "m", BY_ID), at(110, "n", BY_NAME)], False),
        ("by id", [at(90, "m", BY_ID), at(110, "o", BY_ID)], False),
        ("by id", [at(90, "m", BY_NAME), at(110, "m", BY_NAME)], False),
        ("by id", [at(90, "m", WHOLE), at(110, "m", WHOLE)], False),
        ("whole", [at(90, "m", BY_ID), at(110, "m", BY_ID)], False),
        # It committed before the catalog was first read: the identity may have been altered before.
        ("by id", [at(101, "m", BY_ID), at(110, "m", BY_ID)], False),
        # Snapshots see it late.
        ("by id", [at(90, "m", BY_ID), at(110, "m", BY_ID, 100), at(111, "m", BY_ID)], True),
        ("by id", [at(90, "m", BY_ID), at(110, "m", BY_ID, 100), at(111, "n", BY_NAME)], False),
        # The database does not answer, or has no such table.
        ("by id", [at(90, "m", BY_ID), None], False),
        ("by id", [None, at(110, "m", BY_ID)], False),
        ("by id", [at(90, "m", BY_ID), Identities(PostgresSnapshot(110, 110), {})], False),
    ],
)
def test_one_transaction(layout: str, catalogs: list[Identities | None], expected: bool) -> None:
    assert asyncio.run(delivers(layout, 100, *catalogs)) is expected


def test_a_transaction_that_no_snapshot_sees() -> None:
    """Its rows are dropped after a while."""
    assert not asyncio.run(delivers("by id", 100, at(90, "m", BY_ID), at(110, "m", BY_ID, 100)))


def test_proofs_go_on_with_a_new_layout() -> None:
    """After an alteration rows are dropped until they are read by the new identity, from then on delivered."""
    catalogs = [at(90, "m", BY_ID), at(110, "n", BY_NAME), at(120, "n", BY_NAME), at(130, "n", BY_NAME)]

    async def read(_: Sequence[int]) -> Identities:
        return catalogs.pop(0)

    async def run() -> list[bool]:
        proofs = IdentityProofs(read)
        found = []
        for xid, layout in ((100, "by id"), (115, "by id"), (125, "by name")):
            await proofs.follow({"t": LAYOUTS[layout]})
            transaction = CommittedTransaction(xid, xid, {"t": change(layout)})
            await proofs.require([transaction])
            found.append(not transaction.tables["t"].overflow)
        return found

    assert asyncio.run(run()) == [False, False, True]


def test_new_rows_need_no_proof() -> None:
    """Neither does a TRUNCATE: nothing is read."""

    async def read(_: Sequence[int]) -> Identities:
        raise AssertionError

    async def run() -> None:
        changes = {
            "a": TableChange(added=[("1", "a")]),
            "b": TableChange(truncated=True),
            "c": TableChange(overflow=True),
        }
        await IdentityProofs(read).require([CommittedTransaction(1, 1, dict(changes))])
        assert not changes["a"].overflow
        assert not changes["b"].overflow

    asyncio.run(run())
