"""Reading side of the fan-out: one change stream, decoded once for all receivers.

*Theory*: the stream is read while there are receivers, at the speed of the slowest one; the database keeps the rest. A
receiver joins between two batches: everything after that position follows, and a snapshot that it takes afterwards
sees everything before it (PostgreSQL: lookups that see all transactions that had begun do). When the stream is lost,
all receivers are informed and disconnected; the next one to connect starts another stream. The first stream waits for
all receivers, which may continue an earlier one at different places.

A stream may have a place only if it is asked for one (`ContinuableStream.mark_place`), and is continued at one place
only. So when receivers are about to stop, it rests at its next place: all of them get there, and none gets further.

*Invariants*: each receiver gets the messages in the order of one stream. The consequences of one batch for all
receivers are sent without awaiting in between.

Not here: the implementation of the stream, the process (`service.engine.stream_process`).
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from socket import socket
from typing import Any, assert_never

from cdc.change import Batch, StreamLost, TableLayout
from cdc.fanout.frames import (
    Acknowledgement,
    FollowReply,
    FollowRequest,
    JoinReply,
    LeaveRequest,
    LossMessage,
    MarkRequest,
    NoPlaceReply,
    NoticeMessage,
    PositionRequest,
    ReconnectRequest,
    Request,
    StreamRequest,
    frame_of,
    frame_of_batch,
)
from cdc.fanout.places import SharedContinuableStream, start_at_places
from cdc.fanout.receiver import Receiver
from cdc.fanout.shared_tables import Addressed, SharedTables
from cdc.stream import ChangeStream, ContinuableStream, StreamPlace

#: A receiver that reads nothing for so long is disconnected, since the others wait for it. An engine does not read
#: during a long step; if it were disconnected then, it would have to repeat the step endlessly.
STALLED_S = 300.0
#: Maximum wait of the first stream for all receivers; those that come later cannot continue at a place.
GATHER_S = 15.0
#: Maximum rest at a place where receivers stop, if no receiver joins before.
REST_S = 15.0

MakeStream = Callable[[Callable[[], Mapping[str, TableLayout]]], ChangeStream]


class Hub:
    """The hub: call `serve` with a listening socket, then `run`.

    `prepare` is called before each stream, `on_stalled` when a receiver that has read nothing for `stalled_s` is
    disconnected. The first stream waits `gather_s` for `receivers`. A stream rests at a place until a receiver joins,
    or for `rest_s`.

    *State*: `_changes`, the stream if one runs; `_at`, its position; `_server`, the receivers' server; `_refusals`, why
    a receiver with a place cannot continue there, empty if it can; `_marking`, the search for a place if receivers are
    about to stop.
    """

    def __init__(
        self,
        make_stream: MakeStream,
        prepare: Callable[[], Awaitable[None]],
        on_stalled: Callable[[], None],
        batch_rows: int = 1000,
        stalled_s: float = STALLED_S,
        receivers: int = 1,
        gather_s: float = GATHER_S,
        rest_s: float = REST_S,
    ) -> None:
        self._make_stream = make_stream
        self._prepare = prepare
        self._on_stalled = on_stalled
        self._batch_rows = batch_rows
        self._stalled_s = stalled_s
        self._gathers = receivers
        self._gather_s = gather_s
        self._rest_s = rest_s
        self._marking: asyncio.Task[None] | None = None
        self._refusals: dict[Receiver, str] = {}
        self._receivers: set[Receiver] = set()
        self._shared: SharedTables[Receiver] = SharedTables()
        self._anybody, self._nobody = asyncio.Event(), asyncio.Event()
        self._arrived = asyncio.Event()
        self._streaming: asyncio.Task[None] | None = None
        self._changes: ChangeStream | None = None
        self._at = JoinReply(0, None, "")
        self._server = ""

    async def serve(self, listener: socket) -> asyncio.Server:
        return await asyncio.start_unix_server(self._receive, sock=listener)

    async def deserted(self) -> None:
        """Wait until no receiver is left."""
        while self._receivers:
            self._nobody.clear()
            await self._nobody.wait()

    async def run(self) -> None:
        """Run a stream whenever there are receivers, without end."""
        while True:
            await self._anybody.wait()
            streaming = self._streaming = asyncio.ensure_future(self._stream())
            try:
                await asyncio.wait({streaming})
            finally:
                streaming.cancel()
                (ended,) = await asyncio.gather(streaming, return_exceptions=True)
            if isinstance(ended, StreamLost):
                self._end(ended)
            elif isinstance(ended, Exception):
                raise ended

    # ── The stream ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _stream(self) -> None:
        """Run one stream until there are no receivers. Raises StreamLost."""
        await self._prepare()
        source = self._make_stream(self._look)
        try:
            await self._gather()
            places = {receiver: receiver.place for receiver in self._receivers if receiver.place is not None}
            started, self._refusals = await start_at_places(source, places)
            self._gathers = 0
            placed = source if isinstance(source, SharedContinuableStream) else None
            at = JoinReply(started.position, started.gtids, started.server, _place_at(placed, started.position))
            self._changes, self._at = source, at
            for receiver in self._receivers:
                self._join(receiver)
            while self._receivers:
                batch = await source.next_batch(self._batch_rows)
                self._publish(batch, _place_at(placed, batch.position))
                await self._until_taken()
                if placed is not None and self._marking is not None and self._at.place is not None:
                    await self._rest()
                    self._stop_marking()
                    placed.unmark()
        finally:
            self._changes, self._refusals = None, {}
            self._stop_marking()
            self._shared.restart()
            await _to_its_end(source.close())

    async def _gather(self) -> None:
        """Wait for the receivers of the first stream."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._gather_s):
                while len(self._receivers) < self._gathers:
                    self._arrived.clear()
                    await self._arrived.wait()

    async def _rest(self) -> None:
        """Wait until all receivers have left, which ends this task. If another one joins, or they take too long, the
        stream has to go on."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._rest_s):
                await self._arrived.wait()

    def _mark(self, source: ChangeStream) -> None:
        """Have the stream get a place, unless that is under way."""
        if self._marking is None:
            self._arrived.clear()
        if self._marking is None or self._marking.done():
            self._marking = asyncio.ensure_future(self._get_place(source))

    async def _get_place(self, source: ChangeStream) -> None:
        """Have a batch with a place come next, or inform the receivers that there can be none."""
        if isinstance(source, SharedContinuableStream):
            source.request_position()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rest_s):
                    await source.mark_place()
            if source.place is not None:
                return
            source.unmark()
        for receiver in self._receivers:
            receiver.send(frame_of(NoPlaceReply()))

    def _stop_marking(self) -> None:
        marking, self._marking = self._marking, None
        if marking is not None:
            marking.cancel()

    def _join(self, receiver: Receiver) -> None:
        """Have a receiver get batches from now on, if it has not yet."""
        if receiver.place is None:
            receiver.join(self._at)
        else:
            late = "The change stream began before this engine asked for its place."
            refusal = self._refusals.get(receiver, late)
            receiver.join(replace(self._at, continued=not refusal, refusal=refusal))

    def _look(self) -> Mapping[str, TableLayout]:
        """Return the layouts to decode; the stream calls this before decoding. Requests that waited take effect."""
        self._shared.looked()
        if not all(receiver.settled for receiver in self._receivers):
            asyncio.get_running_loop().call_soon(self._settle_all)
        return dict(self._shared.decoded)

    def _publish(self, batch: Batch, place: StreamPlace | None) -> None:
        by_tables: dict[frozenset[str], list[Receiver]] = defaultdict(list)
        for receiver in self._receivers:
            if receiver.joined:
                by_tables[self._shared.tables(receiver)].append(receiver)
        for tables, receivers in by_tables.items():
            frame = frame_of_batch(batch, {name: self._shared.decoded[name] for name in tables}, place)
            for receiver in receivers:
                receiver.send(frame)
        self._shared.advance(batch.position)
        for notice in batch.schema:
            self._shared.record(notice, batch.position)
        gtids = self._at.gtids
        if gtids is not None and batch.passed:
            gtids = gtids.extended(batch.passed)
        if batch.server:
            self._server = batch.server
        self._at = JoinReply(batch.position, gtids, batch.server or self._at.server, place)

    async def _until_taken(self) -> None:
        # Requests are handled even during a backlog.
        await asyncio.sleep(0)
        full = [receiver for receiver in self._receivers if receiver.full]
        taken = await asyncio.gather(*(receiver.drained(self._stalled_s) for receiver in full))
        for receiver, is_taken in zip(full, taken, strict=True):
            if not is_taken:
                self._on_stalled()
                receiver.abort()
                self._left(receiver)

    def _end(self, lost: StreamLost) -> None:
        """Inform and disconnect all receivers."""
        frame = frame_of(LossMessage(lost.reason, lost.retryable, lost.hint))
        for receiver in list(self._receivers):
            receiver.refuse(frame)
            self._left(receiver)

    # ── Receivers ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver = Receiver(reader, writer)
        try:
            while (requests := await receiver.requests()) is not None:
                for request in requests:
                    self._handle(receiver, request)
        except OSError:
            pass  # The receiver has ended.
        finally:
            self._left(receiver)
            receiver.close()

    def _handle(self, receiver: Receiver, request: Request) -> None:
        if receiver.gone:
            return
        if isinstance(request, FollowRequest):
            self._follow(receiver, request)
        elif self._changes is not None:
            self._pass_on(receiver, request, self._changes)

    def _follow(self, receiver: Receiver, request: FollowRequest) -> None:
        receiver.follows, receiver.settled = request, False
        receiver.place = receiver.place or request.place
        if receiver not in self._receivers:
            self._check_server(request.server)
            self._arrived.set()
        self._receivers.add(receiver)
        self._anybody.set()
        self._settle(receiver)

    def _pass_on(self, receiver: Receiver, request: StreamRequest, source: ChangeStream) -> None:
        match request:
            case PositionRequest():
                source.request_position()
            case Acknowledgement():
                receiver.acknowledged = request.position
                source.acknowledge(min(r.acknowledged for r in self._receivers if r.joined))
            case MarkRequest():
                self._mark(source)
            case LeaveRequest():
                if isinstance(source, ContinuableStream):
                    source.leave()
            case ReconnectRequest():
                if isinstance(source, ContinuableStream) and request.server == self._at.server:
                    source.reconnect()
            case _:
                assert_never(request)

    def _check_server(self, server: str) -> None:
        """End the stream of a server that was replaced: a receiver of the new server must not join it."""
        if self._receivers and "" not in (server, self._server) and server != self._server:
            self._end(StreamLost("The database server was replaced by another one.", retryable=True))
        self._server = server or self._server

    def _settle_all(self) -> None:
        for receiver in list(self._receivers):
            if not receiver.settled:
                self._settle(receiver)

    def _settle(self, receiver: Receiver) -> None:
        """Put a receiver's request into effect, once the decoder has dropped the layouts that it displaces."""
        layouts = receiver.follows.layouts
        self._send_notices(self._shared.displace(receiver, layouts))
        if self._changes is None:
            # No decoder has layouts to drop.
            self._shared.looked()
        elif not self._shared.is_ready(layouts):
            self._changes.request_position()
            return
        self._send_notices(self._shared.assign(receiver, layouts))
        if self._changes is not None and not receiver.joined:
            # Not earlier: its snapshot must see the changes of tables that were not followed yet.
            self._join(receiver)
        receiver.settled = True
        receiver.send(frame_of(FollowReply(receiver.follows.generation)))

    def _send_notices(self, notices: Addressed[Receiver]) -> None:
        for receiver, notice in notices:
            receiver.send(frame_of(NoticeMessage(notice)))

    def _left(self, receiver: Receiver) -> None:
        self._receivers.discard(receiver)
        self._shared.forget(receiver)
        if not self._receivers:
            self._anybody.clear()
            self._nobody.set()
            self._changes = None
            streaming, self._streaming = self._streaming, None
            if streaming is not None and streaming is not asyncio.current_task():
                streaming.cancel()


async def _to_its_end(closing: Coroutine[Any, Any, None]) -> None:
    """Wait for a stream that is closed, also if that is cancelled: its slot must not stay."""
    task = asyncio.ensure_future(closing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _place_at(source: SharedContinuableStream | None, position: int) -> StreamPlace | None:
    """Return the stream's place if it is at this position."""
    place = None if source is None else source.place
    return None if place is None or place.position != position else place
