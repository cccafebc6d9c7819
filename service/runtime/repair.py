"""The upstream's tables change under the views that read them: what breaks, and what can be mended.

The stream says when a table's rows look different, the catalog (asked now and then) when a table is gone. Either way
the views that it concerns break at once, the others do not notice, and what is broken is planned anew until it can be.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TypeVar

import structlog

from cdc.change import SchemaNotice
from dataflow.engine.events import SchemaChanged
from dataflow.plan.nodes import Chain
from dataflow.plan.refresh import RefreshView
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog
from service.errors import ApiError
from service.runtime.following import TableAlteredError, TableRefusedError
from service.runtime.installer import Installer
from service.runtime.planning import reason_of
from service.upstream.upstream import Upstream, UpstreamSession
from service.upstream.words import UpstreamError
from service.views import Plan, RegisteredView, Status

log = structlog.get_logger()
T = TypeVar("T")


@dataclass(slots=True)
class Repair:
    """Breaks views whose tables changed, and mends broken ones."""

    installer: Installer
    upstream: Upstream
    #: Held by every change of the views.
    lock: asyncio.Lock
    #: Notices that concern no view, so that they are told once.
    _known: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)

    def restart(self) -> None:
        """A new stream: nothing is known to have changed."""
        self._known.clear()

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

    def require_unchanged(self, plan: Plan) -> None:
        """The stream may have said something of a table since it was joined, and will not say it again. Raises
        `TableAlteredError`; if the plan is installed before the loop's next turn, it is right."""
        following = self.installer.following
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
                installer.bury(registered, reason)
        installer.following.unfollow(tables)

    def _uses(self, plan: Plan, notice: SchemaNotice) -> bool:
        if notice.table not in plan.tables:
            return False
        table = self.installer.following.catalog.tables[notice.table]
        return not notice.columns or not set(notice.columns).isdisjoint(
            table.columns[i].name for i in columns_used(plan, notice.table)
        )

    async def check(self) -> None:
        """Compares the followed tables with the catalog, and tries to mend what is broken. Raises `UpstreamError`."""
        async with self.lock, self.upstream.session() as session:
            following = self.installer.following
            layouts = dict(following.layouts)
            fresh = await session.load_catalog()
            for notice in await session.check_schema(layouts, following.catalog.tables, fresh):
                self.schema_changed(notice)
            self._views_changed(fresh)
            if any(self._broken()):
                await self.mend(session, fresh)

    def _views_changed(self, fresh: Catalog) -> None:
        """Views of the upstream that ours read may be other ones by now: the stream does not tell."""
        now = {(view.name, view.sql) for view in fresh.views.values()}
        for registered in list(self.installer.registry.views.values()):
            for installation in (registered.replacement, registered.installed):
                if installation is None or installation.tombstone or installation.plan.upstream_views <= now:
                    continue
                name = min(installation.plan.upstream_views - now)[0]
                reason = f"The database's view {name} is another one now; the view is being planned anew."
                if installation is registered.installed:
                    self.installer.bury(registered, reason)
                else:
                    self.installer.uninstall(installation)
                    registered.replacement = None

    def _broken(self) -> Iterator[RegisteredView]:
        for registered in self.installer.registry.views.values():
            if registered.status is Status.BROKEN:
                yield registered

    async def mend(self, session: UpstreamSession, fresh: Catalog) -> None:
        """Plans every broken view anew and installs those that can be. The lock is held."""
        for registered in list(self._broken()):
            definition = registered.definition
            try:
                plan = await self.installer.planning(fresh, definition).plan(session, definition)
                await self.installer.join(session, plan.tables, fresh)
                await self.installer.admit(session, [plan], fresh)
                self.require_unchanged(plan)
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


def columns_used(plan: Plan, table: str) -> set[int]:
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


async def keep_checking(repair: Repair, period_s: float) -> None:
    """Checks for as long as the stream is up."""
    while True:
        await asyncio.sleep(period_s)
        try:
            await repair.check()
        except UpstreamError as error:
            log.warning("schema check failed", reason=error.detail)
        except TableRefusedError as error:
            log.warning("views stay broken", reason=str(error))
