"""What a hub and its receivers tell each other over a Unix socket.

A frame is a head (the body's length, its kind) and a body. Batches, of which there are many, are `marshal`: the fastest
that there is for tuples of texts, and it only has to be read by the same Python. All else is pickled. Both ends are
processes of one service, and the socket is in a directory that only its user can enter.

Not here: who sends what and when (`hub`, `stream`).
"""

import marshal
import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc.change import Batch, ChangedRow, CommittedTransaction, SchemaNotice, TableChange, TableLayout
from cdc.gtid import Gtids

_HEAD = struct.Struct("!IB")
_BATCH, _MESSAGE = 0, 1
#: A change that was begun to be read by another layout.
_ANYTHING: tuple[list[ChangedRow], list[ChangedRow], bool, bool] = ([], [], False, True)


@dataclass(frozen=True, slots=True)
class FollowRequest:
    """A receiver: these tables, by these layouts, from now on. Its first message, too. `server`: which one its own
    questions go to, as in `cdc.stream.StreamStart`."""

    generation: int
    layouts: Mapping[str, TableLayout]
    server: str = ""


@dataclass(frozen=True, slots=True)
class PositionRequest:
    """A receiver wants to know how far the stream is."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A receiver will never ask for what ends at or before."""

    position: int


@dataclass(frozen=True, slots=True)
class JoinReply:
    """The hub: everything behind `position` comes. `gtids`, `server`: as in `cdc.stream.StreamStart`."""

    position: int
    gtids: Gtids | None
    server: str


@dataclass(frozen=True, slots=True)
class FollowReply:
    """The hub: from here on, rows are those of that `FollowRequest`."""

    generation: int


@dataclass(frozen=True, slots=True)
class NoticeMessage:
    """The hub: this is about a table that is followed; it comes before any row that could be misread."""

    notice: SchemaNotice


@dataclass(frozen=True, slots=True)
class LossMessage:
    """The hub: there is no stream (any more), as in `StreamLost`. The last frame."""

    reason: str
    retryable: bool
    hint: str | None


Message = FollowRequest | PositionRequest | Acknowledgement | JoinReply | FollowReply | NoticeMessage | LossMessage


def frame_of(message: Message) -> bytes:
    """A message's frame."""
    return _framed(_MESSAGE, pickle.dumps(message))


def frame_of_batch(batch: Batch, layouts: Mapping[str, TableLayout]) -> bytes:
    """The frame of what a batch says of some tables, whose rows are to be laid out like that."""
    transactions = []
    for transaction in batch.transactions:
        changes = {
            name: (change.removed, change.added, change.truncated, change.overflow)
            if change.is_by(layouts[name])
            else _ANYTHING
            for name, change in transaction.tables.items()
            if name in layouts
        }
        if changes:
            transactions.append((transaction.id, transaction.end, changes))
    notices = [(n.table, n.reason, n.columns) for n in batch.schema if n.table in layouts]
    body = (batch.position, transactions, notices, batch.passed, batch.altered, batch.redefined)
    return _framed(_BATCH, marshal.dumps(body))


def _framed(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(len(body), kind) + body


class Frames:
    """Bytes in, in any pieces; messages and batches out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message | Batch]:
        """All that is whole by now."""
        buffer = self._buffer
        buffer += data
        found: list[Message | Batch] = []
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


def _batch(body: Any) -> Batch:
    position, transactions, notices, passed, altered, redefined = body
    return Batch(
        [
            CommittedTransaction(xid, end, {name: TableChange(*change) for name, change in changes.items()})
            for xid, end, changes in transactions
        ],
        position,
        [SchemaNotice(*notice) for notice in notices],
        passed,
        altered,
        redefined,
    )
