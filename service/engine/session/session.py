"""Session: an engine and its change stream, from a snapshot until either is lost.

Every session begins with empty state: a new engine, a new epoch of the leaf store, whose first commit replaces what was
stored, and every view planned anew (except for `service.engine.views.plan_cache`). Start, reconnect and recovery after
an engine failure are this one procedure; it costs upqueries and never yields a wrong answer. The first session of a
process takes the previous process's checkpoint, if the stream can be continued there.

Not here: when a session begins, and the back-off between sessions (`runtime`).
"""

import asyncio
import uuid
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from cdc.change import StreamLost
from cdc.stream import ChangeStream, ContinuableStream, StreamStart, UpstreamSnapshot
from dataflow.engine.engine import Engine
from dataflow.engine.events import InstallRefresh, InstallView, Restored, StreamStarted, TableJoined
from dataflow.engine.limits import Limits
from service.engine.checkpoint.header import CheckpointHeader
from service.engine.checkpoint.store import CheckpointStore
from service.engine.databases.streams import MakeStream
from service.engine.initial_load.loads import InitialLoads
from service.engine.initial_load.progress import LoadReports
from service.engine.loop import heartbeat
from service.engine.loop.ages import Ages
from service.engine.loop.gtid_waits import AppliedGtids
from service.engine.loop.hold import BatchFeed, Hold
from service.engine.loop.memory_budget import MemoryBudget
from service.engine.loop.positions import Positions
from service.engine.loop.pushes import Pushes
from service.engine.reads import abandonment
from service.engine.reads.lookup_tasks import LookupTasks
from service.engine.reads.refresh_tasks import RefreshTasks
from service.engine.reads.slots import share_of
from service.engine.session.server_identity import Lineage
from service.engine.session.stream import applying, follow, start_stream
from service.engine.upstream import bridge
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Upstream
from service.engine.views.catalog_diff import Look
from service.engine.views.installer import Installer
from service.engine.views.plan_cache import KnownPlans
from service.engine.views.planner import reason_of
from service.engine.views.registry import Definition, RegisteredView, ViewPlan
from service.engine.views.repair import Repair
from service.engine.views.schema_watch import SchemaWatch
from service.engine.views.tables import TableRefusedError
from service.engine.workload.hot_keys import HotKeys
from service.engine.workload.until_warm import UntilWarm
from service.ground.errors import ApiError
from service.ground.version import version_text
from service.protocol.counters import Counters
from service.settings.stack import Settings

log = structlog.get_logger()

#: Maximum times of a process that stops, beside the checkpoint's own: until its stream has a place, until what precedes
#: that is visible, and for a look at the tables' files.
MARK_S, VISIBLE_S, FILES_S = 2.5, 1.0, 1.0
#: Pause between two snapshots meanwhile.
_LOOK_S = 0.02


@dataclass(slots=True)
class Parts:
    """Components that outlive a session."""

    settings: Settings
    upstream: Upstream
    lookup_tasks: LookupTasks
    loads: InitialLoads
    load_reports: LoadReports
    refreshing: RefreshTasks
    installer: Installer
    known_plans: KnownPlans
    repair: Repair
    budget: MemoryBudget
    ages: Ages
    positions: Positions
    gtids: AppliedGtids
    lineage: Lineage
    counters: Counters
    make_stream: MakeStream
    hot_keys: HotKeys
    checkpoints: CheckpointStore


@dataclass(slots=True)
class Session:
    """An engine and its stream: ``begin()``, then ``run()`` until it ends, then ``close()``."""

    parts: Parts
    #: Views whose installation made an engine fail; shared by all sessions.
    poisoned: set[Definition]
    #: Set once reads can be answered, if only by fallback to the upstream.
    answering: asyncio.Event
    #: Set once everything committed before the session began has been applied.
    caught_up: asyncio.Event = field(default_factory=asyncio.Event)
    _failed: asyncio.Event = field(default_factory=asyncio.Event)
    _source: ChangeStream | None = None
    _pushes: Pushes | None = None
    #: Tables that a continued stream has followed anew, each with a snapshot taken after its layout was read.
    _anew: dict[str, UpstreamSnapshot] = field(default_factory=dict)
    #: Pauses the stream at a snapshot, for an audit; None before the stream runs.
    hold: Hold | None = None
    #: Whether the previous process's state is being read.
    restoring: bool = False

    @property
    def pushes(self) -> Pushes | None:
        """Requests that move the stream; None before the start."""
        return self._pushes

    @property
    def held_up(self) -> str | None:
        """Description of the upstream transaction that delays the start of the stream; None if none is known."""
        return None if self._source is None else self._source.held_up

    async def begin(self) -> None:
        """Plans all views, then starts the stream and an engine at its snapshot. Raises `StreamLost`,
        `UpstreamError`."""
        parts = self.parts
        await parts.upstream.begin_anew()
        async with parts.upstream.session() as upstream:
            code = await upstream.load_code()
            fresh = await upstream.load_catalog(parts.installer.registry.texts())
            look = Look(None, code, fresh)
            parts.repair.begin(look)
            parts.installer.following.restart(fresh)
            parts.installer.admission.restart()
        plans = await self._plans(look)
        if not self.answering.is_set():
            self._introduce(plans)
        here = [plan for plan in plans.values() if not parts.installer.is_elsewhere(plan)]
        tables = frozenset[str]().union(*(plan.tables for plan in here))
        async with parts.upstream.session() as upstream:
            await parts.installer.following.publish(upstream, tables)
            await parts.installer.following.follow(upstream, tables, fresh)
        self._source = source = parts.make_stream(lambda: parts.installer.following.layouts)
        started, checkpoint = await start_stream(source, parts.checkpoints, parts.installer.following)
        parts.installer.following.stream = source
        if started.server and parts.upstream.server not in ("", started.server):
            raise StreamLost(
                f"The change stream and the lookups use different servers: {started.server}, {parts.upstream.server}.",
                retryable=True,
                hint="[upstream] url and [cdc] url must lead to the same server.",
            )
        now = await parts.upstream.lookups.snapshot()
        async with parts.upstream.session() as upstream:
            # DDL between the read of the catalog and the start of the stream is not in the stream.
            found = await parts.repair.compare(upstream)
        if checkpoint is not None:
            changed = parts.checkpoints.changed(checkpoint, parts.installer.following)
            self._anew = dict.fromkeys(sorted(changed), now.snapshot)
        parts.lineage.began(parts.upstream.server, now.bound, parts.positions.applied)
        self._start_engine(started, plans, checkpoint, aside=checkpoint is None and self._follows(started))
        if checkpoint is not None:
            await self._restore(checkpoint, started, plans)
        parts.repair.heed(found)

    async def _plans(self, look: Look) -> dict[str, ViewPlan]:
        """Plans all views; a view that cannot be planned is marked as broken, with the reason. Each view uses an
        upstream session of its own, so its time limit does not depend on the number of views."""
        installer, fresh = self.parts.installer, look.catalog
        checks, known = installer.checks(), self.parts.known_plans.under(look)
        plans: dict[str, ViewPlan] = {}
        for name, registered in installer.registry.views.items():
            definition = registered.definition
            try:
                if definition in self.poisoned:
                    raise ApiError("view_broken", "The engine failed to install this view; its log has the reason.")
                planning = installer.planning(fresh, definition, checks=checks)
                async with self.parts.upstream.session() as upstream:
                    plan = await planning.plan(upstream, definition, known.get(definition))
                    await installer.admit(upstream, [plan], fresh)
                plans[name] = plan
            except ApiError as error:
                _broken(registered, reason_of(error))
            except TableRefusedError as refused:
                _broken(registered, str(refused))
        if known:
            log.info("cached plans are used", known=len(known), views=len(plans))
        return plans

    def _introduce(self, plans: dict[str, ViewPlan]) -> None:
        """Enables reads by fallback before the stream begins, which may take long (`cdc.postgres.stream`)."""
        installer = self.parts.installer
        if installer.leaf.reader.state() is None:
            installer.leaf.reset(self._epoch())
            installer.introduce(plans)
        elif installer.leaf.epoch.rpartition("@")[2] == self.parts.upstream.server:
            installer.adopt(plans)
        self.answering.set()

    def _epoch(self) -> str:
        return f"{uuid.uuid4().hex}@{self.parts.upstream.server}"

    async def _restore(self, checkpoint: CheckpointHeader, started: StreamStart, plans: dict[str, ViewPlan]) -> None:
        """Gives the engine the state of the previous process. Meanwhile reads fall back to the upstream."""
        installer = self.parts.installer
        self.restoring = True
        with installer.dispatcher.paused() as engine:
            restored = await self.parts.checkpoints.restore(checkpoint, engine, installer.leaf, installer.following)
        self.restoring = False
        if restored:
            installer.dispatcher.step(Restored())
        else:
            # What was restored so far may be incomplete.
            self._start_engine(started, plans, None, aside=False)

    async def mark_place(self) -> None:
        """Has the stream get a place at which the next process can continue, while it still runs."""
        source, limit_s = self._source, self.parts.checkpoints.limit_s
        if isinstance(source, ContinuableStream) and self.parts.installer.dispatcher.running and limit_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(limit_s, MARK_S)):
                    await source.mark_place()

    async def write_checkpoint(self) -> None:
        """Ends the engine, and writes its state for the next process if the stream can be continued where the engine
        is."""
        dispatcher, source = self.parts.installer.dispatcher, self._source
        engine, running = dispatcher.engine, dispatcher.running
        dispatcher.stop()
        if engine is None or not running or not self.parts.checkpoints.limit_s:
            return
        if not isinstance(source, ContinuableStream) or (place := source.place) is None:
            log.info("no checkpoint is written: the change stream cannot be continued by another process")
            return
        if place.position != engine.applied:
            log.warning("no checkpoint is written: transactions were read that have not been applied")
            return
        if place.hidden and not await self._all_visible(engine):
            log.warning(
                "no checkpoint is written: lookups might miss what was applied",
                reason="the database does not answer, commits wait for a standby, or a transaction is still open that "
                "was open when a table was added",
            )
            return
        at_ms, installer = self.parts.ages.exact_at_ms, self.parts.installer
        with suppress(TimeoutError, UpstreamError):
            async with asyncio.timeout(FILES_S), self.parts.upstream.session() as upstream:
                await installer.following.note_rewrites(upstream)
        if await self.parts.checkpoints.write(place, at_ms, engine, installer.leaf, installer.following):
            source.leave()

    async def _all_visible(self, engine: Engine) -> bool:
        """Returns whether a snapshot sees all that is applied, as all later ones do then."""
        sees = engine.seen_by(engine.applied)
        assert sees is not None
        with suppress(TimeoutError, UpstreamError):
            async with asyncio.timeout(VISIBLE_S):
                while not sees(bridge.snapshot((await self.parts.upstream.lookups.snapshot()).snapshot)):
                    await asyncio.sleep(_LOOK_S)
                return True
        return False

    def _start_engine(
        self,
        started: StreamStart,
        plans: dict[str, ViewPlan],
        checkpoint: CheckpointHeader | None,
        *,
        aside: bool,
    ) -> None:
        """Installs all views without yielding the loop, so no partial state is visible. `aside`: reads may use what the
        leaf store has until the cache is warm."""
        parts = self.parts
        installer = parts.installer
        installer.registry.forget_installations()
        parts.lookup_tasks.restart(installer.following.catalog)
        parts.loads.restart(installer.following.catalog)
        parts.refreshing.restart()
        parts.ages.restarted()
        if checkpoint is not None:
            parts.ages.continues(checkpoint.at_ms)
        parts.repair.restart()
        self._pushes = Pushes(self._request_position, parts.upstream.lookups.push, parts.counters)
        installer.dispatcher.start(self._engine())
        installer.leaf.reset(self._epoch(), aside=aside)
        # Publish all views at once: a worker would answer "unknown view" for one that is missing.
        with installer.leaf.catalog_held():
            snapshot = bridge.snapshot(started.snapshot)
            installer.dispatcher.step(StreamStarted(started.position, snapshot, restoring=checkpoint is not None))
            for table, taken in self._anew.items():
                installer.dispatcher.step(TableJoined(table, bridge.snapshot(taken)))
            # Behind a gateway another pod may have it in memory.
            again = parts.settings.shard.of == 1
            for registered in list(installer.registry.views.values()):
                plan = plans.get(registered.definition.name)
                if plan is not None:
                    installer.install(registered.definition, plan, again=again)
                else:
                    installer.entomb(registered, registered.reason or "The view cannot be planned.")
        parts.gtids.started(started.gtids)
        parts.counters.streams += 1
        log.info("stream started", position=version_text(started.position), views=len(plans))

    def _follows(self, started: StreamStart) -> bool:
        """Returns whether reads may use what the leaf store has until the cache is warm: earlier versions of the same
        database."""
        stored, server = self.parts.installer.leaf.reader.state(), self.parts.upstream.server
        if stored is None or not server or stored.server != server:
            return False
        # Before the first stream there is no position.
        return 0 < stored.position <= started.position and self._until_warm().is_allowed

    def _engine(self) -> Engine:
        settings = self.parts.settings
        catalog = self.parts.installer.following.catalog
        return Engine(catalog, limits_of(settings), logs=self.parts.loads.new_log)

    def _request_position(self) -> None:
        if self._source is not None:
            self._source.request_position()

    async def run(self) -> None:
        """Runs until the stream is lost (raises `StreamLost`) or the engine has failed (returns)."""
        parts = self.parts
        assert self._source is not None
        assert self._pushes is not None
        installer = parts.installer
        dispatcher = installer.dispatcher
        schema = SchemaWatch(parts.repair, parts.upstream)
        apply = applying(
            self._source,
            installer.following.layouts,
            dispatcher,
            self._pushes,
            parts.counters,
            schema.noticed,
            schema.redefined,
            parts.gtids.passed,
        )

        async def resumed(server: str) -> None:
            if server:
                await parts.upstream.continue_on(server)
                parts.lineage.continues(server)
            await schema.resumed()

        feed = BatchFeed(apply)
        self.hold = Hold(feed, lambda: dispatcher.position, self._sees_applied)
        await _first_ended(
            follow(self._source, dispatcher, parts.settings.engine.step_rows, feed, schema.passed, resumed),
            heartbeat.heartbeats(dispatcher, parts.upstream.lookups, self._pushes, parts.ages, parts.counters),
            abandonment.looks(dispatcher, parts.lookup_tasks, parts.refreshing, parts.counters),
            parts.budget.keep(),
            parts.load_reports.run(),
            schema.keep(parts.settings.cdc.schema_check_s),
            parts.known_plans.keep(lambda: parts.repair.last),
            parts.hot_keys.keep(),
            self._until_warm().keep(),
            self._catch_up(),
            self._until_failed(),
            self._until_replaced(),
        )

    def _until_warm(self) -> UntilWarm:
        parts = self.parts
        installer, limit_s = parts.installer, parts.settings.state.warm_timeout_s
        return UntilWarm(installer.leaf, parts.hot_keys, installer.registry, parts.budget, limit_s)

    def _sees_applied(self, snapshot: UpstreamSnapshot) -> bool:
        """True if a snapshot sees everything applied. Transactions that have left the ring are seen by every new
        snapshot."""
        installer = self.parts.installer
        engine = installer.dispatcher.engine
        if engine is None:
            return False
        tables = frozenset(installer.following.layouts)
        return engine.ring.exact_position(tables, bridge.snapshot(snapshot), engine.applied) == engine.applied

    async def _until_replaced(self) -> None:
        replaced = await self.parts.upstream.replaced(self._reconnect)
        raise StreamLost(f"Another database server responds: {replaced}.", retryable=True)

    def _reconnect(self) -> None:
        """Has the stream continue on a promoted standby, even if its connection to the former server is whole."""
        if isinstance(self._source, ContinuableStream):
            self._source.reconnect()

    async def _until_failed(self) -> None:
        await self._failed.wait()

    def engine_failed(self, event: object) -> None:
        """Ends the session after a failure at `event`. A view whose installation failed is not installed by the next
        session."""
        if isinstance(event, InstallView | InstallRefresh):
            self.poisoned.add(self.parts.installer.registry.views[event.view.name].definition)
        self._failed.set()

    async def _catch_up(self) -> None:
        """Waits for everything committed before the session began, then blocks until cancelled."""
        found = await self.parts.upstream.lookups.snapshot()
        assert self._pushes is not None
        self._pushes.reach(found.bound)
        await self.parts.positions.wait(found.bound)
        self.caught_up.set()
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Detaches the engine and closes the stream, which drops its slot unless the next process continues it."""
        self.parts.installer.dispatcher.stop()
        if self.hold is not None:
            self.hold.close()
        if self._pushes is not None:
            await self._pushes.close()
        if self._source is not None:
            await self._source.close()


def _broken(registered: RegisteredView, reason: str) -> None:
    if registered.reason != reason:
        log.error("view is broken", view=registered.definition.name, reason=reason)
    registered.reason = reason


def limits_of(settings: Settings) -> Limits:
    return Limits(
        lookups_of_table=share_of(settings.upstream.concurrent_lookups),
        lookup_keys=settings.upstream.lookup_keys,
        key_rows=settings.upstream.limit_rows,
        key_rows_bytes=settings.upstream.limit_bytes,
    )


async def _first_ended(*parts: Awaitable[None]) -> None:
    """Runs all parts until one ends, cancels the others and raises its exception."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
