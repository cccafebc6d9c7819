"""A worker's application in process: a real leaf store, and a real socket to an engine that fills from a dictionary."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest

from cdc.gtid import GtidPosition, Gtids
from dataflow.engine.effects import LeafEffect, LeafFill
from dataflow.plan.nodes import Chain, OrderTerm, OutputColumn, Parameter, RangeParameter, View
from dataflow.scalar import ColumnRef
from dataflow.types import Key, Position, Row, ViewId
from service.ground.errors import ApiError, building_view
from service.leaf_store.request import request_of
from service.leaf_store.serving_options import OnLag, Serving
from service.leaf_store.writer import LeafWriter
from service.protocol.engine_client import EngineClient
from service.protocol.engine_requests import Report
from service.protocol.engine_server import EngineServer
from service.protocol.reads import AnswerSource, ReadItem, ReadReply, StoredReply
from service.settings.sections import HttpSettings
from service.worker.routes.app import build_app
from service.worker.routes.hot import HotRoute
from tests.service.leaf_store.sample_views import BY_AUTHOR, INT8, STORY, TEXT, make_view

STORY_ID, AUTHOR_ID, COUNT_ID, TOP_ID, BROKEN_ID, BUILDING_ID = (ViewId(n) for n in range(1, 7))
RANGE_ID, LIST_ID, LIMIT_ID, REFRESH_ID, AMONG_ID, KEPT_ID = (ViewId(n) for n in range(7, 13))
WAITING_ID, CURRENT_ID, STALE_ID, SOON_ID = (ViewId(n) for n in range(13, 17))
NOW_MS = 1_700_000_000_000


@dataclass
class Engine:
    """An `EngineService` over a dictionary of what the upstream has."""

    writer: LeafWriter
    rows: dict[tuple[str, Key], list[Row]]
    position: Position = 0x16B3748
    #: Held back until it is set, if there is one.
    gate: asyncio.Event | None = None
    failure: Exception | None = None
    #: Whether rows come from the upstream, without a place in the store; and whether that is older than the store.
    forwards: bool = False
    late: bool = False
    reads: list[list[ReadItem]] = field(default_factory=list)
    #: What was to be answered by the upstream as it is now.
    asked_now: list[list[ReadItem]] = field(default_factory=list)
    #: The minimum versions of those.
    minimums: list[Position | None] = field(default_factory=list)
    #: How far the upstream is ahead of the store.
    ahead: int = 0
    reaching: int = 0
    #: What has been applied, of MariaDB; only tests of global ids have any.
    gtids: GtidPosition = field(default_factory=GtidPosition)
    cancelled: int = 0
    reports: list[Report] = field(default_factory=list)
    #: Called between the commit of a fill and the worker's look at the store.
    between: Callable[[], None] = lambda: None
    #: The position of the last reply to a read.
    answered: Position = 0

    def commit(self, *effects: LeafEffect) -> None:
        self.position += 8
        self.writer.commit(effects, self.position, NOW_MS)

    async def fill(self, items: Sequence[ReadItem]) -> ReadReply | StoredReply:
        reply = await self.read(items)
        return StoredReply(reply.position) if reply.source is AnswerSource.STORED else reply

    async def read(self, items: Sequence[ReadItem]) -> ReadReply:
        self.reads.append(list(items))
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failure is not None:
            raise self.failure
        infos = self.writer.reader.catalog().by_name
        views = {name: info.id for name, info in infos.items()}
        for item in items:
            if infos[item.view].building and not self.forwards:
                raise building_view(item.view, infos[item.view].reason)
        if self.forwards:
            return self._forwarded(items, views)
        wanted = [(i.view, key) for i in items for key in request_of(self.writer.info(views[i.view]), i.values).keys]
        self.commit(*[LeafFill(views[view], key, self.rows.get((view, key), [])) for view, key in wanted])
        answers, state = self.writer.reader.read([(views[i.view], i.values, i.window) for i in items])
        assert state is not None
        self.answered = state.position
        self.between()
        return ReadReply([answer for answer in answers if answer], state.position, state.at_ms)

    def _forwarded(self, items: Sequence[ReadItem], views: dict[str, ViewId]) -> ReadReply:
        rows = [self.rows.get((i.view, i.values), []) for i in items]
        answers = [self.writer.render(views[i.view], r, i.values, i.window) for i, r in zip(items, rows, strict=True)]
        position = self.position
        if self.late:
            self.commit()
        return ReadReply(answers, position, NOW_MS, AnswerSource.FORWARDED)

    async def forward(self, items: Sequence[ReadItem], minimum: Position | None) -> ReadReply:
        self.asked_now.append(list(items))
        self.minimums.append(minimum)
        views = {name: info.id for name, info in self.writer.reader.catalog().by_name.items()}
        return replace(self._forwarded(items, views), position=self.position + 1, source=AnswerSource.CURRENT)

    async def reach(self, position: Position) -> None:
        self.reaching += 1
        while self.position < position:
            if self.gate is not None:
                await self.gate.wait()
            self.commit()

    async def reach_gtids(self, gtids: Gtids) -> None:
        self.reaching += 1
        if not isinstance(gtids, GtidPosition):
            raise ApiError("bad_request", "The database is MariaDB.")
        while not gtids <= self.gtids:
            if self.gate is not None:
                await self.gate.wait()
            self.gtids = self.gtids | gtids
            self.commit()

    async def checkpoint(self) -> Position:
        if self.failure is not None:
            raise self.failure
        return self.position + self.ahead

    def report(self, report: Report) -> None:
        self.reports.append(report)


@dataclass
class Service:
    """Service of a test."""

    http: httpx.AsyncClient
    engine: Engine
    server: EngineServer
    client: EngineClient
    socket: Path
    app: HotRoute


Run = Callable[[Callable[[Service], Awaitable[None]]], None]


def register_all(writer: LeafWriter) -> None:
    count = make_view("votes_of", {"id": 0, "author": 2}, shown=(3,), rows_for_null=((None, None, None, "0"),))
    views: dict[ViewId, tuple[View, str]] = {
        STORY_ID: (STORY, "ready"),
        AUTHOR_ID: (BY_AUTHOR, "ready"),
        COUNT_ID: (count, "ready"),
        TOP_ID: (make_view("top", {}, order=BY_AUTHOR.order, limit_rows=3), "ready"),
        BROKEN_ID: (make_view("broken", {"id": 0}), "broken"),
        BUILDING_ID: (make_view("building", {"id": 0}), "building"),
    }
    votes = (RangeParameter("least", 3, ">="), RangeParameter("below", 3, "<"))
    views |= {
        RANGE_ID: (make_view("between", {"author": 2}, order=BY_AUTHOR.order, ranges=votes), "ready"),
        LIST_ID: (make_view("of_authors", {"authors": 2}, lists=("authors",), order=BY_AUTHOR.order), "ready"),
        AMONG_ID: (make_view("among", {"author": 2, "ids": 0}, lists=("ids",), shown=(0, 1, 3)), "ready"),
        LIMIT_ID: (
            make_view("first", {"author": 2}, order=BY_AUTHOR.order, limit_parameter="n", offset_parameter="m"),
            "ready",
        ),
    }
    for view, (plan, status) in views.items():
        writer.register(view, plan, status=status)
    writer.register(REFRESH_ID, REFRESHED, status="ready", refreshed=True)
    serving = Serving(cache_control="public, max-age=5")
    writer.register(KEPT_ID, make_view("kept", {"id": 0}), status="ready", serving=serving)
    for view, name, on_lag in ((WAITING_ID, "waiting", OnLag.WAIT), (CURRENT_ID, "current", OnLag.FORWARD)):
        serving = Serving(max_lag_ms=60_000, on_lag=on_lag)
        writer.register(view, make_view(name, {"id": 0}), status="ready", serving=serving)
    # The time of these commits is long ago.
    for view, name, stale_ms in ((STALE_ID, "stale", 10**14), (SOON_ID, "soon", 60_000)):
        writer.register(view, make_view(name, {"id": 0}), status="ready", serving=Serving(stale_ms=stale_ms))
    writer.set_status(BROKEN_ID, "broken", "Column votes has gone.")
    writer.set_status(BUILDING_ID, "building", "3 of 10 tables are loaded")


#: The form of a view whose answers are the upstream's: two columns, two parameters, and the place in the answer.
REFRESHED = View(
    "refreshed",
    "SELECT now()",
    Chain("", None, tuple(ColumnRef(i, kind) for i, kind in enumerate((TEXT, INT8, TEXT, INT8, INT8)))),
    (Parameter("authors", 2, many=True), Parameter("votes", 3)),
    (OutputColumn("title", 0), OutputColumn("votes", 1)),
    (OrderTerm(4),),
)
ROWS: dict[tuple[str, Key], list[Row]] = {
    ("story", ("7",)): [("7", "Seven", "ann", "3")],
    ("story", ("8",)): [("8", "Eight", "bob", "5")],
    **{(view, ("7",)): [("7", "Seven", "ann", "3")] for view in ("kept", "waiting", "current", "stale", "soon")},
    ("stories_of", ("ann",)): [(str(n), f"Story {n}", "ann", str(n % 4)) for n in range(10)],
    ("votes_of", ("ann", "7")): [("7", "Seven", "ann", "3")],
    **{
        (view, ("ann",)): [(str(n), f"Story {n}", "ann", str(n % 4)) for n in range(10)]
        for view in ("between", "of_authors", "first")
    },
    ("among", ("ann", "7")): [("7", "Seven", "ann", "3")],
    ("among", ("ann", "8")): [("8", "Eight", "ann", "5"), ("8", "Eight", "ann", "5"), ("8", "Eighth", "ann", None)],
    ("among", ("ann", "-8")): [("-8", "Less", "ann", "5")],
    ("of_authors", ("bob",)): [("11", "Bob's", "bob", "2")],
    ("refreshed", ("{b,a,b}", None)): [
        ("z", "2", None, None, "0"),
        ("y", "1", None, None, "1"),
        ("z", "2", None, None, "2"),
    ],
    ("top", ()): [(str(n), f"Story {n}", "ann", str(n)) for n in range(9)],
}


@asynccontextmanager
async def running(directory: Path, limits: HttpSettings) -> AsyncIterator[Service]:
    writer = LeafWriter(directory / "leaf", map_bytes=1 << 22)
    engine = Engine(writer, dict(ROWS))
    register_all(writer)
    engine.commit()
    path = directory / "engine.sock"
    server = EngineServer(path, engine)
    await server.start()
    client = EngineClient(path)
    app = build_app(writer.reader, client, limits)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        yield Service(http, engine, server, client, path, app)
    await client.close()
    await server.close()
    writer.close()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a coroutine function of a `Service`."""
    return runner(tmp_path, HttpSettings(read_timeout_s=5.0, max_body_bytes=4096, max_keys=20))


@pytest.fixture
def run_impatient(tmp_path: Path) -> Run:
    """Return `run` with a short time limit for misses."""
    return runner(tmp_path, HttpSettings(read_timeout_s=0.05, max_body_bytes=4096, max_keys=20))


def runner(directory: Path, limits: HttpSettings) -> Run:
    def run(test: Callable[[Service], Awaitable[None]]) -> None:
        async def main() -> None:
            async with running(directory, limits) as service:
                await test(service)

        asyncio.run(main())

    return run


def unavailable() -> ApiError:
    return ApiError("upstream_unavailable", "The database does not answer.", "Start it.")
