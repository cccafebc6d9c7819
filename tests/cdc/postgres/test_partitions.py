"""Rows of partitions are rows of the partitioned table."""

from dataclasses import replace

import pytest

from cdc.change import UNKNOWN, CommittedTransaction, Partition, TableChange, TableLayout
from cdc.postgres.pgoutput import Decoder
from tests.cdc.postgres.messages import COLUMNS, OID, begin, commit, decode, delete, insert, relation, truncate, update

ROOT = "public.items"
LOW, HIGH, LATER = OID + 1, OID + 2, OID + 3
LAYOUT = TableLayout(
    COLUMNS, OID, partitions=(Partition(LOW, COLUMNS), Partition(HIGH, ("body", "dropped", "id", "name")))
)
RELATIONS = (
    relation(name="items_low", oid=LOW),
    relation(("body", "id", "name"), name="items_high", oid=HIGH),
)


def decoder(**others: TableLayout) -> Decoder:
    made = Decoder(700, 1000)
    made.follow({ROOT: LAYOUT, **{f"public.{name}": layout for name, layout in others.items()}})
    return made


def transaction(made: Decoder, *messages: bytes) -> CommittedTransaction:
    (only,) = decode(made, begin(), *RELATIONS, *messages, commit())
    return only


def test_rows_of_partitions() -> None:
    """They are in the order of the table's columns, whatever the partition's; rows move between partitions."""
    made = transaction(
        decoder(),
        insert("1", "a", "x", oid=LOW),
        insert("y", "2", "b", oid=HIGH),
        delete("3", "c", "z", oid=LOW),
        insert("z", "30", "c", oid=HIGH),
    )
    assert made.tables == {ROOT: TableChange([("3", "c", "z")], [("1", "a", "x"), ("2", "b", "y"), ("30", "c", "z")])}


def test_a_partition_is_followed_beside_its_table() -> None:
    """Each has its own change."""
    made = transaction(
        decoder(items_low=TableLayout(("id", "name"), LOW)),
        insert("1", "a", "x", oid=LOW),
        insert("y", "2", "b", oid=HIGH),
    )
    assert made.tables == {
        ROOT: TableChange([], [("1", "a", "x"), ("2", "b", "y")]),
        "public.items_low": TableChange([], [("1", "a")]),
    }


def test_a_partition_keyed_by_its_identity() -> None:
    keyed = [relation(identity="d", name="items_low", oid=LOW, key=("id",))]
    keyed.append(relation(("body", "id", "name"), "d", "items_high", HIGH, key=("id",)))
    moved = [delete("1", None, None, marker=b"K", oid=LOW), insert("x", "10", "a", oid=HIGH)]
    changed = [update(("2", None, None), ("20", "b", "y"), b"K", LOW)]
    (made,) = decode(decoder(), begin(), *keyed, *moved, *changed, commit())
    found = made.tables[ROOT]
    assert (found.removed, found.added) == ([], [("10", "a", "x")])
    assert sorted(found.partial, key=str) == [
        (("1", UNKNOWN, UNKNOWN), None),
        (("2", UNKNOWN, UNKNOWN), ("20", "b", "y")),
    ]


def test_identities_that_differ_between_partitions() -> None:
    """Rows known by different columns are not merged: any row may have changed."""
    keyed = relation(("body", "id", "name"), "d", "items_high", HIGH, key=("id",))
    rows = [delete("1", "a", "x", oid=LOW), delete(None, "2", None, marker=b"K", oid=HIGH)]
    (made,) = decode(decoder(), begin(), RELATIONS[0], keyed, *rows, commit())
    assert made.tables[ROOT].overflow


@pytest.mark.parametrize(("oids", "whole"), [((LOW, HIGH), True), ((HIGH, LATER, LOW), True), ((LOW,), False)])
def test_truncated_partitions(oids: tuple[int, ...], whole: bool) -> None:
    """A table is empty when all its partitions are; with some of them, any row may be gone."""
    other = relation(name="other", oid=LATER)
    rows = [insert("1", "a", "x", oid=LOW), truncate(*oids), insert("2", "b", "y", oid=LOW)]
    made = transaction(decoder(), other, *rows)
    found = made.tables[ROOT]
    assert (found.truncated, found.overflow) == (whole, not whole)
    assert found.added == ([("2", "b", "y")] if whole else [])


def test_a_table_without_partitions_yet() -> None:
    """Its first partition is unknown: the catalog is checked before the transaction is applied, once."""
    made = Decoder(700, 1000)
    made.follow({ROOT: replace(LAYOUT, partitions=())})
    first, second = (decode(made, begin(), *RELATIONS[:1], insert("1", "a", "x", oid=LOW), commit()) for _ in range(2))
    assert first == [CommittedTransaction(700, 108, {})]
    assert second == []


def test_unknown_relations() -> None:
    """One with the columns of a partitioned table may be a partition of it: the catalog is checked. Others are not."""
    made = decoder()
    assert decode(made, begin(), relation(("id",), name="b", oid=LATER), insert("1", oid=LATER), commit()) == []
    decode(made, begin(), relation(name="c", oid=LATER + 1), insert("1", "a", "x", oid=LATER + 1), commit())
    assert made.altered
    plain = Decoder(700, 1000)
    plain.follow({ROOT: TableLayout(COLUMNS, OID)})
    assert decode(plain, begin(), relation(name="c", oid=LATER), insert("1", "a", "x", oid=LATER), commit()) == []


def test_notices_name_the_table() -> None:
    """A partition without identity, columns that swapped names, and another type."""
    swapped = TableLayout(COLUMNS, OID, ((25, -1),) * 3, partitions=(Partition(LOW, COLUMNS),))
    for changed, reason in (
        (relation(identity="d", name="items_low", oid=LOW, key=()), "items_low has no primary key"),
        (relation(("name", "id", "body"), name="items_low", oid=LOW), "altered: id, name, body"),
        (relation(name="items_low", oid=LOW, kind=20), "altered: id, name, body"),
    ):
        made = Decoder(700, 1000)
        made.follow({ROOT: swapped})
        decode(made, begin(), changed, insert("1", "a", "x", oid=LOW), commit())
        (notice,) = made.take_notices()
        assert notice.table == ROOT
        assert reason in notice.reason


def test_a_renamed_partition_goes_on() -> None:
    made = decoder()
    (found,) = decode(made, begin(), relation(name="old_items", oid=LOW), insert("1", "a", "x", oid=LOW), commit())
    assert found.tables == {ROOT: TableChange([], [("1", "a", "x")])}
    assert made.take_notices() == []
