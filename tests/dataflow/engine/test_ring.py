"""Transactions that the ring holds, and for which lookups."""

from dataclasses import dataclass

from dataflow.engine.events import TableDelta, Transaction
from dataflow.engine.ring import Ring
from dataflow.types import Position, Snapshot, TransactionId


@dataclass(frozen=True)
class Sees(Snapshot):
    """A snapshot that sees exactly these transactions."""

    ids: frozenset[int]

    def sees(self, transaction: TransactionId, end: Position) -> bool:
        del end
        return transaction in self.ids

    def covers(self, other: Snapshot) -> bool:
        raise AssertionError(f"the ring does not ask about {other}")

    def finished(self, other: Snapshot) -> bool:
        raise AssertionError(f"the ring does not ask about {other}")


def snapshot(*ids: int) -> Sees:
    return Sees(frozenset(ids))


def ring_of(*ids: int) -> Ring:
    ring = Ring()
    for number in ids:
        ring.append(Transaction(TransactionId(number), number * 10, {"t": TableDelta([], [(str(number),)])}))
    return ring


def test_unseen_are_given_in_stream_order() -> None:
    found = ring_of(1, 2, 3).unseen("t", snapshot(2))
    assert [delta.added for delta in found] == [[("1",)], [("3",)]]


def test_a_snapshot_that_arrived_after_an_issue_does_not_trim() -> None:
    ring = ring_of(1, 2)
    ring.note(snapshot(1, 2), arrived=5)
    assert ring.trim(oldest_issue=4) == 0
    assert ring.trim(oldest_issue=6) == 2
    assert ring.rows == 0


def test_unseen_transactions_stay() -> None:
    ring = ring_of(1, 2, 3)
    ring.note(snapshot(2), arrived=1)
    assert ring.trim(None) == 1
    assert len(ring.unseen("t", snapshot())) == 2


def test_where_a_snapshots_rows_are_exact() -> None:
    tables = frozenset(["t"])
    assert ring_of(1, 2, 3).exact_position(tables, snapshot(1, 2, 3), 99) == 99
    assert ring_of(1, 2, 3).exact_position(tables, snapshot(1), 99) == 19
    assert ring_of(1, 2, 3).exact_position(tables, snapshot(1, 3), 99) is None
    assert ring_of(1, 2, 3).exact_position(frozenset(["other"]), snapshot(3), 99) == 99


def test_a_trimmed_transaction_can_cross_one_that_is_not_seen() -> None:
    ring = ring_of(1, 2)
    ring.note(snapshot(2), arrived=1)
    ring.trim(None)
    assert ring.exact_position(frozenset(["t"]), snapshot(2), 99) is None
