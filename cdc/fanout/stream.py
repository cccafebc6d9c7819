"""Receiving side of the fan-out: a change stream that another process reads and decodes.

*Theory*: a change of the followed tables has two steps: a request to the hub, and a reply in the stream from which on
it is in effect. Until then rows have the old layout (`TableChange.layout`); a caller that follows a table anew waits
for the reply, and takes a snapshot afterwards.

*Invariant*: a layout with a fatal notice is not requested again, unless it was read again.

Not here: the reading side (`hub`).
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import assert_never, cast

from cdc.change import Batch, SchemaNotice, StreamLost, TableLayout
from cdc.fanout.frames import (
    Acknowledgement,
    FollowReply,
    FollowRequest,
    Frames,
    JoinReply,
    LeaveRequest,
    LossMessage,
    MarkRequest,
    Message,
    NoPlaceReply,
    NoticeMessage,
    PlacedBatch,
    PositionRequest,
    ReconnectRequest,
    frame_of,
)
from cdc.stream import StreamPlace, StreamStart, UpstreamSnapshot

#: Timeout of joining: the hub's stream may take a minute to start.
START_S = 90.0
#: Minimum interval of acknowledgements.
ACKNOWLEDGE_S = 0.1
#: Maximum bytes received and not consumed.
AHEAD_BYTES = 4 << 20


class FanoutStream(asyncio.Protocol):
    """A `cdc.stream.ChangeStream` of a hub's transactions.

    `path` is the hub's socket; `tables` returns the layouts of the tables to follow; `take_snapshot` takes a snapshot
    of the database, not older than the call; `server` returns the identity of the database server.

    *State*: `_requested`, by generation, layouts requested and not in effect; `_in_effect`, the last ones that are;
    `_wrong`, layouts with a fatal notice; `_received_bytes`, bytes since the queue was empty; `_place`, the hub's place
    at `_position`; `_continues`, where this stream continues an earlier one: what ends at or before it is skipped.
    """

    held_up: str | None = None

    def __init__(
        self,
        path: Path,
        tables: Callable[[], Mapping[str, TableLayout]],
        take_snapshot: Callable[[], Awaitable[UpstreamSnapshot]],
        server: Callable[[], str],
        start_timeout_s: float = START_S,
    ) -> None:
        self._path = path
        self._tables = tables
        self._take_snapshot = take_snapshot
        self._server = server
        self._start_timeout_s = start_timeout_s
        self._transport: asyncio.Transport | None = None
        self._frames = Frames()
        self._received: deque[Message | PlacedBatch] = deque()
        self._arrived = asyncio.Event()
        self._received_bytes = 0
        self._paused = False
        self._generation = 0
        self._requested: dict[int, dict[str, TableLayout]] = {}
        self._in_effect: dict[str, TableLayout] = {}
        self._wrong: dict[str, TableLayout] = {}
        self._effective = asyncio.Event()
        self._position = 0
        self._place: StreamPlace | None = None
        #: Set once there is a place behind the last batch acknowledged, or there can be none.
        self._placed = asyncio.Event()
        self._continues: StreamPlace | None = None
        #: The last position to acknowledge, the last acknowledged one, and the pause between two acknowledgements.
        self._applied = self._acknowledged = 0
        self._pause: asyncio.TimerHandle | None = None

    async def start(self) -> StreamStart:
        """Join the stream, then take a snapshot. Raises StreamLost, and what `take_snapshot` raises."""
        return await self._started()

    async def start_at(self, place: str) -> StreamStart:
        """Join the stream, with what follows `place` if the hub has it, then take a snapshot. Raises StreamLost, and
        what `take_snapshot` raises."""
        self._continues = StreamPlace(*json.loads(place))
        return await self._started()

    @property
    def place(self) -> StreamPlace | None:
        """The place behind the last batch."""
        place = self._place
        if place is None:
            return None
        return StreamPlace(self._position, json.dumps([self._position, place.text, place.hidden]), place.hidden)

    async def mark_place(self) -> None:
        """Have the hub's stream get a place, unless there is one behind each batch."""
        self._placed.clear()
        if self._place is None:
            self._send(MarkRequest())
            await self._placed.wait()

    def leave(self) -> None:
        """Have the hub let the upstream keep its log when the stream is closed."""
        self._send(LeaveRequest())

    def reconnect(self) -> None:
        """Have the hub replace its connection, unless another receiver has had it do so."""
        self._send(ReconnectRequest(self._server()))

    async def _started(self) -> StreamStart:
        try:
            joined = await self._reach()
            snapshot = await self._take_snapshot()
        except BaseException:
            await self.close()
            raise
        if self._continues is not None and joined.continued:
            self._position = self._continues.position
            # The log before a hidden place may have been discarded since.
            self._place = None if self._continues.hidden else self._continues
        else:
            self._position, self._place, self._continues = joined.position, joined.place, None
            # Transactions that end before that position may not be visible yet.
            snapshot = snapshot.closed()
        return StreamStart(
            self._position, snapshot, joined.gtids, joined.server, self._continues is not None, joined.refusal
        )

    async def _reach(self) -> JoinReply:
        try:
            async with asyncio.timeout(self._start_timeout_s):
                return await self._join()
        except TimeoutError:
            reason = f"The process that reads the change stream did not answer within {self._start_timeout_s:g} s."
            raise StreamLost(reason, retryable=True) from None
        except OSError as problem:
            reason = f"The process that reads the change stream cannot be reached: {problem.strerror or problem}."
            raise StreamLost(reason, retryable=True) from None

    async def _join(self) -> JoinReply:
        await asyncio.get_running_loop().create_unix_connection(lambda: self, str(self._path))
        self._send_layouts()
        while not self._received:
            await self._wait()
        first = self._received.popleft()
        if isinstance(first, LossMessage):
            raise _lost(first)
        assert isinstance(first, JoinReply), "a hub's first message"
        return first

    # ── The stream ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def next_batch(self, max_rows: int = 1000) -> Batch:
        """Wait for transactions, notices, or a later position; batches of the hub are joined. Raises StreamLost."""
        while True:
            if self._transport is None:
                raise StreamLost("The stream is closed.", retryable=True)
            self._send_layouts()
            batch = self._take(max_rows)
            if batch is not None:
                return batch
            await self._wait()

    def _take(self, max_rows: int) -> Batch | None:
        """Join what was received into one batch; None if nothing was."""
        taken = PlacedBatch([], self._position, place=self._place)
        rows, anything = 0, False
        while self._received and rows < max_rows:
            message = self._received[0]
            # A schema change is applied later than what precedes it.
            if anything and (isinstance(message, LossMessage) or (isinstance(message, Batch) and message.altered)):
                break
            if isinstance(message, LossMessage):
                raise _lost(message)
            self._received.popleft()
            match message:
                case FollowReply():
                    self._take_effect(message.generation)
                case NoPlaceReply():
                    self._placed.set()
                case NoticeMessage():
                    self._add_notices([message.notice], taken)
                    anything = True
                case PlacedBatch():
                    rows += self._add(message, taken)
                    self._add_notices(message.schema, taken)
                    anything = True
                case JoinReply() | FollowRequest() | PositionRequest() | Acknowledgement():
                    raise AssertionError(f"a hub does not send {message}")
                case MarkRequest() | LeaveRequest() | ReconnectRequest():
                    raise AssertionError(f"a hub does not send {message}")
                case _:
                    assert_never(message)
        self._resume()
        if self._continues is not None and taken.position > self._continues.position:
            self._continues = None
        self._position, self._place = taken.position, taken.place
        return taken if anything else None

    def _add(self, batch: PlacedBatch, taken: PlacedBatch) -> int:
        """Append a batch to `taken`; return its number of rows."""
        rows, transactions = 0, batch.transactions
        if self._continues is not None:
            transactions = [each for each in transactions if each.end > self._continues.position]
        for transaction in transactions:
            for name, change in transaction.tables.items():
                change.layout = self._in_effect.get(name)
                rows += len(change.removed) + len(change.added)
        taken.transactions += transactions
        if batch.position >= taken.position:
            taken.position, taken.place = batch.position, batch.place
        taken.passed += batch.passed
        taken.altered = taken.altered or batch.altered
        taken.redefined += batch.redefined
        taken.resumed = taken.resumed or batch.resumed
        taken.server = batch.server or taken.server
        return rows

    def _add_notices(self, notices: list[SchemaNotice], taken: Batch) -> None:
        """Add notices; after a fatal one no row of the table is received."""
        taken.schema += notices
        for notice in notices:
            if not notice.columns and notice.table in self._in_effect:
                self._wrong[notice.table] = self._in_effect.pop(notice.table)

    async def _wait(self) -> None:
        if not self._received:
            self._arrived.clear()
            await self._arrived.wait()

    # ── Followed tables ──────────────────────────────────────────────────────────────────────────────────────────────

    def _send_layouts(self) -> None:
        """Request the current layouts from the hub, if they differ from the last request."""
        tables = self._tables()
        self._wrong = {name: layout for name, layout in self._wrong.items() if tables.get(name) is layout}
        wanted = {name: layout for name, layout in tables.items() if name not in self._wrong}
        told = self._requested.get(self._generation, self._in_effect)
        if self._generation and len(wanted) == len(told) and all(told.get(n) is layout for n, layout in wanted.items()):
            return
        self._generation += 1
        self._requested[self._generation] = wanted
        self._send(FollowRequest(self._generation, wanted, self._server(), self._continues))

    def _take_effect(self, generation: int) -> None:
        """Note that a request is in effect; the hub skips the earlier ones."""
        self._in_effect = dict(self._requested[generation])
        for told in [told for told in self._requested if told <= generation]:
            del self._requested[told]
        self._effective.set()

    async def wait_followed(self) -> None:
        """Wait until the current layouts are in effect, or the connection has ended."""
        self._send_layouts()
        generation = self._generation
        while self._transport is not None and any(told <= generation for told in self._requested):
            self._effective.clear()
            await self._effective.wait()

    # ── The connection ───────────────────────────────────────────────────────────────────────────────────────────────

    def request_position(self) -> None:
        """Request the upstream's position from the hub."""
        self._send(PositionRequest())

    def acknowledge(self, position: int) -> None:
        """Acknowledge a position to the hub, the last one within `ACKNOWLEDGE_S`: a PostgreSQL that stops waits for
        it."""
        if self._place is not None and position == self._position:
            self._placed.set()
        self._applied = position
        if self._pause is None:
            self._send_acknowledgement()

    def _send_acknowledgement(self) -> None:
        self._pause = None
        if self._acknowledged != self._applied:
            self._acknowledged = self._applied
            self._send(Acknowledgement(self._acknowledged))
            self._pause = asyncio.get_running_loop().call_later(ACKNOWLEDGE_S, self._send_acknowledgement)

    def _send(self, message: Message) -> None:
        # `next_batch` reports a closed connection.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame_of(message))

    def _resume(self) -> None:
        if self._received:
            return
        self._received_bytes = 0
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """(asyncio) The connection to the hub's process, or to the one that starts it, is open."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """(asyncio) Data was received."""
        self._received.extend(self._frames.feed(data))
        self._received_bytes += len(data)
        if self._received_bytes >= AHEAD_BYTES and self._received and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._arrived.set()

    def connection_lost(self, problem: Exception | None) -> None:  # noqa: ARG002
        """(asyncio) The connection has ended."""
        self._received.append(LossMessage("The process that reads the change stream has ended.", True, None))
        self._arrived.set()
        self._placed.set()

    async def close(self) -> None:
        transport, self._transport = self._transport, None
        if self._pause is not None:
            self._pause.cancel()
        if transport is not None:
            # Behind the last request.
            transport.close()
        self._effective.set()
        self._arrived.set()


def _lost(lost: LossMessage) -> StreamLost:
    return StreamLost(lost.reason, lost.retryable, lost.hint)
