"""What subscribers are sent, each serialised once for all of them: as JSON, and as server-sent events.

*Invariants*: an event's JSON has a version at which it leads to the exact answer. A row's bytes are as in every answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import orjson

from dataflow.types import Position
from service.ground.version import version_text
from service.worker.subscriptions.diff import Change


class EventKind(StrEnum):
    """The name of an event."""

    SNAPSHOT = "snapshot"
    #: Rows that went and came, and that this is all up to its version: a change closed by ``up-to-date``.
    CHANGE = "change"
    UP_TO_DATE = "up-to-date"
    #: The subscription is over: what the subscriber has cannot be brought up to date any more.
    MUST_REFETCH = "must-refetch"


@dataclass(frozen=True, slots=True)
class Entry:
    """An event. `token` is what a subscriber resumes behind it with; empty if it cannot. `sse` is ready to send."""

    kind: EventKind
    token: str
    json: bytes
    sse: bytes


def snapshot(rows: bytes, position: Position, token: str) -> Entry:
    """All rows, a JSON array."""
    json = b'{"rows":%b,"version":"%b"}' % (rows, version_text(position).encode())
    return Entry(EventKind.SNAPSHOT, token, json, _event(EventKind.SNAPSHOT, token, json))


def change(found: Change, position: Position, token: str) -> Entry:
    """From the rows before to those of `position`: take away `removed_at` from the back, then insert at `added_at` from
    the front."""
    json = b'{"removed":[%b],"removed_at":%b,"added":[%b],"added_at":%b,"version":"%b"}' % (
        b",".join(found.removed),
        _numbers(found.removed_at),
        b",".join(found.added),
        _numbers(found.added_at),
        version_text(position).encode(),
    )
    closed = up_to_date(position, token)
    return Entry(EventKind.CHANGE, token, json, _event(EventKind.CHANGE, token, json) + closed.sse)


def up_to_date(position: Position, token: str) -> Entry:
    """Nothing has changed up to `position`."""
    json = b'{"version":"%b"}' % version_text(position).encode()
    return Entry(EventKind.UP_TO_DATE, token, json, _event(EventKind.UP_TO_DATE, token, json))


def must_refetch(reason: str) -> Entry:
    """The end. Its id is empty, so that nobody resumes with one from before."""
    json = orjson.dumps({"reason": reason})
    return Entry(EventKind.MUST_REFETCH, "", json, _event(EventKind.MUST_REFETCH, "", json))


def _numbers(numbers: Sequence[int]) -> bytes:
    return b"[%b]" % ",".join(map(str, numbers)).encode()


def _event(kind: EventKind, token: str, json: bytes) -> bytes:
    # Where JSON that a column has verbatim is in several lines, the event's data are.
    lines = b"\ndata: ".join(json.splitlines())
    return b"event: %b\nid:%b\ndata: %b\n\n" % (kind.encode(), f" {token}".rstrip().encode(), lines)
