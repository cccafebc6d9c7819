"""Events for subscribers, each serialised once for all of them, as JSON and as server-sent events.

*Invariants*: an event's version is one at which it leads to the exact answer. A row's bytes are equal in all
answers.
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
    #: Removed and added rows; for several changes at once, all up to the event's version, closed by ``up-to-date``.
    CHANGE = "change"
    UP_TO_DATE = "up-to-date"
    #: End of the subscription: the subscriber's rows can no longer be updated.
    MUST_REFETCH = "must-refetch"


@dataclass(frozen=True, slots=True)
class Entry:
    """An event. `token` resumes a subscription after it; empty if that is impossible. `sse` is ready to send."""

    kind: EventKind
    token: str
    json: bytes
    sse: bytes


def snapshot(rows: bytes, position: Position, token: str) -> Entry:
    """Return the event with all rows, a JSON array."""
    json = b'{"rows":%b,"version":"%b"}' % (rows, version_text(position).encode())
    return Entry(EventKind.SNAPSHOT, token, json, _event(EventKind.SNAPSHOT, token, json))


def change(found: Change, position: Position, token: str) -> Entry:
    """Return the event from the previous rows to those of `position`: remove `removed_at` from the end, then insert
    at `added_at` from the start."""
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
    """Return the event of no change up to `position`."""
    json = b'{"version":"%b"}' % version_text(position).encode()
    return Entry(EventKind.UP_TO_DATE, token, json, _event(EventKind.UP_TO_DATE, token, json))


def must_refetch(reason: str) -> Entry:
    """Return the last event. Its id is empty, so that no client resumes with an earlier one."""
    json = orjson.dumps({"reason": reason})
    return Entry(EventKind.MUST_REFETCH, "", json, _event(EventKind.MUST_REFETCH, "", json))


def _numbers(numbers: Sequence[int]) -> bytes:
    return b"[%b]" % ",".join(map(str, numbers)).encode()


def _event(kind: EventKind, token: str, json: bytes) -> bytes:
    # A JSON column may contain line breaks; the event's data then has several lines.
    lines = b"\ndata: ".join(json.splitlines())
    return b"event: %b\nid:%b\ndata: %b\n\n" % (kind.encode(), f" {token}".rstrip().encode(), lines)
