"""A hub and its receivers, over a real socket; the stream is a script."""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from cdc.change import Batch, CommittedTransaction, SchemaNotice, StreamLost, TableChange, TableLayout
from cdc.fanout.hub import Hub
from cdc.fanout.stream import FanoutStream
from cdc.gtid import GtidPosition
from cdc.postgres.position import PostgresSnapshot
from cdc.stream import StreamStart

A, B = TableLayout(("id",), 1, since=1), TableLayout(("id",), 2, since=1)
LIMIT_S = 10.0


@dataclass
class Script:
    """A `ChangeStream` that delivers the batches in `coming`, and records calls."""

    tables: Callable[[], Mapping[str, TableLayout]]
    coming: "asyncio.Queue[Batch | StreamLost]" = field(default_factory=asyncio.Queue)
    looked: dict[str, TableLayout] = field(default_factory=dict)
    asked: int = 0
    acknowledged: int = 0
    closed: bool = False
    #: Whether it answers at once how far it is.
    answers: bool = True
    #: The layouts given at the start, not a copy.
    given: Mapping[str, TableLayout] = field(default_factory=dict)
    now: int = 100
    lays_out: bool = True
    held_up: str | None = None

    async def start(self) -> StreamStart:
        self.given = self.tables()
        self.looked = dict(self.given)
        return StreamStart(100, PostgresSnapshot(5, 5), GtidPosition.parse("0-1-5"), "server 1")

    async def next_batch(self, max_rows: int = 1000) -> Batch:  # noqa: ARG002
        """Read the layouts before waiting: later rows have these layouts."""
        self.looked = dict(self.tables())
        came = await self.coming.get()
        if isinstance(came, StreamLost):
            raise came
        self.now = came.position
        for transaction in came.transactions if self.lays_out else ():
            for name, change in transaction.tables.items():
                change.layout = self.looked.get(name)
        return came

    def request_position(self) -> None:
        self.asked += 1
        if self.answers:
            self.coming.put_nowait(Batch([], self.now))

    async def wait_followed(self) -> None:
        return

    def acknowledge(self, position: int) -> None:
        self.acknowledged = position

    async def close(self) -> None:
        self.closed = True


@dataclass
class Site:
    """A hub that listens, the streams that it began, and where it is reached."""

    path: Path
    streams: list[Script] = field(default_factory=list)
    refuse: list[StreamLost] = field(default_factory=list)
    stalled: asyncio.Event = field(default_factory=asyncio.Event)

    def make(self, tables: Callable[[], Mapping[str, TableLayout]]) -> Script:
        if self.refuse:
            raise self.refuse.pop()
        self.streams.append(Script(tables))
        return self.streams[-1]

    async def prepare(self) -> None:
        return

    @property
    def stream(self) -> Script:
        return self.streams[-1]

    def bring(self, end: int, *tables: str, rows: int = 1, size: int = 1) -> None:
        """A transaction that adds rows to tables, each a text of some size."""
        added = [(f"{end}".zfill(size),)] * rows
        changes = {table: TableChange([], list(added)) for table in tables}
        self.stream.coming.put_nowait(Batch([CommittedTransaction(end, end, changes)], end, passed=[end]))

    def say(self, notice: SchemaNotice, position: int = 100) -> None:
        self.stream.coming.put_nowait(Batch([], position, [notice]))


class Engine:
    """One that listens."""

    def __init__(self, site: Site, **layouts: TableLayout) -> None:
        self.layouts = dict(layouts)
        self.server = "server 1"
        self.source = FanoutStream(site.path, lambda: self.layouts, self._snapshot, lambda: self.server)

    async def _snapshot(self) -> PostgresSnapshot:
        return PostgresSnapshot(7, 9, frozenset({8}), 12)

    async def start(self) -> StreamStart:
        return await self.source.start()

    async def until(self, position: int) -> Batch:
        """All that comes up to a position, put together."""
        found = await self.source.next_batch()
        while found.position < position:
            more = await self.source.next_batch()
            found = Batch(
                found.transactions + more.transactions,
                more.position,
                found.schema + more.schema,
                found.passed + more.passed,
            )
        return found


SiteOf = TypeVar("SiteOf", bound=Site)


@asynccontextmanager
async def hub(site_of: type[SiteOf] = Site, **options: Any) -> AsyncIterator[SiteOf]:  # type: ignore[assignment]
    """A hub, running."""
    with tempfile.TemporaryDirectory(prefix="fan") as directory:
        site = site_of(Path(directory) / "stream.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(site.path))
        running = Hub(site.make, site.prepare, site.stalled.set, **options)
        server = await running.serve(listener)
        task = asyncio.ensure_future(running.run())
        try:
            async with asyncio.timeout(LIMIT_S):
                yield site
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            server.close()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """On the loop that the processes have, which is stricter with connections that are gone."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


def batches(engine: Engine) -> list[Batch]:
    """Batches that an engine has received and not taken."""
    return [message for message in engine.source._received if isinstance(message, Batch)]


async def met(condition: Callable[[], Any]) -> None:
    """Waits for a condition."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.001)


async def until_lost(source: FanoutStream) -> StreamLost:
    while True:
        try:
            await source.next_batch()
        except StreamLost as lost:
            return lost


def ends(batch: Batch, table: str) -> list[int]:
    """The transactions that changed a table."""
    return [t.end for t in batch.transactions if table in t.tables]
