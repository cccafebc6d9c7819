"""Frames, cut anywhere."""

from hypothesis import given
from hypothesis import strategies as st

from cdc.change import UNKNOWN, Batch, CommittedTransaction, SchemaNotice, TableChange, TableLayout
from cdc.fanout.frames import (
    Acknowledgement,
    FollowReply,
    FollowRequest,
    Frames,
    JoinReply,
    LossMessage,
    NoticeMessage,
    PlacedBatch,
    PositionRequest,
    frame_of,
    frame_of_batch,
)
from cdc.gtid import GtidPosition
from cdc.stream import StreamPlace

TABLES = ["public.a", "public.b", "public.c"]
LAYOUT = TableLayout(("id", "title"))
rows = st.lists(st.tuples(st.none() | st.text(), st.text()), max_size=3)
images = st.none() | st.tuples(st.none() | st.text() | st.just(UNKNOWN), st.text())
partial = st.lists(st.tuples(images, images), max_size=2)
parts = st.lists(st.tuples(st.none() | st.text() | st.just(UNKNOWN), st.text()), max_size=2)
changes = st.builds(TableChange, rows, rows, st.booleans(), st.booleans(), st.none(), partial, parts)
transactions = st.builds(
    CommittedTransaction,
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**63),
    st.dictionaries(st.sampled_from(TABLES), changes),
)
notices = st.builds(SchemaNotice, st.sampled_from(TABLES), st.text(), st.tuples(st.text()), st.booleans())
batches = st.builds(
    Batch,
    st.lists(transactions, max_size=4),
    st.integers(0, 2**63),
    st.lists(notices, max_size=2),
    st.lists(st.integers(0, 2**96), max_size=3),
    st.none() | st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)),
    st.lists(st.text(), max_size=2),
)


places = st.none() | st.builds(StreamPlace, st.integers(0, 2**63), st.text(), st.booleans())


def of_tables(batch: Batch, tables: set[str], place: StreamPlace | None) -> PlacedBatch:
    """Return the part of a batch that `frame_of_batch` keeps."""
    kept = [
        CommittedTransaction(t.id, t.end, {name: change for name, change in t.tables.items() if name in tables})
        for t in batch.transactions
    ]
    return PlacedBatch(
        [t for t in kept if t.tables],
        batch.position,
        [n for n in batch.schema if n.table in tables],
        batch.passed,
        batch.altered,
        batch.redefined,
        place=place,
    )


@given(st.lists(batches, max_size=3), st.sets(st.sampled_from(TABLES)), places, st.data())
def test_batches_are_unchanged(
    sent: list[Batch], tables: set[str], place: StreamPlace | None, data: st.DataObject
) -> None:
    wire = b"".join(frame_of_batch(batch, dict.fromkeys(tables, LAYOUT), place) for batch in sent)
    frames, received, at = Frames(), [], 0
    while at < len(wire):
        size = data.draw(st.integers(1, len(wire) - at))
        received += frames.feed(wire[at : at + size])
        at += size
    assert received == [of_tables(batch, tables, place) for batch in sent]


def test_rows_of_another_layout_overflow() -> None:
    other = TableLayout(("id", "name"))
    changes = {
        "public.a": TableChange([], [("1", "x")], layout=other),
        "public.b": TableChange([], [("1", "x")], layout=TableLayout(("id", "title"), since=7)),
    }
    sent = frame_of_batch(Batch([CommittedTransaction(1, 10, changes)], 10), {"public.a": LAYOUT, "public.b": LAYOUT})
    (received,) = Frames().feed(sent)
    assert isinstance(received, Batch)
    assert received.transactions[0].tables == {
        "public.a": TableChange(overflow=True),
        "public.b": TableChange([], [("1", "x")]),
    }


def test_messages_are_unchanged() -> None:
    sent = [
        FollowRequest(3, {"public.a": TableLayout(("id", "title"), 17, ((23, -1), (25, -1)), (1, 2), since=99)}),
        PositionRequest(),
        Acknowledgement(7),
        JoinReply(1 << 62, GtidPosition.parse("0-1-5"), "system 7"),
        FollowReply(3),
        NoticeMessage(SchemaNotice("public.a", "It is gone.")),
        LossMessage("No.", True, "Run: something"),
    ]
    received = Frames().feed(b"".join(map(frame_of, sent)))
    assert received == sent
    first = received[0]
    assert isinstance(first, FollowRequest)
    assert first.layouts["public.a"].since == 99
