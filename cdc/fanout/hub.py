"""The reading side: one stream, read and decoded once for all who listen.

*Theory*: the stream is read while anybody listens, and as fast as the slowest of them takes it; the database keeps the
rest. Who comes later joins between two batches: everything behind that position comes, and the snapshot that is taken
next sees all before it (of PostgreSQL: lookups that see what had begun by then do). When the stream is lost, all are
told and let go; whoever comes back begins another one.

*Invariants*: what a receiver is told, and the order of it, is that of one stream. All that one batch means to receivers
is done without waiting in between.

Not here: which source that is, the process around it (`service.engine.stream_process`).
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from socket import socket

from cdc.change import Batch, StreamLost, TableLayout
from cdc.fanout.frames import (
    Acknowledgement,
    FollowReply,
    FollowRequest,
    JoinReply,
    LossMessage,
    Message,
    NoticeMessage,
    PositionRequest,
    frame_of,
    frame_of_batch,
)
from cdc.fanout.receiver import Receiver
from cdc.fanout.shared_tables import Addressed, SharedTables
from cdc.stream import ChangeStream

#: A receiver that takes nothing for so long is let go, so that the others get on. An engine says nothing while it does
#: one thing that takes long; to begin it again after that would be to begin it for ever.
STALLED_S = 300.0

MakeStream = Callable[[Callable[[], Mapping[str, TableLayout]]], ChangeStream]


class Hub:
    """`serve` a listening socket and `run`, both for ever. `prepare` is called before each stream, `on_stalled` when a
    receiver is let go because it took nothing for `stalled_s`.

    *State*: `_changes`, while there is a stream; `_at`, where it is; `_server`, which one those who listen are with.
    """

    def __init__(
        self,
        make_stream: MakeStream,
        prepare: Callable[[], Awaitable[None]],
        on_stalled: Callable[[], None],
        batch_rows: int = 1000,
        stalled_s: float = STALLED_S,
    ) -> None:
        self._make_stream = make_stream
        self._prepare = prepare
        self._on_stalled = on_stalled
        self._batch_rows = batch_rows
        self._stalled_s = stalled_s
        self._receivers: set[Receiver] = set()
        self._union: SharedTables[Receiver] = SharedTables()
        self._anybody = asyncio.Event()
        self._streaming: asyncio.Task[None] | None = None
        self._changes: ChangeStream | None = None
        self._at = JoinReply(0, None, "")
        self._server = ""

    async def serve(self, listener: socket) -> asyncio.Server:
        """Accepts receivers from now on."""
        return await asyncio.start_unix_server(self._receive, sock=listener)

    async def run(self) -> None:
        """A stream whenever somebody listens. For ever."""
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
        """Until it is lost (raises `StreamLost`) or nobody listens any more."""
        await self._prepare()
        source = self._make_stream(self._look)
        try:
            started = await source.start()
            self._changes, self._at = source, JoinReply(started.position, started.gtids, started.server)
            for receiver in self._receivers:
                receiver.join(self._at)
            while self._receivers:
                self._publish(await source.next_batch(self._batch_rows))
                await self._until_taken()
        finally:
            self._changes = None
            self._union.restart()
            await source.close()

    def _look(self) -> Mapping[str, TableLayout]:
        """The source looks at what it is to decode, before it decodes anything. Who waits for that can be settled."""
        self._union.looked()
        if not all(receiver.settled for receiver in self._receivers):
            asyncio.get_running_loop().call_soon(self._settle_all)
        return dict(self._union.decoded)

    def _publish(self, batch: Batch) -> None:
        by_tables: dict[frozenset[str], list[Receiver]] = defaultdict(list)
        for receiver in self._receivers:
            if receiver.joined:
                by_tables[self._union.tables(receiver)].append(receiver)
        for tables, receivers in by_tables.items():
            frame = frame_of_batch(batch, {name: self._union.decoded[name] for name in tables})
            for receiver in receivers:
                receiver.send(frame)
        self._union.advance(batch.position)
        for notice in batch.schema:
            self._union.say(notice, batch.position)
        gtids = self._at.gtids
        if gtids is not None and batch.passed:
            gtids = gtids.extended(batch.passed)
        self._at = JoinReply(batch.position, gtids, self._at.server)

    async def _until_taken(self) -> None:
        # Whoever says something is heard, also while there is a backlog.
        await asyncio.sleep(0)
        full = [receiver for receiver in self._receivers if receiver.full]
        taken = await asyncio.gather(*(receiver.drained(self._stalled_s) for receiver in full))
        for receiver, is_taken in zip(full, taken, strict=True):
            if not is_taken:
                self._on_stalled()
                receiver.abort()
                self._left(receiver)

    def _end(self, lost: StreamLost) -> None:
        """All are told, and have gone."""
        frame = frame_of(LossMessage(lost.reason, lost.retryable, lost.hint))
        for receiver in list(self._receivers):
            receiver.refuse(frame)
            self._left(receiver)

    # ── Receivers ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver = Receiver(reader, writer)
        try:
            while (messages := await receiver.messages()) is not None:
                for message in messages:
                    self._heed(receiver, message)
        except OSError:
            pass  # It died.
        finally:
            self._left(receiver)
            receiver.close()

    def _heed(self, receiver: Receiver, message: Message) -> None:
        if receiver.gone:
            return
        if isinstance(message, FollowRequest):
            receiver.follows, receiver.settled = message, False
            if receiver not in self._receivers:
                self._check_server(message.server)
            self._receivers.add(receiver)
            self._anybody.set()
            self._settle(receiver)
        elif self._changes is None:
            return  # There is nothing to ask yet.
        elif isinstance(message, PositionRequest):
            self._changes.request_position()
        elif isinstance(message, Acknowledgement):
            receiver.acknowledged = message.position
            self._changes.acknowledge(min(r.acknowledged for r in self._receivers if r.joined))

    def _check_server(self, server: str) -> None:
        """Who comes after a fail-over must not join the stream of the server that was replaced."""
        if self._receivers and "" not in (server, self._server) and server != self._server:
            self._end(StreamLost("Another database server answers by now.", retryable=True))
        self._server = server or self._server

    def _settle_all(self) -> None:
        for receiver in list(self._receivers):
            if not receiver.settled:
                self._settle(receiver)

    def _settle(self, receiver: Receiver) -> None:
        """Gives a receiver what it follows, once the decoder has seen that it may."""
        layouts = receiver.follows.layouts
        self._tell(self._union.make_way(receiver, layouts))
        if self._changes is None:
            # No decoder has anything to forget.
            self._union.looked()
        elif not self._union.is_ready(layouts):
            self._changes.request_position()
            return
        self._tell(self._union.take(receiver, layouts))
        if self._changes is not None and not receiver.joined:
            # Not before: the snapshot that it takes then must not miss what is not followed yet.
            receiver.join(self._at)
        receiver.settled = True
        receiver.send(frame_of(FollowReply(receiver.follows.generation)))

    def _tell(self, told: Addressed[Receiver]) -> None:
        for receiver, notice in told:
            receiver.send(frame_of(NoticeMessage(notice)))

    def _left(self, receiver: Receiver) -> None:
        self._receivers.discard(receiver)
        self._union.forget(receiver)
        if not self._receivers:
            self._anybody.clear()
            self._changes = None
            streaming, self._streaming = self._streaming, None
            if streaming is not None and streaming is not asyncio.current_task():
                streaming.cancel()
