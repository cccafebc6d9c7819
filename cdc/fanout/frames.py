"""Messages between a hub and its receivers, and their frames on a Unix socket.

A frame is a header (length and kind of the body) and a body. Batches are marshalled, which is the fastest format for
tuples of texts and is read by the same version of Python; other messages are pickled. Both ends are processes of one
service, and the socket is in a directory that only its user can enter.

Not here: the order of messages (`hub`, `stream`).
"""

import marshal
import pickle
import struct
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from cdc.change import Batch, ChangedRow, CommittedTransaction, SchemaNotice, TableChange, TableLayout
from cdc.gtid import Gtids
from cdc.stream import StreamPlace

_HEAD = struct.Struct("!IB")
_BATCH, _MESSAGE = 0, 1
#: A change with rows of another layout: overflow.
_ANYTHING: tuple[list[ChangedRow], list[ChangedRow], bool, bool] = ([], [], False, True)


@dataclass(frozen=True, slots=True)
class FollowRequest:
    """Receiver's request to follow exactly these tables; its first message.

    `server` is the server of the receiver's own connections, as in `StreamStart`; `place` is where it continues an
    earlier stream, if it does.
    """

    generation: int
    layouts: Mapping[str, TableLayout]
    server: str = ""
    place: StreamPlace | None = None


@dataclass(frozen=True, slots=True)
class PositionRequest:
    """Receiver's request for the upstream's position."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Receiver's acknowledgement of everything that ends at or before `position`."""

    position: int


@dataclass(frozen=True, slots=True)
class MarkRequest:
    """Receiver's request that the stream have a place, since it stops there."""


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """Receiver's request that the log from the place on be there for another stream."""


@dataclass(frozen=True, slots=True)
class ReconnectRequest:
    """Receiver's request for another connection, if the stream still is that of this `server`, as in `StreamStart`."""

    server: str


@dataclass(frozen=True, slots=True)
class JoinReply:
    """Hub's first reply: everything after `position` follows, which may be before the receiver's own place. `gtids`,
    `server`, `continued` and `refusal` as in `StreamStart`; `place` is the stream's at `position`."""

    position: int
    gtids: Gtids | None
    server: str
    place: StreamPlace | None = None
    continued: bool = False
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class FollowReply:
    """Hub's reply that further rows are laid out as in the `FollowRequest` of that generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class NoPlaceReply:
    """Hub's reply to a `MarkRequest`: the stream has no place, and will have none."""


@dataclass(frozen=True, slots=True)
class NoticeMessage:
    """Hub's notice on a followed table, sent before any row that it concerns."""

    notice: SchemaNotice


@dataclass(frozen=True, slots=True)
class LossMessage:
    """Hub's last message: the stream is lost, as in `StreamLost`."""

    reason: str
    retryable: bool
    hint: str | None


#: Requests that concern the stream which runs.
StreamRequest = PositionRequest | Acknowledgement | MarkRequest | LeaveRequest | ReconnectRequest
Request = FollowRequest | StreamRequest
Reply = JoinReply | FollowReply | NoPlaceReply | NoticeMessage | LossMessage
Message = Request | Reply


def frame_of(message: Message) -> bytes:
    """Return a message's frame."""
    return _framed(_MESSAGE, pickle.dumps(message))


@dataclass(slots=True)
class PlacedBatch(Batch):
    """A batch with the stream's place behind it; None if no stream can continue there."""

    place: StreamPlace | None = None


def frame_of_batch(batch: Batch, layouts: Mapping[str, TableLayout], place: StreamPlace | None = None) -> bytes:
    """Return the frame of a `PlacedBatch`, restricted to the tables of `layouts`.

    Changes whose rows have another layout than the table's become overflow.
    """
    transactions = []
    for transaction in batch.transactions:
        changes = {
            name: (
                change.removed,
                change.added,
                change.truncated,
                change.overflow,
                None,
                change.partial,
                change.implied,
            )
            if change.has_layout(layouts[name])
            else _ANYTHING
            for name, change in transaction.tables.items()
            if name in layouts
        }
        if changes:
            transactions.append((transaction.id, transaction.end, changes))
    notices = [astuple(notice) for notice in batch.schema if notice.table in layouts]
    of_stream = batch.passed, batch.altered, batch.redefined, batch.resumed, batch.server
    body = (batch.position, transactions, notices, *of_stream, None if place is None else astuple(place))
    return _framed(_BATCH, marshal.dumps(body))


def _framed(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(len(body), kind) + body


class Frames:
    """Parser of frames: bytes in, messages and batches out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message | PlacedBatch]:
        """Add received bytes; return the messages and batches that are complete."""
        buffer = self._buffer
        buffer += data
        found: list[Message | PlacedBatch] = []
        at, end = 0, len(buffer)
        with memoryview(buffer) as view:
            while end - at >= _HEAD.size:
                length, kind = _HEAD.unpack_from(view, at)
                start = at + _HEAD.size
                if end - start < length:
                    break
                at = start + length
                with view[start:at] as body:
                    found.append(_batch(marshal.loads(body)) if kind == _BATCH else pickle.loads(body))
        del buffer[:at]
        return found


def _batch(body: Any) -> PlacedBatch:
    position, transactions, notices, *of_stream, place = body
    batch = PlacedBatch(
        [
            CommittedTransaction(xid, end, {name: TableChange(*change) for name, change in changes.items()})
            for xid, end, changes in transactions
        ],
        position,
        [SchemaNotice(*notice) for notice in notices],
        *of_stream,
    )
    if place is not None:
        batch.place = StreamPlace(*place)
    return batch
