"""The upstream's tables change under the views that read them: what breaks, and what can be mended.

The stream says when a table's rows look different, the catalog all else. Either way the views that it concerns break
at once, the others do not notice, and what is broken is planned anew until it can be.

Not here: when the catalog is looked at (`schema_watch`).
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TypeVar

import structlog

from cdc.change import SchemaNotice
from dataflow.engine.events import SchemaChanged
from dataflow.plan.nodes import Chain
from dataflow.plan.refresh import RefreshView
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog
from service.engine.upstream.upstream import Upstream, UpstreamSession
from service.engine.views.catalog_diff import CatalogDifference, Look
from service.engine.views.installer import Installer
from service.engine.views.planner import reason_of
from service.engine.views.registry import InstalledView, RegisteredView, Status, ViewPlan
from service.engine.views.tables import TableAlteredError, TableRefusedError
from service.ground.errors import ApiError

log = structlog.get_logger()
T = TypeVar("T")
#: Statements that are remembered for plans made meanwhile.
_REMEMBERED = 1000


@dataclass(slots=True)
class Repair:
    """Breaks views whose tables changed, and mends broken ones."""

    installer: Installer
    upstream: Upstream
    #: Held by every change of the views.
    lock: asyncio.Lock
    #: Notices that concern no view, so that they are told once.
    _known: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    #: How often the catalog was another one than before: a plan that was begun before that is not installed.
    _changes: int = 0
    _last: Look | None = None
    #: Held while the catalog is looked at: what was seen first is heeded first.
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: What statements defined anew, the last ones, and how many there were.
    _redefined: deque[str] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _redefinitions: int = 0

    def restart(self) -> None:
        """A new stream: nothing is known to have changed."""
        self._known.clear()

    @property
    def exact(self) -> bool | None:
        """Whether transactions that alter the schema say so in the stream; None if that is not known."""
        return None if self._last is None or self._last.token is None else self._last.token.exact

    @property
    def is_needed(self) -> bool:
        """Whether any view is broken."""
        return any(self._broken())

    def schema_changed(self, notice: SchemaNotice) -> None:
        """A followed table is not what it was planned for. Views that this concerns break now."""
        used = any(self._uses(i.plan, notice) for i in self.installer.registry.installations.values())
        if used:
            log.warning("table changed", table=notice.table, reason=notice.reason)
            self.break_views({notice.table}, notice.reason)
            return
        if (notice.table, notice.columns) not in self._known:
            self._known.add((notice.table, notice.columns))
            log.info("table changed; no view uses what changed", table=notice.table, reason=notice.reason)
        following = self.installer.following
        if not notice.columns:
            # None of its rows may come any more: the next view that reads it follows it anew.
            following.unfollow({notice.table})
        elif notice.table in following.layouts:
            following.doubted.setdefault(notice.table, set()).update(notice.columns)

    @property
    def state(self) -> tuple[int, int]:
        """What `require_unchanged` compares with; to be taken before the catalog is read for a plan."""
        return self._changes, self._redefinitions

    def redefined(self, name: str) -> None:
        """A statement defined relations anew (`cdc.change.Batch`): views that read the database's views of that name
        break now."""
        self._redefinitions += 1
        self._redefined.append(name)
        for registered, installation in self._installed():
            views = sorted(_views_named(installation.plan, [name]))
            if views:
                self._plan_anew(registered, installation, f"The database's view {views[0]} is another one now.")

    def require_unchanged(self, plan: ViewPlan, since: tuple[int, int]) -> None:
        """The stream may have said something of a table since it was joined, and will not say it again; or of a view of
        the database, or the catalog may have changed, since it was read (`state`). Raises `TableAlteredError`; if the
        plan is installed before the loop's next turn, it is right."""
        changes, redefinitions = since
        new = self._redefinitions - redefinitions
        names = list(self._redefined)[-new:] if 0 < new <= _REMEMBERED else [""] if new else []
        for view in sorted(_views_named(plan, names)):
            raise TableAlteredError(view)
        following = self.installer.following
        if changes != self._changes:
            raise TableAlteredError(min(plan.tables, default="of the database"))
        for table in sorted(plan.tables):
            columns = tuple(following.doubted.get(table, ()))
            if table not in following.layouts:
                raise TableAlteredError(table)
            if columns and self._uses(plan, SchemaNotice(table, "", columns)):
                self.break_views({table}, "The table has changed; the view is being planned anew.")
                raise TableAlteredError(table)

    def break_views(self, tables: set[str], reason: str) -> None:
        """Takes all views on `tables` out of the engine, and stops following these."""
        installer = self.installer
        for table in tables:
            installer.dispatcher.step(SchemaChanged(table, reason))
        for registered in installer.registry.views.values():
            if registered.replacement is not None and tables & registered.replacement.tables:
                installer.uninstall(registered.replacement)
                registered.replacement = None
            if registered.installed is not None and tables & registered.installed.tables:
                installer.bury(registered, reason, Status.BUILDING)
        installer.following.unfollow(tables)

    def _uses(self, plan: ViewPlan, notice: SchemaNotice) -> bool:
        if notice.table not in plan.tables:
            return False
        table = self.installer.following.catalog.tables[notice.table]
        return not notice.columns or not set(notice.columns).isdisjoint(
            table.columns[i].name for i in columns_used(plan, notice.table)
        )

    async def check(self) -> None:
        """Compares the followed tables with the catalog, and tries to mend what is broken. Raises `UpstreamError`."""
        async with self.lock, self.upstream.session() as session:
            _, redefinitions = self.state
            fresh = await self.look(session)
            if self.is_needed:
                await self.mend(session, fresh, (self._changes, redefinitions))

    async def meet(self, session: UpstreamSession) -> None:
        """Looks if the token has moved, so that what is planned next is not of a catalog that a later look takes for
        new. The lock is held. Raises `UpstreamError`."""
        if not await self.has_moved(session):
            return
        before = {registered.definition.name for registered in self._broken()}
        _, redefinitions = self.state
        fresh = await self.look(session)
        # What was broken before is for `check`, which comes again and again.
        if any(registered.definition.name not in before for registered in self._broken()):
            await self.mend(session, fresh, (self._changes, redefinitions))

    async def look(self, session: UpstreamSession) -> Catalog:
        """Compares the catalog with what is installed; breaks what is not right any more. Raises `UpstreamError`."""
        async with self._looking:
            found = await self.compare(session)
            self.heed(found)
        return found.catalog

    async def has_moved(self, session: UpstreamSession) -> bool:
        """Whether the catalog is worth a look. Raises `UpstreamError`."""
        token = await session.schema_token(self.installer.following.layouts)
        return token is not None and (self._last is None or token != self._last.token)

    async def compare(self, session: UpstreamSession) -> Look:
        """The catalog, and what followed tables are not any more. Raises `UpstreamError`."""
        following = self.installer.following
        layouts = dict(following.layouts)
        # Before the rest: what changes meanwhile makes another token.
        token = await session.schema_token(layouts)
        code = await session.load_code()
        fresh = await session.load_catalog(self.installer.registry.texts())
        return Look(token, code, fresh, layouts, await session.check_schema(layouts, following.catalog.tables, fresh))

    def begin(self, look: Look) -> None:
        """All that is installed next is planned with this catalog."""
        self._last = look

    @property
    def last(self) -> Look | None:
        """The last look: what is installed is planned with it, or as it would be."""
        return self._last

    def heed(self, found: Look) -> None:
        """Breaks what is not right any more."""
        for notice in found.notices:
            # Followed anew meanwhile, it is another one.
            if self.installer.following.layouts.get(notice.table) is found.layouts[notice.table]:
                self.schema_changed(notice)
        difference = CatalogDifference.between(self._last or found, found)
        self._last = found
        self._changes += difference.any
        for registered, installation in self._installed():
            reason = difference.concerns(installation.plan)
            if reason is not None:
                self._plan_anew(registered, installation, reason)

    def _installed(self) -> Iterator[tuple[RegisteredView, InstalledView]]:
        """What is in the engine; it may break while it is gone through."""
        for registered in list(self.installer.registry.views.values()):
            for installation in (registered.replacement, registered.installed):
                if installation is not None and not installation.tombstone:
                    yield registered, installation

    def _plan_anew(self, registered: RegisteredView, installation: InstalledView, reason: str) -> None:
        if installation is registered.installed:
            self.installer.bury(registered, f"{reason} The view is being planned anew.", Status.BUILDING)
        else:
            self.installer.uninstall(installation)
            registered.replacement = None

    def _broken(self) -> Iterator[RegisteredView]:
        for registered in self.installer.registry.views.values():
            installed = registered.installed
            if registered.status is Status.BROKEN or (installed is not None and installed.is_buried):
                yield registered

    async def mend(self, session: UpstreamSession, fresh: Catalog, since: tuple[int, int]) -> None:
        """Plans every broken view anew and installs those that can be; `since` is the `state` of `fresh`. The lock is
        held."""
        checks = self.installer.checks()
        for registered in list(self._broken()):
            definition = registered.definition
            try:
                plan = await self.installer.planning(fresh, definition, checks=checks).plan(session, definition)
                await self.installer.join(session, plan.tables, fresh)
                await self.installer.admit(session, [plan], fresh)
                self.require_unchanged(plan, since)
            except ApiError as error:
                self.installer.bury(registered, reason_of(error))
            except TableAlteredError:
                continue  # What it was broken by still says more.
            except TableRefusedError as refused:
                self.installer.bury(registered, str(refused))
            else:
                log.info("view is mended", view=definition.name)
                self.installer.install(definition, plan)

    def outdated(self, fresh: Catalog) -> set[str]:
        """Followed tables that have other columns by now."""
        following = self.installer.following
        return {
            table
            for table in following.layouts.keys() & fresh.tables.keys()
            if following.catalog.tables[table].columns != fresh.tables[table].columns
        }


def _views_named(plan: ViewPlan, names: Iterable[str]) -> set[str]:
    """The database's views that a plan read, as far as they are among these (in whatever case)."""
    found = {name.lower() for name in names}
    return {
        view
        for view, _ in plan.upstream_views
        if "" in found
        or view.lower() in found
        or any(name.endswith(".") and view.lower().startswith(name) for name in found)
    }


def columns_used(plan: ViewPlan, table: str) -> set[int]:
    """Columns of `table` that a plan reads."""
    used: set[int] = set()
    if isinstance(plan.view, RefreshView):
        return used.union(*(read.columns for read in plan.view.reads if read.table == table))
    for chain in _find(plan.view.relation, Chain):
        if chain.table == table:
            for scalar in (chain.predicate, *chain.columns):
                used.update(ref.index for ref in _find(scalar, ColumnRef))
    return used


def _find(node: object, kind: type[T]) -> Iterator[T]:
    """All parts of a tree of frozen dataclasses that are of a kind."""
    if isinstance(node, kind):
        yield node
    elif isinstance(node, tuple):
        for part in node:
            yield from _find(part, kind)
    elif is_dataclass(node):
        for f in fields(node):
            yield from _find(getattr(node, f.name), kind)
