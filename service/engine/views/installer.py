"""Installer: adds, replaces and removes views while the stream runs.

Invariants: one change at a time (`lock`); only accepted views are on disk; a name refers to its old installation until
the new one is ready, without a gap; a broken view is not in the engine, so it receives no rows that its plan does not
match (its *tombstone* keeps the name and the reason).

Not here: the registry (`service.engine.views.registry`), followed tables (`tables`), breaking and repairing views
(`repair`).
"""

import asyncio
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from dataflow.canonical import Digests
from dataflow.engine.effects import LeafDrop, ViewStatus
from dataflow.engine.events import DropView, InstallRefresh, InstallView, TableJoined
from dataflow.engine.explain import Explanation
from dataflow.plan.nodes import Chain, View
from dataflow.plan.nullability import never_null_output
from dataflow.schema import Catalog
from dataflow.types import ViewId
from service.engine.loop import garbage
from service.engine.loop.dispatcher import Dispatcher
from service.engine.upstream import bridge
from service.engine.upstream.upstream import Lookups, UpstreamSession
from service.engine.views.admission import Admission
from service.engine.views.planner import Planning, TableChecks
from service.engine.views.registry import (
    Definition,
    InstalledView,
    Origin,
    RegisteredView,
    Status,
    ViewPlan,
    ViewRegistry,
)
from service.engine.views.stand_in import stand_in
from service.engine.views.tables import FollowedTables
from service.ground.clock import wall_ms
from service.leaf_store.catalog import UNREADABLE
from service.leaf_store.writer import LeafWriter
from service.protocol.adhoc import is_of_query
from service.sharding.homes import ALONE, Shard, homes_among

log = structlog.get_logger()

#: Former ids that a view's installation remembers.
_FORMER = 8
#: Minimum interval between full garbage collections, which stop the process for 0.1 s, while many views are dropped.
_COLLECT_S = 1.0


@dataclass(slots=True)
class Installer:
    """Installs views in the engine and the leaf store, and removes them."""

    registry: ViewRegistry
    dispatcher: Dispatcher
    leaf: LeafWriter
    following: FollowedTables
    lookups: Lookups
    admission: Admission
    #: `Upstream.describes_rows`.
    describes_rows: bool = False
    #: True if readers are authenticated by tokens.
    guarded: bool = False
    #: The shard of all keys held here.
    shard: Shard = ALONE
    #: Admitted views of another shard's home, and whether they are fully materialized.
    _elsewhere: set[tuple[View, bool]] = field(default_factory=set)
    #: Frees the nodes of dropped views, once for those that are dropped together.
    _collecting: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self.dispatcher.on(ViewStatus, self._view_status)

    def planning(
        self,
        fresh: Catalog,
        definition: Definition,
        *,
        anew: Container[str] = (),
        put: Definition | None = None,
        checks: TableChecks | None = None,
    ) -> Planning:
        """Returns the planner for a definition over `fresh` and the other registered views. Followed tables are defined
        as they are followed, except `anew`. `put`: a definition that is not registered yet; `checks`: shared by plans
        made together."""
        others = {name: registered.definition.sql for name, registered in self.registry.views.items()}
        if put is not None:
            others[put.name] = put.sql
        others.pop(definition.name, None)
        catalog = replace(self.following.planning_catalog(fresh, anew), registered=others)
        return Planning(catalog, checks or self.checks(), self.guarded)

    def checks(self) -> TableChecks:
        """New table checks, since results do not stay valid."""
        return TableChecks(self.following.refusals, self.following.layouts)

    async def join(self, session: UpstreamSession, plan: ViewPlan, fresh: Catalog) -> ViewPlan:
        """Follows the tables of a plan, none of which is refused, and announces the new ones to the engine. Returns the
        plan over the engine's rows."""
        new = sorted(plan.tables - self.following.layouts.keys())
        if new:
            await self._follow(session, new, fresh)
        return replace(plan, view=self.following.placed(plan.view))

    async def _follow(self, session: UpstreamSession, new: list[str], fresh: Catalog) -> None:
        await self.following.publish(session, new)
        try:
            await self.following.follow(session, new, fresh)
            taken = await self.lookups.snapshot()
        except BaseException:
            # Tables that are followed but not announced would be taken for tables that have joined.
            self.following.unfollow(new)
            raise
        for table in new:
            self.dispatcher.step(TableJoined(table, bridge.snapshot(taken.snapshot)))

    @property
    def extends(self) -> bool:
        """True if followed tables can be extended: the stream is read here, and each row states its columns."""
        return self.shard.of == 1 and self.describes_rows

    async def extend(self, session: UpstreamSession, table: str, fresh: Catalog) -> None:
        """Follows the new and altered columns of a table, too. Raises `TableAlteredError`."""
        await self.following.extend(session, table, fresh)
        taken = await self.lookups.snapshot()
        self.dispatcher.step(TableJoined(table, bridge.snapshot(taken.snapshot)))

    def is_read(self, table: str) -> bool:
        """True if a view in the engine reads the table."""
        return any(table in installation.tables for installation in self.registry.installations.values())

    async def admit(self, session: UpstreamSession, plans: Iterable[ViewPlan], fresh: Catalog) -> None:
        """Checks that the full state of these plans fits into memory. Raises ApiError(too_large)."""
        catalog = self.following.engine_catalog(fresh)
        here = []
        for plan in plans:
            if isinstance(plan.view, View) and self._is_anothers(plan, catalog):
                self._elsewhere.add((plan.view, plan.whole))
            else:
                self._elsewhere.discard((plan.view, plan.whole))
                here.append(plan)
        await self.admission.admit(session, here, catalog)

    def is_elsewhere(self, plan: ViewPlan) -> bool:
        """True if another shard holds this plan's view, as determined at its admission."""
        return isinstance(plan.view, View) and (plan.view, plan.whole) in self._elsewhere

    def _is_anothers(self, plan: ViewPlan, catalog: Catalog) -> bool:
        """True if the view's home is another shard. A fully materialized view has one home; a view promoted from a
        query exists only on its own shard."""
        assert isinstance(plan.view, View)
        name = plan.view.name
        if self.shard.of == 1 or is_of_query(name) or homes_among(self.shard.of).of_view(name) == self.shard.number:
            return False
        return Explanation(plan.view, catalog, whole=plan.whole).materialization == "full"

    def install(self, definition: Definition, plan: ViewPlan, *, again: bool = False) -> InstalledView:
        """Installs a plan in the engine, beside the current installation of the name if that answers reads, be it by
        the upstream. `again`: a session begins, without the state of the one before, and nobody else has it."""
        registered = self.registry.views.setdefault(definition.name, RegisteredView(definition))
        registered.definition = definition
        self.uninstall(registered.replacement)
        registered.replacement = None
        if self.is_elsewhere(plan):
            return self._leave_elsewhere(registered, plan)
        installation = InstalledView(self.leaf.new_id(), plan, definition)
        old = registered.installed
        beside = old is not None and (not old.tombstone or old.status is Status.OUTDATED)
        self._register(installation, listed=old is None)
        installation.rebuilt = again and not self.leaf.info(installation.id).parameters
        self._succeed(old, installation)
        if beside:
            registered.replacement = installation
        else:
            if old is not None:
                self.leaf.publish(installation.id)
            registered.installed = installation
            registered.reason = None
        self.registry.installations[installation.id] = installation
        limits = plan.key_limits(definition.options)
        if isinstance(plan.view, View):
            self.dispatcher.step(InstallView(installation.id, plan.view, plan.whole, limits))
        else:
            self.dispatcher.step(InstallRefresh(installation.id, plan.view, limits))
        if not beside:
            self.uninstall(old)
        return installation

    def introduce(self, plans: Mapping[str, ViewPlan]) -> None:
        """Publishes views in a new, empty leaf store before an engine exists, so that reads fall back to the upstream
        meanwhile. A view without a plan gets its reason. The store has no version, so a read with a minimum waits for
        the stream."""
        for registered in self.registry.views.values():
            plan = plans.get(registered.definition.name)
            if plan is None:
                self.entomb(registered, registered.reason or "The view cannot be planned.")
            elif self.is_elsewhere(plan):
                self._say_elsewhere(registered, plan)
            else:
                registered.installed = InstalledView(self.leaf.new_id(), plan, registered.definition)
                self._register(registered.installed, listed=True)
                self.leaf.set_status(registered.installed.id, Status.READY)
        self.leaf.commit([], 0, wall_ms())

    def adopt(self, plans: Mapping[str, ViewPlan]) -> None:
        """Publishes the views of a previous engine process's leaf store, under their old ids, before an engine exists:
        its rows are served, and other reads fall back to the upstream."""
        known = self.leaf.reader.catalog().by_name
        self.leaf.hold_catalog()
        for name, plan in plans.items():
            registered, info = self.registry.views[name], known.get(name)
            if info is not None and info.status not in UNREADABLE and not self.is_elsewhere(plan):
                installation = InstalledView(info.id, plan, registered.definition)
                self._register(installation, listed=True)
                if self.leaf.info(info.id).definition == info.definition:
                    registered.installed = installation

    def _leave_elsewhere(self, registered: RegisteredView, plan: ViewPlan) -> InstalledView:
        """Publishes the name of a view held by another shard."""
        old, registered.reason = registered.installed, None
        tombstone = self._say_elsewhere(registered, plan)
        self._elsewhere.discard((plan.view, plan.whole))
        if old is None:
            self.leaf.commit_catalog()
        self.uninstall(old)
        return tombstone

    def _say_elsewhere(self, registered: RegisteredView, plan: ViewPlan) -> InstalledView:
        tombstone = InstalledView(self.leaf.new_id(), plan, registered.definition, Status.ELSEWHERE, tombstone=True)
        registered.installed = tombstone
        self._register(tombstone, listed=False)
        self.leaf.set_status(tombstone.id, Status.ELSEWHERE)
        self.leaf.publish(tombstone.id)
        return tombstone

    def _register(self, new: InstalledView, *, listed: bool) -> None:
        view, refreshed = (new.view, False) if isinstance(new.view, View) else (stand_in(new.view), True)
        serving = replace(new.definition.options.serving, hidden=new.definition.origin is Origin.ADHOC)
        self.leaf.register(
            new.id,
            view,
            status=new.status,
            listed=listed,
            refreshed=refreshed,
            serving=serving,
            never_null=self._never_null(new),
            meaning=self._meaning(new),
        )

    def _meaning(self, new: InstalledView) -> str:
        """Returns a digest of the view's meaning, with that of views that it reads. A plan has columns by number."""
        view, tables = new.view, self.following.catalog.tables
        if not isinstance(view, View) or not new.tables <= tables.keys():
            return ""
        digest = Digests().found((view, tuple([(name, tables[name].columns) for name in sorted(new.tables)])))
        return "" if digest is None else digest.hex()

    def _never_null(self, new: InstalledView) -> frozenset[int]:
        """Returns the output columns that are never NULL. The constraints that its plan relies on are watched
        (`service.engine.upstream.constraints`)."""
        view, catalog = new.view, self.following.catalog
        if not isinstance(view, View) or not new.tables or not new.tables <= catalog.tables.keys():
            return frozenset()
        return never_null_output(view, catalog)

    def redescribe(self, installation: InstalledView) -> None:
        """Publishes what follows from another definition of a view's tables, which leaves its plan as it is."""
        self.leaf.set_never_null(installation.id, self._never_null(installation))

    def uninstall(self, installation: InstalledView | None) -> None:
        """Removes an installation from the engine and the leaf store."""
        if installation is None:
            return
        self.registry.installations.pop(installation.id, None)
        if self.dispatcher.running and not installation.tombstone:
            self.dispatcher.step(DropView(installation.id))
            if self._collecting is None:
                self._collecting = asyncio.get_running_loop().call_later(_COLLECT_S, self._collect)
        else:
            self.leaf.commit_catalog(LeafDrop(installation.id))

    def _collect(self) -> None:
        self._collecting = None
        garbage.collect()

    def unfollow_unread(self) -> None:
        """Stops following tables that no installed view reads."""
        read = frozenset[str]().union(*(i.tables for i in self.registry.installations.values()))
        self.following.unfollow(self.following.layouts.keys() - read)

    def bury(self, registered: RegisteredView, reason: str, status: Status = Status.BROKEN) -> None:
        """Removes a view from the engine; its name keeps the reason. `status`: broken, or ``outdated`` while its reads
        are forwarded, which takes a plan."""
        old = registered.installed
        if old is None or old.tombstone:
            self._say(registered, reason, status if old is not None and old.plan.is_known else Status.BROKEN)
            return
        self._entomb(registered, old.plan, reason, status)
        self.uninstall(old)

    def entomb(self, registered: RegisteredView, reason: str) -> None:
        """Publishes the name of a view that was never planned, with the reason."""
        definition = registered.definition
        nothing = View(definition.name, definition.sql, Chain("", None, ()), (), ())
        self._entomb(registered, ViewPlan(nothing, definition.sql), reason)

    def _entomb(self, registered: RegisteredView, plan: ViewPlan, reason: str, status: Status = Status.BROKEN) -> None:
        tombstone = InstalledView(self.leaf.new_id(), plan, registered.definition, status, reason, tombstone=True)
        old, registered.installed = registered.installed, tombstone
        self._register(tombstone, listed=False)
        self._succeed(old, tombstone)
        self.leaf.set_status(tombstone.id, status, reason)
        self.leaf.publish(tombstone.id)

    def _succeed(self, old: InstalledView | None, new: InstalledView) -> None:
        """Lets reads that name the old installation reach the new one, if they mean the same."""
        if old is None or not self.leaf.has(old.id):
            return
        if self.leaf.info(old.id).definition == self.leaf.info(new.id).definition:
            new.former = (*old.former, old.id)[-_FORMER:]

    def _say(self, registered: RegisteredView, reason: str, status: Status) -> None:
        """Sets the reason of a view that is already broken, or about to be planned again, for the workers and the admin
        port."""
        if registered.status_reason == reason and registered.status is status:
            return
        log.error(f"view is {status}", view=registered.definition.name, reason=reason)
        registered.reason = reason
        if registered.installed is not None:
            registered.installed.status, registered.installed.reason = status, reason
            self.leaf.set_status(registered.installed.id, status, reason)
            self.leaf.commit_catalog()

    def say_progress(self, view: ViewId, text: str) -> None:
        """Sets the progress of a view that is loading; workers see it with the next commit."""
        installation = self.registry.installations[view]
        if installation.reason != text:
            installation.reason = text
            self.leaf.set_status(view, installation.status, text)

    def _view_status(self, effect: ViewStatus) -> None:
        installation = self.registry.installations.get(effect.view)
        if installation is None:
            return
        is_broken = effect.status == Status.BROKEN
        # The schema may have changed: the next check decides that.
        installation.status = Status.OUTDATED if is_broken else Status(effect.status)
        installation.reason = effect.reason
        self.leaf.set_status(effect.view, installation.status, effect.reason)
        registered = self.registry.views[installation.definition.name]
        if is_broken:
            log.error("view is outdated", view=installation.definition.name, reason=effect.reason)
            asyncio.get_running_loop().call_soon(self._broke, registered, installation)
        elif installation.status is Status.QUARANTINED:
            log.error("view is quarantined", view=installation.definition.name, reason=effect.reason)
        if installation.status.answers and registered.replacement is installation:
            self._swap(registered, installation)

    def _broke(self, registered: RegisteredView, installation: InstalledView) -> None:
        """Handles a broken view, in a step of its own after the one in which it broke."""
        reason = installation.reason or "unknown"
        if registered.installed is installation:
            self.bury(registered, reason, Status.OUTDATED)
        elif registered.replacement is installation:
            registered.replacement = None
            registered.reason = reason
            self.uninstall(installation)

    def _swap(self, registered: RegisteredView, replacement: InstalledView) -> None:
        """Makes the name refer to the replacement as of this commit. The old installation is removed in a step of its
        own."""
        self.leaf.publish(replacement.id)
        old, registered.installed, registered.replacement = registered.installed, replacement, None
        registered.reason = None
        asyncio.get_running_loop().call_soon(self.uninstall, old)
