"""Subscribers of the harness: the rows that they make of a stream, and errors that they notice."""

from typing import Any

import pytest

from load.subscribers.rows import LostTrack, SubscriberRows
from load.subscribers.stream import EventParser, StreamEvent

STREAM = (
    b': upquery\n\nevent: snapshot\nid: pg:0/1~a\ndata: {"rows":[],\ndata: "version":"pg:0/1"}\n\n'
    b': keep-alive\n\nevent: must-refetch\nid:\ndata: {"reason":"x"}\n\nretry: 700\n\n'
)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_stream_in_pieces(size: int) -> None:
    parser, events, ids = EventParser(), [], []
    for start in range(0, len(STREAM), size):
        found = parser.feed(STREAM[start : start + size])
        events += found
        ids += [parser.last_id] if found else []
    assert events == [
        StreamEvent("snapshot", {"rows": [], "version": "pg:0/1"}),
        StreamEvent("must-refetch", {"reason": "x"}),
    ]
    assert (ids[-1], parser.last_id, parser.retry_ms) == ("", "", 700)


def change(version: str = "pg:0/2", **given: Any) -> StreamEvent:
    return StreamEvent(
        "change", {"removed": [], "removed_at": [], "added": [], "added_at": [], "version": version, **given}
    )


def rows_of(*numbers: int) -> list[dict[str, Any]]:
    return [{"n": number} for number in numbers]


def started() -> SubscriberRows:
    rows = SubscriberRows()
    rows.hear(StreamEvent("snapshot", {"rows": rows_of(1, 2, 2, 3), "version": "pg:0/1"}))
    return rows


def test_rows_are_rebuilt_in_order() -> None:
    rows = started()
    rows.hear(change(removed=rows_of(1, 2), removed_at=[0, 2], added=rows_of(9, 8), added_at=[0, 3]))
    assert rows.rows == rows_of(9, 2, 3, 8)
    assert (rows.version, rows.changes, rows.snapshots) == ("pg:0/2", 1, 1)


@pytest.mark.parametrize(
    "event",
    [
        change(removed=rows_of(2), removed_at=[0]),
        change(removed=rows_of(3), removed_at=[4]),
        change(added=rows_of(5), added_at=[5]),
        change("pg:0/0"),
        StreamEvent("news", {"version": "pg:0/2"}),
    ],
)
def test_what_does_not_fit_is_noticed(event: StreamEvent) -> None:
    with pytest.raises(LostTrack):
        started().hear(event)
