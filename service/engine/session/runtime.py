"""Asyncio shell around the engine: runs one session after the other and serves workers and the admin port.

Invariants: at most one session runs at a time. Between sessions nothing is computed, workers serve cached rows with
their age, and the pause before the next attempt grows.

Not here: the steps of a session (`session`), the process around it (`service.engine.process`).
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import structlog

from cdc.change import StreamLost
from cdc.fanout.stream import FanoutStream
from cdc.gtid import Gtids
from cdc.stream import UpstreamSnapshot
from dataflow.engine.events import Touched
from dataflow.types import Position
from service.engine.adhoc.answers import AdhocAnswers
from service.engine.audit.audits import Audits
from service.engine.checkpoint.store import CheckpointStore
from service.engine.databases.drivers import open_upstream
from service.engine.databases.streams import MakeStream
from service.engine.initial_load.loads import InitialLoads
from service.engine.initial_load.progress import LoadReports
from service.engine.loop import garbage
from service.engine.loop.ages import Ages
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.gtid_waits import AppliedGtids
from service.engine.loop.hold import Hold
from service.engine.loop.memory_budget import MemoryBudget
from service.engine.loop.positions import Positions
from service.engine.loop.pushes import KEEPALIVE_S
from service.engine.loop.visibility import Visibility
from service.engine.reads.followed_topics import TopicPins, TopicsOfConnection
from service.engine.reads.lookup_tasks import LookupTasks
from service.engine.reads.misses import Misses
from service.engine.reads.prewarm import Prewarm
from service.engine.reads.refresh_tasks import RefreshTasks
from service.engine.reads.slots import Slots
from service.engine.reads.streamed_answers import StreamedReads
from service.engine.session.load_ways import ways_of
from service.engine.session.log_end import LogEnd
from service.engine.session.server_identity import Lineage
from service.engine.session.session import Parts, Session
from service.engine.session.worker_reports import WorkersTelemetry
from service.engine.upstream.problems import no_stream, upstream_problem
from service.engine.upstream.results import AnswerSize, Finding, UpstreamError
from service.engine.upstream.upstream import Lookups
from service.engine.views.admission import Admission
from service.engine.views.changes import Changes
from service.engine.views.installer import Installer
from service.engine.views.plan_cache import KnownPlans
from service.engine.views.registry import Definition, Origin, StateError, ViewOptions, ViewRegistry
from service.engine.views.repair import Repair
from service.engine.views.tables import FollowedTables, TableRefusedError
from service.engine.workload.applied import AppliedWorkload
from service.engine.workload.hot_keys import HotKeys
from service.engine.workload.warm_up import WarmUp
from service.ground.backoff import Backoff
from service.ground.clock import wall_ms
from service.ground.errors import ApiError
from service.leaf_store.writer import LeafWriter
from service.protocol.adhoc import Match
from service.protocol.counters import Counters
from service.protocol.engine_requests import Report, Tell
from service.protocol.reads import ReadItem, ReadReply, StoredReply
from service.settings.sections import UpstreamSettings, ViewSettings
from service.settings.stack import Settings
from service.sharding.homes import ALONE, Shard

log = structlog.get_logger()

_LARGE_ANSWER = (
    'Have the view return fewer rows or stream them (large_answers = "stream"), or raise the limit ([upstream] '
    "answer_bytes)."
)


class CannotStartError(Exception):
    """Permanent failure to start the service; the text gives the reason and the remedy."""


class Runtime:
    """Implementation of `service.protocol.engine_requests.EngineService`: ``await start()``, then ``await run()`` until
    cancelled, then ``await close()``.

    *State*: `answering` is set once reads can be answered, at first perhaps only by fallback to the upstream.
    """

    def __init__(
        self,
        settings: Settings,
        leaf_path: Path,
        traced: Callable[[Lookups], Lookups] | None = None,
        shard: Shard = ALONE,
        stream: Path | None = None,
    ) -> None:
        self.shard = shard
        self.counters = Counters()
        self.workers = WorkersTelemetry()
        self.answering = asyncio.Event()
        self._settings = settings
        self._lock = asyncio.Lock()
        self._session: Session | None = None
        self._poisoned: set[Definition] = set()
        self._make_loop(leaf_path, traced)
        self._make_reads()
        installer = self._make_views()
        self._parts = Parts(
            settings=settings,
            upstream=self.upstream,
            lookup_tasks=self.lookup_tasks,
            loads=self.loads,
            load_reports=self.load_reports,
            refreshing=self.refreshing,
            installer=installer,
            known_plans=KnownPlans(leaf_path.with_name("plans"), self.registry, self.following),
            repair=self._repair,
            budget=self.budget,
            ages=self.ages,
            positions=self.positions,
            gtids=self.gtids,
            lineage=self.lineage,
            counters=self.counters,
            make_stream=self._source(stream),
            hot_keys=self.hot_keys,
            checkpoints=self.checkpoints,
        )
        self.dispatcher.on_reach(self._reach)
        self.dispatcher.on_move(self._moved)
        self.dispatcher.on_failure(self._engine_failed)

    def _make_loop(self, leaf_path: Path, traced: Callable[[Lookups], Lookups] | None) -> None:
        """The leaf store, the database and the engine between them."""
        settings = self._settings
        self.registry = _registry(settings, self.shard)
        self.leaf = LeafWriter(leaf_path)
        self.ages, self.positions = Ages(wall_ms()), Positions()
        self.upstream = open_upstream(settings)
        self.lookups = self.upstream.lookups if traced is None else traced(self.upstream.lookups)
        self.gtids = AppliedGtids(self.lookups, self.positions, self._reach)
        self.lineage, self.log_end = Lineage(), LogEnd(self.lookups)
        self.dispatcher = Dispatcher(self.leaf, self.ages, self.counters)
        self.following = FollowedTables(settings.cdc)
        self.slots = Slots(settings.upstream.concurrent_lookups, settings.http.read_timeout_s)
        self.budget = MemoryBudget(self.dispatcher, self.leaf, int(settings.engine.memory), self.counters)
        alone = settings.engine.shards == 1
        self._visible = Visibility(self.dispatcher, self.lookups, self.upstream, alone=alone)

    def _make_reads(self) -> None:
        """Reads that miss, lookups and other tasks that query the database."""
        dispatcher, leaf, registry, visible = self.dispatcher, self.leaf, self.registry, self._visible
        answer, key = _sizes(self._settings.upstream)
        counted = (self.slots, self.budget.room, self.counters)
        self.reads = Misses(dispatcher, leaf, registry, self.lookups, visible, *counted, answer)
        self.streamed = StreamedReads(self.reads, leaf, self.upstream, self.slots, visible, self.counters)
        self.lookup_tasks = LookupTasks(dispatcher, self.lookups, *counted, key)
        self.refreshing = RefreshTasks(dispatcher, registry, self.lookups, *counted, answer)
        self.subscribed = TopicPins(dispatcher, leaf, registry)
        self.prewarm = Prewarm(self.reads, registry, leaf, dispatcher, self.budget)
        state, engines = self._settings.state, self._settings.engine.shards
        self.workload = AppliedWorkload(dispatcher, registry, leaf, self.prewarm, state.directory)
        number = 0 if engines == 1 else self.shard.number
        self.hot_keys = HotKeys(dispatcher, self.prewarm, state.directory, number, engines, state.hot_keys_s)
        self.checkpoints = _checkpoints(self._settings, self.shard)
        self.warm_up = WarmUp(self.hot_keys, self.checkpoints, state.warm_timeout_s)
        self.audits = Audits(self._settings, leaf, registry, dispatcher, lambda: self.hold, self._reach)

    def _make_views(self) -> Installer:
        """Installation and repair of views, initial loads, ad-hoc queries."""
        settings = self._settings
        self.loads = InitialLoads(
            self.dispatcher,
            self.lookup_tasks,
            self.upstream,
            ways_of(settings, self.upstream),
            self.budget.room,
            self.counters,
            settings.engine.load_rows,
            _loads_below(settings, self.shard),
        )
        installer = Installer(
            self.registry,
            self.dispatcher,
            self.leaf,
            self.following,
            self.lookups,
            Admission(self.dispatcher, self.leaf, self.budget.budget_bytes),
            self.upstream.describes_rows,
            settings.auth is not None,
            self.shard,
        )
        self.load_reports = LoadReports(self.loads, self.registry, installer.say_progress)
        self._repair = Repair(installer, self.upstream, self._lock)
        self.changes = Changes(installer, self._repair, self.upstream, self._lock)
        self.adhoc = AdhocAnswers(
            settings.adhoc,
            self.upstream,
            self.changes,
            self.leaf,
            self._visible,
            self.slots,
            self.workers.reads_of,
            settings.http,
        )
        return installer

    def _source(self, stream: Path | None) -> MakeStream:
        """Opens this process's own change stream, or connects to the service's stream process."""
        if stream is None:
            return self.upstream.change_stream

        async def take_snapshot() -> UpstreamSnapshot:
            return (await self.lookups.snapshot()).snapshot

        return lambda layouts: FanoutStream(stream, layouts, take_snapshot, lambda: self.upstream.server)

    # Sessions

    async def start(self) -> None:
        """Begins the first session. Raises `CannotStartError`."""
        try:
            self.registry.load(_configured(view) for view in self._settings.views)
            self.workload.load()
            await self.hot_keys.look()
            async with self.upstream.session() as session:
                self._heed(await session.check_server())
            await self._begin_at_last()
            self.budget.begin()
            self.adhoc.begin()
        except (UpstreamError, StreamLost, StateError, TableRefusedError) as error:
            await self.close()
            raise CannotStartError(str(error)) from None
        except CannotStartError:
            await self.close()
            raise

    def _heed(self, findings: list[Finding]) -> None:
        fatal = []
        for finding in findings:
            text = finding.reason if finding.fix is None else f"{finding.reason} {finding.fix}"
            if finding.fatal:
                fatal.append(text)
            else:
                log.warning("upstream check", code=finding.code, reason=text)
        if fatal:
            raise CannotStartError("\n".join(fatal))

    async def _begin(self) -> None:
        session = self._session = Session(self._parts, self._poisoned, self.answering)
        async with self._lock:
            await session.begin()
        self.answering.set()
        self._visible.stream_begins()

    async def _begin_at_last(self) -> None:
        """Begins the first session; retries without limit once the process has been reported as ready."""
        try:
            await self._begin()
        except (StreamLost, UpstreamError, TableRefusedError) as error:
            if not self._was_ready or (isinstance(error, StreamLost) and not error.retryable):
                raise
            log.error("the change stream cannot be started", reason=str(error))
            await self._end_session()
            await self._begin_again(Backoff())

    async def run(self) -> None:
        """Runs sessions until cancelled: a session that ends is followed by a new one."""
        backoff = Backoff()
        while True:
            session = self._session
            assert session is not None
            await self._run_session(session, backoff)
            await self._end_session()
            del session
            garbage.collect()
            await self._begin_again(backoff)

    async def _run_session(self, session: Session, backoff: Backoff) -> None:
        watch = asyncio.ensure_future(self._steady(session, backoff))
        try:
            await session.run()
        except (StreamLost, UpstreamError) as error:
            self.counters.streams_lost += 1
            log.error("change stream lost; all cached rows are evicted when it restarts", reason=str(error))
        finally:
            watch.cancel()

    async def _steady(self, session: Session, backoff: Backoff) -> None:
        """Resets the back-off after a session that caught up; repeated immediate failures do not reset it."""
        await session.caught_up.wait()
        self.warm_up.begin()
        await asyncio.sleep(5)
        backoff.succeeded()

    async def _begin_again(self, backoff: Backoff) -> None:
        while True:
            delay_s = backoff.failed()
            await asyncio.sleep(delay_s)
            try:
                await self._begin()
            except (StreamLost, UpstreamError, TableRefusedError) as error:
                log.error("the change stream cannot be started", reason=str(error), retry_after_s=delay_s)
                await self._end_session()
                garbage.collect()
            else:
                log.warning("change stream restarted; continuity was lost and all cached rows were evicted")
                return

    async def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._visible.stream_ends()
            await session.close()
        self.lookup_tasks.restart(self.following.catalog)
        self.loads.restart(self.following.catalog)
        self.refreshing.restart()
        self.reads.fail_all(no_stream())

    async def mark_place(self) -> None:
        """Prepares a checkpoint. To be called during `run`."""
        if self._session is not None:
            await self._session.mark_place()

    async def write_checkpoint(self) -> None:
        """Ends the engine, and writes its state for the next process. To be called after `run`, before `close`."""
        if self._session is not None:
            await self._session.write_checkpoint()

    async def close(self) -> None:
        await self.adhoc.close()
        await self.prewarm.close()
        await self.audits.close()
        await self._end_session()
        self.gtids.close()
        await self.upstream.close()
        self.leaf.close()

    @property
    def ready(self) -> bool:
        """True once the first catch-up has completed or is no longer awaited. A session that ends does not reset it.
        Only a process's first session reads a checkpoint, for as long as it takes."""
        if self._session is not None and self._session.caught_up.is_set():
            self._was_ready = True
        restoring = self._session is not None and self._session.restoring
        return self._was_ready and not restoring

    _was_ready = False

    def wait_no_longer(self) -> None:
        """Reports readiness before the first stream has begun: reads fall back to the upstream until then."""
        log.warning(
            "the change stream has not begun yet; until it has, reads that are not cached fall back to the database"
        )
        self._was_ready = True
        self.warm_up.begin()

    @property
    def streaming(self) -> bool:
        return self.dispatcher.running

    @property
    def held_up(self) -> str | None:
        """Description of the upstream transaction that delays the start of the stream; None if none is known."""
        return None if self._session is None else self._session.held_up

    @property
    def schema_changes(self) -> Literal["exact", "heartbeat"] | None:
        """From where on answers are of the new schema, after DDL; None if that is not known."""
        exact = self._repair.exact
        return None if exact is None else "exact" if exact else "heartbeat"

    @property
    def hold(self) -> Hold | None:
        """Pause of the stream at a snapshot; None while no stream runs."""
        return None if self._session is None else self._session.hold

    def _reach(self, position: Position) -> None:
        if self._session is not None and self._session.pushes is not None:
            self._session.pushes.reach(position)

    def _moved(self, position: Position) -> None:
        self.positions.advanced(position)
        if self._session is not None and self._session.pushes is not None:
            self._session.pushes.advanced(position)

    def _engine_failed(self, event: object) -> None:
        if self._session is not None:
            self._session.engine_failed(event)

    # Requests of workers

    async def fill(self, items: Sequence[ReadItem]) -> ReadReply | StoredReply:
        """Computes the missing keys; answers all items, at one version, if they are not stored."""
        return await self.reads.fill(items)

    async def read(self, items: Sequence[ReadItem]) -> ReadReply:
        """Computes the missing keys and answers all items at one version."""
        return await self.reads.read(items)

    async def forward(self, items: Sequence[ReadItem], minimum: Position | None = None) -> ReadReply:
        """Answers all items upstream at one current snapshot that includes `minimum`."""
        return await self.reads.forward(items, minimum)

    async def stream(self, item: ReadItem, minimum: Position | None, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Streams an item's rows from the upstream, at a current snapshot that includes `minimum`."""
        await self.streamed.read(item, minimum, send)

    async def query(
        self, sql: str, given: dict[str, Any], minimum: Position | None = None, *, run: bool
    ) -> Match | ReadReply:
        """Returns the view that matches a query, or else the upstream's answer at a snapshot that includes
        `minimum`."""
        return await self.adhoc.ask(sql, given, minimum, run=run)

    async def reach(self, position: Position) -> None:
        """Returns once the leaf store has reached `position`. Raises ApiError(bad_request) for a position of a replaced
        server or beyond the end of the log."""
        if position > self.positions.applied and self.lineage.may_be_gone(position):
            self.lineage.refuse(position, await self.checkpoint())
        if position > self.positions.applied and not await self._comes_by_itself(position):
            # A client may have invented the position, so the stream is not pushed to it.
            await self.log_end.refuse_beyond(position)
            self._reach(position)
        await self.positions.wait(position)

    async def _comes_by_itself(self, position: Position) -> bool:
        """Requests the stream's position once; returns whether the stream reaches `position` without a push."""
        if self._session is not None and self._session.pushes is not None:
            self._session.pushes.ask()
        try:
            async with asyncio.timeout(KEEPALIVE_S):
                await self.positions.wait(position)
        except TimeoutError:
            return False
        return True

    async def reach_gtids(self, gtids: Gtids) -> None:
        """Returns once all of these transactions have been applied to the leaf store."""
        await self.gtids.wait(gtids)

    async def checkpoint(self) -> Position:
        """Returns the upstream's current position and makes the stream reach it."""
        try:
            found = await self.lookups.snapshot()
        except UpstreamError as error:
            raise upstream_problem(error) from None
        self._reach(found.bound)
        return found.bound

    def report(self, report: Report) -> None:
        """Records a worker's counters and the keys that it has read."""
        self.workers.take(report)
        if report.touches:
            self.counters.touches += len(report.touches)
            self.dispatcher.step(Touched(tuple(report.touches)))
            self.hot_keys.touched(report.touches)

    def subscriber(self, tell: Tell) -> TopicsOfConnection:
        """Registers a worker's callback for touched topics."""
        return self.subscribed.worker(tell)

    def require_engine(self) -> None:
        """Raises ApiError(engine_unavailable) while no engine runs."""
        if not self.dispatcher.running:
            raise ApiError("engine_unavailable", "The engine is waiting for the database's change stream. Retry later.")


def _registry(settings: Settings, shard: Shard) -> ViewRegistry:
    """Registry of views. Of several engines of one service, only the first writes the file."""
    return ViewRegistry(settings.state.directory, keeps=settings.engine.shards == 1 or shard.number == 0)


def _checkpoints(settings: Settings, shard: Shard) -> CheckpointStore:
    """The checkpoint of this engine. A service that is one shard has one engine."""
    state, engines = settings.state, settings.engine.shards
    return CheckpointStore(state.directory, state.checkpoint_s, 0 if engines == 1 else shard.number, engines)


def _loads_below(settings: Settings, shard: Shard) -> Path:
    """Directory of initial loads. An engine removes the files of its own previous process, not those of other
    engines."""
    return settings.state.directory / ("loads" if settings.engine.shards == 1 else f"loads-{shard.number}")


def _configured(view: ViewSettings) -> Definition:
    return Definition(view.name, view.sql, Origin.CONFIG, ViewOptions(**view.options()))


def _sizes(upstream: UpstreamSettings) -> tuple[AnswerSize, AnswerSize]:
    """Size limits of answers that are not cached, and of keys that are."""
    answer = AnswerSize(sys.maxsize, upstream.answer_bytes, _LARGE_ANSWER)
    return answer, AnswerSize(upstream.limit_rows, upstream.limit_bytes)
