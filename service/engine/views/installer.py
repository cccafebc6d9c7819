"""Views come, go and change while the stream runs.

Invariants: one change at a time (`lock`); what is on disk was accepted; a name means its old installation until the new
one is ready, with no moment in which it means nothing; a broken view is not in the engine (its *tombstone* keeps the
name and says why), so that nothing of it is fed rows it was not planned for.

Not here: the registry itself (`service.engine.views.registry`), following tables (`tables`), what breaks and
mends views (`repair`).
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import structlog

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

#: A collection stops everything for 0.1 s: while many views go, one after another, there is one so often.
_COLLECT_S = 1.0


@dataclass(slots=True)
class Installer:
    """Puts views into the engine and the leaf store, and takes them out."""

    registry: ViewRegistry
    dispatcher: Dispatcher
    leaf: LeafWriter
    following: FollowedTables
    lookups: Lookups
    admission: Admission
    #: Whether who asks has a token.
    guarded: bool = False
    #: Which part of all keys is kept here.
    shard: Shard = ALONE
    #: What was admitted, and is kept by another shard: views, and whether they are to be kept whole.
    _elsewhere: set[tuple[View, bool]] = field(default_factory=set)
    #: Frees the nodes of views that have gone, once for those that go together.
    _collecting: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self.dispatcher.on(ViewStatus, self._view_status)

    def planning(
        self,
        fresh: Catalog,
        definition: Definition,
        *,
        as_followed: bool = True,
        put: Definition | None = None,
        checks: TableChecks | None = None,
    ) -> Planning:
        """What plans a definition over `fresh` and the other registered views. Followed tables are as they are
        followed, unless it is only to be seen what the definition reads. `put`: a definition that is to come;
        `checks`: shared by what is planned together."""
        others = {name: registered.definition.sql for name, registered in self.registry.views.items()}
        if put is not None:
            others[put.name] = put.sql
        others.pop(definition.name, None)
        catalog = replace(self.following.planning_catalog(fresh) if as_followed else fresh, registered=others)
        return Planning(catalog, checks or self.checks(), self.guarded)

    def checks(self) -> TableChecks:
        """New ones: what was said of a table is not for ever."""
        return TableChecks(self.following.refusals, self.following.layouts)

    async def join(self, session: UpstreamSession, tables: frozenset[str], fresh: Catalog) -> None:
        """Makes sure that `tables`, none of which is refused, are followed; announces those that were not."""
        new = sorted(tables - self.following.layouts.keys())
        if not new:
            return
        await self.following.publish(session, new)
        try:
            await self.following.follow(session, new, fresh)
            taken = await self.lookups.snapshot()
        except BaseException:
            # Followed and not announced, they would be taken for ones that have joined.
            self.following.unfollow(new)
            raise
        for table in new:
            self.dispatcher.step(TableJoined(table, bridge.snapshot(taken.snapshot)))

    async def admit(self, session: UpstreamSession, plans: Iterable[ViewPlan], fresh: Catalog) -> None:
        """Makes sure that what these plans need whole fits into memory. Raises `ApiError` ``too_large``."""
        catalog = self.following.planning_catalog(fresh)
        here = []
        for plan in plans:
            if isinstance(plan.view, View) and self._is_anothers(plan, catalog):
                self._elsewhere.add((plan.view, plan.whole))
            else:
                self._elsewhere.discard((plan.view, plan.whole))
                here.append(plan)
        await self.admission.admit(session, here, catalog)

    def is_elsewhere(self, plan: ViewPlan) -> bool:
        """Whether another shard keeps what is planned here, as it was found when the plan was admitted."""
        return isinstance(plan.view, View) and (plan.view, plan.whole) in self._elsewhere

    def _is_anothers(self, plan: ViewPlan, catalog: Catalog) -> bool:
        """A view that is kept whole has one home; one of a query is only known to the shard that made it."""
        assert isinstance(plan.view, View)
        name = plan.view.name
        if self.shard.of == 1 or is_of_query(name) or homes_among(self.shard.of).of_view(name) == self.shard.number:
            return False
        return Explanation(plan.view, catalog, whole=plan.whole).materialization == "full"

    def install(self, definition: Definition, plan: ViewPlan) -> InstalledView:
        """Hands a plan to the engine, beside what the name means now, if that answers."""
        registered = self.registry.views.setdefault(definition.name, RegisteredView(definition))
        registered.definition = definition
        self.uninstall(registered.replacement)
        registered.replacement = None
        if self.is_elsewhere(plan):
            return self._leave_elsewhere(registered, plan)
        installation = InstalledView(self.leaf.new_id(), plan, definition)
        old = registered.installed
        beside = old is not None and not old.tombstone
        self._register(installation, listed=old is None)
        if beside:
            registered.replacement = installation
        else:
            if old is not None:
                self.leaf.publish(installation.id)
            registered.installed = installation
            registered.reason = None
        self.registry.installations[installation.id] = installation
        limits = definition.options.key_limits
        if isinstance(plan.view, View):
            self.dispatcher.step(InstallView(installation.id, plan.view, plan.whole, limits))
        else:
            self.dispatcher.step(InstallRefresh(installation.id, plan.view, limits))
        if not beside:
            self.uninstall(old)
        return installation

    def introduce(self, plans: Mapping[str, ViewPlan]) -> None:
        """Make the views known to readers before there is an engine, in a new leaf store that has nothing of them: the
        upstream can answer them while they are being built. What has no plan says why. The store has no version that
        anybody could ask for, so a read with a minimum waits for the stream."""
        for registered in self.registry.views.values():
            plan = plans.get(registered.definition.name)
            if plan is None:
                self.entomb(registered, registered.reason or "It cannot be planned.")
            elif self.is_elsewhere(plan):
                self._say_elsewhere(registered, plan)
            else:
                registered.installed = InstalledView(self.leaf.new_id(), plan, registered.definition)
                self._register(registered.installed, listed=True)
                self.leaf.set_status(registered.installed.id, Status.READY)
        self.leaf.commit([], 0, wall_ms())

    def adopt(self, plans: Mapping[str, ViewPlan]) -> None:
        """Know the views that the leaf store of another engine process has, under the ids that readers have of them,
        before there is an engine: what it holds is served, and the upstream can answer the rest."""
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
        """Its name exists here, and says that another shard answers."""
        old, registered.reason = registered.installed, None
        tombstone = self._say_elsewhere(registered, plan)
        self._elsewhere.discard((plan.view, plan.whole))
        if old is None:
            self._commit_catalog()
        self.uninstall(old)
        return tombstone

    def _say_elsewhere(self, registered: RegisteredView, plan: ViewPlan) -> InstalledView:
        tombstone = InstalledView(self.leaf.new_id(), plan, registered.definition, Status.ELSEWHERE, tombstone=True)
        registered.installed = tombstone
        self._register(tombstone, listed=False)
        self.leaf.set_status(tombstone.id, Status.ELSEWHERE)
        self.leaf.publish(tombstone.id)
        return tombstone

    def _commit_catalog(self) -> None:
        state = self.leaf.reader.state()
        if state is not None:
            self.leaf.commit([], state.position, state.at_ms)

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
        )

    def _never_null(self, new: InstalledView) -> frozenset[int]:
        """The columns of its output that are never NULL. What its plan relies on is watched
        (`service.engine.upstream.constraints`)."""
        view, catalog = new.view, self.following.catalog
        if not isinstance(view, View) or not new.tables or not new.tables <= catalog.tables.keys():
            return frozenset()
        return never_null_output(view, catalog)

    def uninstall(self, installation: InstalledView | None) -> None:
        """Takes an installation out of the engine and the leaf store."""
        if installation is None:
            return
        self.registry.installations.pop(installation.id, None)
        if self.dispatcher.running and not installation.tombstone:
            self.dispatcher.step(DropView(installation.id))
            if self._collecting is None:
                self._collecting = asyncio.get_running_loop().call_later(_COLLECT_S, self._collect)
        else:
            self._commit_drop(installation.id)

    def _collect(self) -> None:
        self._collecting = None
        garbage.collect()

    def _commit_drop(self, view: ViewId) -> None:
        state = self.leaf.reader.state()
        if state is not None:
            self.leaf.commit([LeafDrop(view)], state.position, state.at_ms)

    def unfollow_unread(self) -> None:
        """Tables that no installed view reads need not be decoded."""
        read = frozenset[str]().union(*(i.tables for i in self.registry.installations.values()))
        self.following.unfollow(self.following.layouts.keys() - read)

    def bury(self, registered: RegisteredView, reason: str, status: Status = Status.BROKEN) -> None:
        """The view is out of the engine, and its name says why: it is broken, or about to be planned anew
        (``building``)."""
        old = registered.installed
        if old is None or old.tombstone:
            self._say(registered, reason)
            return
        self._entomb(registered, old.plan, reason, status)
        self.uninstall(old)

    def entomb(self, registered: RegisteredView, reason: str) -> None:
        """A view that never had a plan: its name exists, and says why it does not answer."""
        definition = registered.definition
        nothing = View(definition.name, definition.sql, Chain("", None, ()), (), ())
        self._entomb(registered, ViewPlan(nothing, definition.sql), reason)

    def _entomb(self, registered: RegisteredView, plan: ViewPlan, reason: str, status: Status = Status.BROKEN) -> None:
        tombstone = InstalledView(self.leaf.new_id(), plan, registered.definition, status, reason, tombstone=True)
        registered.installed = tombstone
        self._register(tombstone, listed=False)
        self.leaf.set_status(tombstone.id, status, reason)
        self.leaf.publish(tombstone.id)

    def _say(self, registered: RegisteredView, reason: str) -> None:
        """A view that was broken before, or about to be planned anew, is broken, for another reason now perhaps.
        Workers know it when the admin port does."""
        if registered.status_reason == reason and registered.status is Status.BROKEN:
            return
        log.error("view is broken", view=registered.definition.name, reason=reason)
        registered.reason = reason
        if registered.installed is not None:
            registered.installed.status, registered.installed.reason = Status.BROKEN, reason
            self.leaf.set_status(registered.installed.id, Status.BROKEN, reason)
            self._commit_catalog()

    def say_progress(self, view: ViewId, text: str) -> None:
        """How far a view is that is being built; workers are told by the next commit."""
        installation = self.registry.installations[view]
        if installation.reason != text:
            installation.reason = text
            self.leaf.set_status(view, installation.status, text)

    def _view_status(self, effect: ViewStatus) -> None:
        installation = self.registry.installations.get(effect.view)
        if installation is None:
            return
        installation.status = Status(effect.status)
        installation.reason = effect.reason
        self.leaf.set_status(effect.view, effect.status, effect.reason)
        registered = self.registry.views[installation.definition.name]
        if installation.status is Status.BROKEN:
            log.error("view is broken", view=installation.definition.name, reason=effect.reason)
            asyncio.get_running_loop().call_soon(self._broke, registered, installation)
        elif installation.status is Status.QUARANTINED:
            log.error("view is in quarantine", view=installation.definition.name, reason=effect.reason)
        if installation.status.answers and registered.replacement is installation:
            self._swap(registered, installation)

    def _broke(self, registered: RegisteredView, installation: InstalledView) -> None:
        """In a step of its own after the one in which it broke."""
        reason = installation.reason or "unknown"
        if registered.installed is installation:
            self.bury(registered, reason)
        elif registered.replacement is installation:
            registered.replacement = None
            registered.reason = reason
            self.uninstall(installation)

    def _swap(self, registered: RegisteredView, replacement: InstalledView) -> None:
        """The replacement answers: the name means it from this commit on. The old one goes in a step of its own."""
        self.leaf.publish(replacement.id)
        old, registered.installed, registered.replacement = registered.installed, replacement, None
        registered.reason = None
        asyncio.get_running_loop().call_soon(self.uninstall, old)
