"""The listening side: a change stream that another process reads and decodes.

*Theory*: what is followed changes in two steps: the hub is told, and says in the stream from where on it heeds it.
Until then rows are laid out as they were, and say so (`TableChange.layout`); whoever follows a table anew waits for
that, and takes a snapshot later.

*Invariants*: a layout that the stream has called wrong is not followed again; one that was read anew is.

Not here: the reading side (`hub`).
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import cast

from cdc.change import Batch, SchemaNotice, StreamLost, TableLayout
from cdc.fanout.frames import (
    Acknowledgement,
    FollowReply,
    FollowRequest,
    Frames,
    JoinReply,
    LossMessage,
    Message,
    NoticeMessage,
    PositionRequest,
    frame_of,
)
from cdc.stream import StreamStart, UpstreamSnapshot

#: Beginning a stream takes its source up to a minute.
START_S = 90.0
#: Between two acknowledgements.
ACKNOWLEDGE_S = 0.1
#: Of what has come and was not taken, until no more is received.
AHEAD_BYTES = 4 << 20


class FanoutStream(asyncio.Protocol):
    """Is a `cdc.stream.ChangeStream`. `path` is the hub's socket, `tables` gives the layouts of the tables to follow,
    `take_snapshot` asks the database for a snapshot that others are compared with, which must not be older than the
    call, and `server` says which server that is.

    *State*: `_told`, by generation, what the hub was told and has not heeded yet; `_heeded`, what it has; `_wrong`, of
    all of these what the stream has called wrong; `_came_bytes`, how much came since nothing was left.
    """

    #: Its beginning waits for no transaction.
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
        self._came: deque[Message | Batch] = deque()
        self._arrived = asyncio.Event()
        self._came_bytes = 0
        self._paused = False
        self._generation = 0
        self._told: dict[int, dict[str, TableLayout]] = {}
        self._heeded: dict[str, TableLayout] = {}
        self._wrong: dict[str, TableLayout] = {}
        self._heeds = asyncio.Event()
        self._position = 0
        self._acknowledged_at = 0.0

    async def start(self) -> StreamStart:
        """Join the stream, then take a snapshot. Raises StreamLost, and what `take_snapshot` raises."""
        try:
            joined = await self._reach()
            snapshot = await self._take_snapshot()
        except BaseException:
            await self.close()
            raise
        self._position = joined.position
        # Transactions that end before that position may not be visible yet.
        return StreamStart(joined.position, snapshot.closed(), joined.gtids, joined.server)

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
        self._tell()
        while not self._came:
            await self._something()
        first = self._came.popleft()
        if isinstance(first, LossMessage):
            raise _lost(first)
        assert isinstance(first, JoinReply), "it is the first that the hub says"
        return first

    # ── The stream ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def next_batch(self, max_rows: int = 1000) -> Batch:
        """Wait for something: all that has come (up to what brings the rows to `max_rows`), or an advance.

        Raises StreamLost. Cancelling it loses nothing.
        """
        while True:
            if self._transport is None:
                raise StreamLost("The stream is closed.", retryable=True)
            self._tell()
            batch = self._take(max_rows)
            if batch is not None:
                return batch
            await self._something()

    def _take(self, max_rows: int) -> Batch | None:
        """What has come, put together; None if that is nothing."""
        taken = Batch([], self._position)
        rows, anything = 0, False
        while self._came and rows < max_rows:
            came = self._came[0]
            if isinstance(came, LossMessage):
                if anything:
                    break
                raise _lost(came)
            if anything and isinstance(came, Batch) and came.altered is not None:
                # It is applied later than what is before it.
                break
            self._came.popleft()
            if isinstance(came, FollowReply):
                self._heed(came.generation)
            elif isinstance(came, NoticeMessage):
                self._hear([came.notice], taken)
                anything = True
            elif isinstance(came, Batch):
                rows += self._add(came, taken)
                self._hear(came.schema, taken)
                anything = True
        self._resume()
        self._position = taken.position
        return taken if anything else None

    def _add(self, batch: Batch, taken: Batch) -> int:
        """Puts a batch behind what was taken; how many rows it has."""
        rows = 0
        for transaction in batch.transactions:
            for name, change in transaction.tables.items():
                change.layout = self._heeded.get(name)
                rows += len(change.removed) + len(change.added)
        taken.transactions += batch.transactions
        taken.position = batch.position
        taken.passed += batch.passed
        taken.altered = taken.altered or batch.altered
        taken.redefined += batch.redefined
        return rows

    def _hear(self, notices: list[SchemaNotice], taken: Batch) -> None:
        """No rows of a table come any more behind what is fatal."""
        taken.schema += notices
        for notice in notices:
            if not notice.columns and notice.table in self._heeded:
                self._wrong[notice.table] = self._heeded.pop(notice.table)

    async def _something(self) -> None:
        if not self._came:
            self._arrived.clear()
            await self._arrived.wait()

    # ── What is followed ─────────────────────────────────────────────────────────────────────────────────────────────

    def _tell(self) -> None:
        """Tells the hub what is to be followed, if it does not know."""
        tables = self._tables()
        self._wrong = {name: layout for name, layout in self._wrong.items() if tables.get(name) is layout}
        wanted = {name: layout for name, layout in tables.items() if name not in self._wrong}
        told = self._told.get(self._generation, self._heeded)
        if self._generation and len(wanted) == len(told) and all(told.get(n) is layout for n, layout in wanted.items()):
            return
        self._generation += 1
        self._told[self._generation] = wanted
        self._send(FollowRequest(self._generation, wanted, self._server()))

    def _heed(self, generation: int) -> None:
        """The hub passes over what it was told before it heeded it."""
        self._heeded = dict(self._told[generation])
        for told in [told for told in self._told if told <= generation]:
            del self._told[told]
        self._heeds.set()

    async def wait_followed(self) -> None:
        """Wait until the hub heeds what is followed now; or there is nobody to heed it."""
        self._tell()
        generation = self._generation
        while self._transport is not None and any(told <= generation for told in self._told):
            self._heeds.clear()
            await self._heeds.wait()

    # ── The connection ───────────────────────────────────────────────────────────────────────────────────────────────

    def request_position(self) -> None:
        """Have the hub ask; `next_batch` returns when the stream's source answers."""
        self._send(PositionRequest())

    def acknowledge(self, position: int) -> None:
        """What ends at or before `position` will never be asked for again."""
        now = time.monotonic()
        if now - self._acknowledged_at >= ACKNOWLEDGE_S:
            self._acknowledged_at = now
            self._send(Acknowledgement(position))

    def _send(self, message: Message) -> None:
        # A connection that is gone is noticed by `next_batch`.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame_of(message))

    def _resume(self) -> None:
        if self._came:
            return
        self._came_bytes = 0
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """(asyncio) The hub's process, or the one that starts it, has the other end."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """(asyncio) Something has come."""
        self._came.extend(self._frames.feed(data))
        self._came_bytes += len(data)
        if self._came_bytes >= AHEAD_BYTES and self._came and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._arrived.set()

    def connection_lost(self, problem: Exception | None) -> None:  # noqa: ARG002
        """(asyncio) Nothing comes any more."""
        self._came.append(LossMessage("The process that reads the change stream has ended.", True, None))
        self._arrived.set()

    async def close(self) -> None:
        """End the connection."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        self._heeds.set()
        self._arrived.set()


def _lost(lost: LossMessage) -> StreamLost:
    return StreamLost(lost.reason, lost.retryable, lost.hint)
