"""Schema changes: affected views break at once and are repaired if they can be.

*Theory*: the stream reports changes of a table's row format, the catalog all others. A change of columns affects the
views that read or mention them; if one of these is planned again, rows of the table are extended by the new columns, so
the others go on with their state. A table that became another one, or whose rows cannot be extended, affects all its
views. Broken views are planned again until that succeeds.

Not here: when the catalog is read (`schema_watch`).
"""

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TypeVar

import structlog

from cdc.change import SchemaNotice
from dataflow.engine.events import SchemaChanged
from dataflow.plan.nodes import Chain, View
from dataflow.plan.refresh import RefreshView
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog, Table
from dataflow.types import ViewId
from service.engine.upstream.constraints import broken, is_looser
from service.engine.upstream.upstream import Upstream, UpstreamSession
from service.engine.views.catalog_diff import CatalogDifference, Look
from service.engine.views.installer import Installer
from service.engine.views.planner import reason_of
from service.engine.views.registry import InstalledView, RegisteredView, Status, ViewPlan
from service.engine.views.tables import TableAlteredError, TableRefusedError
from service.ground.errors import ApiError

log = structlog.get_logger()
T = TypeVar("T")
#: Problems of a view whose reads are not forwarded either: its SQL is rejected, or it is too large.
_FATAL = frozenset({"view_invalid", "too_large"})
_ALTERED = "The table's columns have changed; the view is being planned again."
#: Redefining statements that are remembered for plans in progress.
_REMEMBERED = 1000


@dataclass(slots=True)
class Repair:
    """Breaks views whose tables have changed, and repairs broken ones."""

    installer: Installer
    upstream: Upstream
    #: Serializes all changes of views.
    lock: asyncio.Lock
    #: Notices that concern no view, so that each is logged once.
    _known: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    #: Number of catalog changes so far: a plan begun before the latest one is not installed.
    _changes: int = 0
    _last: Look | None = None
    #: Held while the catalog is read, so that results are handled in the order of the reads.
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Latest relations redefined by statements, and their total number.
    _redefined: deque[str] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _redefinitions: int = 0

    def restart(self) -> None:
        """Resets for a new stream."""
        self._known.clear()

    @property
    def exact(self) -> bool | None:
        """True if schema-altering transactions are marked in the stream; None if unknown."""
        return None if self._last is None or self._last.token is None else self._last.token.exact

    @property
    def is_needed(self) -> bool:
        return any(self._broken())

    def schema_changed(self, notice: SchemaNotice) -> None:
        """Breaks the views affected by a change of a followed table."""
        tables = self.installer.following.catalog.tables
        affected = [each for each in self._installed() if uses(each[1].plan, notice, tables)]
        if affected:
            log.warning("table changed", table=notice.table, reason=notice.reason)
            if not notice.columns:
                self.break_views({notice.table}, notice.reason)
                return
            for registered, installation in affected:
                self._plan_anew(registered, installation, notice.reason)
        elif (notice.table, notice.columns) not in self._known:
            self._known.add((notice.table, notice.columns))
            log.info("table changed; no view uses the changed columns", table=notice.table, reason=notice.reason)
        following = self.installer.following
        if not notice.columns:
            # Its rows are no longer decoded: the next view that reads it follows it again.
            following.unfollow({notice.table})
        elif notice.table in following.layouts:
            notices = following.doubted.setdefault(notice.table, [])
            if notice not in notices:
                notices.append(notice)

    @property
    def state(self) -> tuple[int, int]:
        """Token for `require_unchanged`; read it before the catalog is read for a plan."""
        return self._changes, self._redefinitions

    def redefined(self, name: str) -> None:
        """Breaks the views that read a relation which a statement has redefined (`cdc.change.Batch`)."""
        self._redefinitions += 1
        self._redefined.append(name)
        for registered, installation in self._installed():
            views = sorted(_views_named(installation.plan, [name]))
            if views:
                self._plan_anew(registered, installation, f"The database's view {views[0]} was redefined.")

    def require_unchanged(self, plan: ViewPlan, since: tuple[int, int]) -> None:
        """Raises `TableAlteredError` if, since `since` (see `state`), the stream reported a change of a table or of an
        upstream view of the plan, or the catalog has changed. The stream reports each change only once. Otherwise the
        plan is valid until the loop's next turn."""
        changes, redefinitions = since
        new = self._redefinitions - redefinitions
        names = list(self._redefined)[-new:] if 0 < new <= _REMEMBERED else [""] if new else []
        for view in sorted(_views_named(plan, names)):
            raise TableAlteredError(view)
        following = self.installer.following
        if changes != self._changes:
            raise TableAlteredError(min(plan.tables, default="of the database"))
        for table in sorted(plan.tables):
            if table not in following.layouts:
                raise TableAlteredError(table)
            if any(uses(plan, notice, following.catalog.tables) for notice in following.doubted.get(table, ())):
                raise TableAlteredError(table)

    def break_views(self, tables: set[str], reason: str) -> None:
        """Removes all views on `tables` from the engine and stops following the tables."""
        installer = self.installer
        for table in tables:
            installer.dispatcher.step(SchemaChanged(table, reason))
        for registered in installer.registry.views.values():
            if registered.replacement is not None and tables & registered.replacement.tables:
                installer.uninstall(registered.replacement)
                registered.replacement = None
            if registered.installed is not None and tables & registered.installed.tables:
                installer.bury(registered, reason, Status.OUTDATED)
        installer.following.unfollow(tables)

    async def check(self) -> None:
        """Compares the followed tables with the catalog and tries to repair broken views. Raises `UpstreamError`."""
        async with self.lock, self.upstream.session() as session:
            _, redefinitions = self.state
            fresh = await self.look(session)
            if self.is_needed:
                await self.mend(session, fresh, (self._changes, redefinitions))

    async def meet(self, session: UpstreamSession) -> None:
        """Reads the catalog if its token has changed, so that a plan made next is not based on changes first seen
        later. The caller holds the lock. Raises `UpstreamError`."""
        if not await self.has_moved(session):
            return
        before = {registered.definition.name for registered in self._broken()}
        _, redefinitions = self.state
        fresh = await self.look(session)
        # Views that broke earlier are left to the periodic `check`.
        if any(registered.definition.name not in before for registered in self._broken()):
            await self.mend(session, fresh, (self._changes, redefinitions))

    async def look(self, session: UpstreamSession) -> Catalog:
        """Compares the catalog with the installed views and breaks the outdated ones. Raises `UpstreamError`."""
        async with self._looking:
            found = await self.compare(session)
            for table in sorted(found.layouts):
                if self._is_looser(found, table):
                    self._loosen(found, table, await self._unaffected(session, found, table))
            self.heed(found)
        return found.catalog

    def _is_looser(self, found: Look, table: str) -> bool:
        """True if columns of a table lost NOT NULL, and nothing else has changed."""
        following = self.installer.following
        notices = [notice for notice in found.notices if notice.table == table]
        return (
            bool(notices)
            and table in found.catalog.tables
            # A column may have been rewritten by the same migration.
            and notices == list(broken(following.catalog.tables[table], found.catalog.tables[table]))
            and following.layouts.get(table) is found.layouts[table]
            and table not in following.doubted
            and is_looser(following.definition(table), found.catalog.tables[table])
        )

    async def _unaffected(self, session: UpstreamSession, found: Look, table: str) -> set[ViewId]:
        """Returns the incremental views on a table whose plans would be made again now."""
        installer, same = self.installer, set[ViewId]()
        for _, installation in list(self._installed()):
            if table in installation.tables and isinstance(installation.view, View):
                planning = installer.planning(found.catalog, installation.definition, anew=(table,))
                with suppress(ApiError, TableRefusedError):
                    plan = await planning.plan(session, installation.definition)
                    if installer.following.placed(plan.view) == installation.view:
                        same.add(installation.id)
        return same

    def _loosen(self, found: Look, table: str, unaffected: set[ViewId]) -> None:
        """Lets views go on that do not rely on NOT NULL."""
        if not self._is_looser(found, table):
            return
        self.installer.following.redefine(found.catalog.tables[table])
        found.notices[:] = [notice for notice in found.notices if notice.table != table]
        for registered, installation in self._installed():
            if installation.id in unaffected:
                self.installer.redescribe(installation)
            elif table in installation.tables:
                self._plan_anew(registered, installation, f"Columns of {table} may be NULL now.")

    async def has_moved(self, session: UpstreamSession) -> bool:
        """True if the catalog's token has changed. Raises `UpstreamError`."""
        token = await session.schema_token(self.installer.following.layouts)
        return token is not None and (self._last is None or token != self._last.token)

    async def compare(self, session: UpstreamSession) -> Look:
        """Reads the catalog and compares the followed tables with it. Raises `UpstreamError`."""
        following = self.installer.following
        layouts = dict(following.layouts)
        # Read the token first: a change during the read of the catalog then yields a different token later.
        token = await session.schema_token(layouts)
        code = await session.load_code()
        fresh = await session.load_catalog(self.installer.registry.texts())
        return Look(token, code, fresh, layouts, await session.check_schema(layouts, following.catalog.tables, fresh))

    def begin(self, look: Look) -> None:
        """Sets the catalog that the next installations are planned with."""
        self._last = look

    @property
    def last(self) -> Look | None:
        """Catalog that the installed views match."""
        return self._last

    def heed(self, found: Look) -> None:
        """Breaks the views that the catalog no longer matches."""
        for notice in found.notices:
            # The table has been followed again meanwhile, in its new form.
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
        """Copy of the installed views, which may change during iteration."""
        for registered in list(self.installer.registry.views.values()):
            for installation in (registered.replacement, registered.installed):
                if installation is not None and not installation.tombstone:
                    yield registered, installation

    def _plan_anew(self, registered: RegisteredView, installation: InstalledView, reason: str) -> None:
        if installation is registered.installed:
            self.installer.bury(registered, f"{reason} The view is being planned again.", Status.OUTDATED)
        else:
            self.installer.uninstall(installation)
            registered.replacement = None

    def _broken(self) -> Iterator[RegisteredView]:
        for registered in self.installer.registry.views.values():
            installed = registered.installed
            if registered.replacement is not None:
                continue
            if registered.status is Status.BROKEN or (installed is not None and installed.is_buried):
                yield registered

    async def mend(self, session: UpstreamSession, fresh: Catalog, since: tuple[int, int]) -> None:
        """Plans every broken view again and installs those that succeed; `since` is the `state` of `fresh`. The caller
        holds the lock."""
        checks = self.installer.checks()
        tried: set[str] = set()
        # Views of a table that cannot be extended break meanwhile.
        while (registered := next((r for r in self._broken() if r.definition.name not in tried), None)) is not None:
            definition = registered.definition
            tried.add(definition.name)
            anew = frozenset(self.installer.following.doubted)
            try:
                planning = self.installer.planning(fresh, definition, anew=anew, checks=checks)
                plan = await planning.plan(session, definition)
                await self.renew(session, plan, anew, fresh)
                plan = await self.installer.join(session, plan, fresh)
                await self.installer.admit(session, [plan], fresh)
                self.require_unchanged(plan, since)
            except ApiError as error:
                status = Status.BROKEN if error.code in _FATAL else Status.OUTDATED
                self.installer.bury(registered, reason_of(error), status)
            except TableAlteredError:
                continue  # Keep the original reason, which is more specific.
            except TableRefusedError as refused:
                self.installer.bury(registered, str(refused), Status.OUTDATED)
            else:
                log.info("view is repaired", view=definition.name)
                self.installer.install(definition, plan)

    def outdated(self, fresh: Catalog) -> set[str]:
        """Returns the followed tables whose columns have changed."""
        following = self.installer.following
        return {
            table
            for table in following.layouts.keys() & fresh.tables.keys()
            if table in following.doubted or following.definition(table).columns != fresh.tables[table].columns
        }

    async def renew(self, session: UpstreamSession, plan: ViewPlan, outdated: Set[str], fresh: Catalog) -> bool:
        """Lets the outdated tables of a plan, made with `fresh`, be followed as they are defined there. Returns whether
        views broke. Raises `TableRefusedError`, `UpstreamError`."""
        broke = False
        layouts = self.installer.following.layouts
        for table in sorted(plan.tables & outdated & layouts.keys()):
            if not self._concerns(plan, table, fresh):
                continue
            if not self.installer.is_read(table):
                self.installer.following.unfollow({table})
            elif self.installer.extends:
                before = layouts[table]
                try:
                    await self.installer.extend(session, table, fresh)
                except BaseException:
                    # It may have been extended but not announced.
                    if layouts.get(table) is not before:
                        self.break_views({table}, _ALTERED)
                    raise
            else:
                self.break_views({table}, _ALTERED)
                broke = True
        return broke

    def _concerns(self, plan: ViewPlan, table: str, fresh: Catalog) -> bool:
        """False if an outdated table has only columns that the stream does not state, and the plan, made with `fresh`,
        does not read these."""
        following = self.installer.following
        return following.definition(table).columns != fresh.tables[table].columns or any(
            not notice.unreadable or uses(plan, notice, fresh.tables) for notice in following.doubted[table]
        )


def uses(plan: ViewPlan, notice: SchemaNotice, tables: Mapping[str, Table]) -> bool:
    """True if a plan, made with these definitions of tables, reads what a notice reports."""
    if notice.table not in plan.tables or not notice.columns:
        return notice.table in plan.tables
    read = {tables[notice.table].columns[i].name for i in columns_used(plan, notice.table)}
    if not read.isdisjoint(notice.columns):
        return True
    # COUNT of a column that is NOT NULL does not read it, but needs it to be there.
    return not notice.unreadable and any(_mentions(plan, column) for column in notice.columns)


def _mentions(plan: ViewPlan, column: str) -> bool:
    text = " ".join((plan.sql, *(sql for _, sql in plan.upstream_views)))
    return re.search(rf"(?<![\w:$]){re.escape(column)}(?!\w)", text, re.IGNORECASE) is not None


def _views_named(plan: ViewPlan, names: Iterable[str]) -> set[str]:
    """Returns the upstream views in `names` (in any case) that a plan read."""
    found = {name.lower() for name in names}
    return {
        view
        for view, _ in plan.upstream_views
        if "" in found
        or view.lower() in found
        or any(name.endswith(".") and view.lower().startswith(name) for name in found)
    }


def columns_used(plan: ViewPlan, table: str) -> set[int]:
    """Returns the columns of `table` that a plan reads."""
    used: set[int] = set()
    if isinstance(plan.view, RefreshView):
        return used.union(*(read.columns for read in plan.view.reads if read.table == table))
    for chain in _find(plan.view.relation, Chain):
        if chain.table == table:
            refs = _find((chain.predicate, *chain.columns), ColumnRef)
            used.update(ref.index for ref in refs if chain.parameters is None or ref.index < chain.parameters.first)
    return used


def _find(node: object, kind: type[T]) -> Iterator[T]:
    """Yields all parts of one kind in a tree of frozen dataclasses."""
    if isinstance(node, kind):
        yield node
    elif isinstance(node, tuple):
        for part in node:
            yield from _find(part, kind)
    elif is_dataclass(node):
        for f in fields(node):
            yield from _find(getattr(node, f.name), kind)
