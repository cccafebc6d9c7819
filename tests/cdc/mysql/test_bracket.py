"""Bracket snapshots: visibility of transactions, comparison with other snapshots."""

from cdc.gtid import GtidSet, source_of, transaction_id
from cdc.mysql.bracket import BracketSnapshot

SERVER = source_of(bytes(range(16)))


def numbered(*numbers: int) -> GtidSet:
    return GtidSet.of(transaction_id(SERVER, number) for number in numbers)


def answers(snapshot: BracketSnapshot, number: int) -> tuple[bool, bool]:
    """Return visibility of the transaction that ends at ten times its number."""
    transaction = transaction_id(SERVER, number)
    return snapshot.sees(transaction, 10 * number), snapshot.unsure(transaction, 10 * number)


def test_transactions_between_the_brackets_are_unsure() -> None:
    snapshot = BracketSnapshot(numbered(1, 2, 4), 50)
    assert [answers(snapshot, number) for number in range(1, 8)] == [
        (True, False),
        (True, False),
        (False, True),
        (True, False),
        (False, True),
        (False, False),
        (False, False),
    ]
    assert not snapshot.exact


def test_a_snapshot_covers_another_if_it_surely_sees_all_that_had_begun() -> None:
    other = BracketSnapshot(numbered(1), 30, begun=numbered(1, 2, 3))
    assert BracketSnapshot(numbered(1, 2, 3), 90).covers(other)
    assert BracketSnapshot(numbered(1, 2, 3), 90).finished(other)
    assert not BracketSnapshot(numbered(1, 2, 4), 90).covers(other)
    assert not BracketSnapshot(numbered(1, 2, 4), 90).finished(other)


def test_no_snapshot_covers_one_without_begun() -> None:
    assert not BracketSnapshot(numbered(1, 2, 3), 90).covers(BracketSnapshot(numbered(1), 10))
