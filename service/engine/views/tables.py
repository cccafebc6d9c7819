"""What the engine and the stream take the upstream's tables for, and how a table gets into both.

Invariants: a followed table has one definition in `catalog` and one layout, both of the same moment; neither is
replaced while a plan that was made with it is installed. A table that joins while the stream runs is announced to the
engine with a snapshot taken after its layout.

Not here: what the checks look at (`upstream.checks`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import structlog

from cdc.change import TableLayout
from cdc.stream import ChangeStream
from dataflow.schema import Catalog
from service.engine.upstream.constraints import broken
from service.engine.upstream.results import Finding
from service.engine.upstream.upstream import UpstreamSession
from service.settings.sections import CdcSettings

log = structlog.get_logger()


class TableRefusedError(Exception):
    """A table that a view reads cannot be followed; `hint` is the statement that repairs it.

    `streamed`: its changes could be had, once that is repaired.
    """

    def __init__(self, reason: str, hint: str | None, *, streamed: bool = True) -> None:
        super().__init__(reason if hint is None else f"{reason} {hint}")
        self.reason = reason
        self.hint = hint
        self.streamed = streamed


class TableAlteredError(TableRefusedError):
    """A table is another one than when the catalog was read: look again."""

    def __init__(self, table: str) -> None:
        super().__init__(f"Table {table} is being altered; it is looked at again soon.", None)


@dataclass(slots=True)
class FollowedTables:
    """The followed tables."""

    settings: CdcSettings
    #: The engine's own: tables are added to it, never replaced while a view reads them.
    catalog: Catalog = field(default_factory=Catalog)
    #: By qualified name; the source asks for it before it decodes a transaction.
    layouts: dict[str, TableLayout] = field(default_factory=dict)
    #: What decodes them; None before it has begun, which is with what is followed then.
    stream: ChangeStream | None = None
    #: Columns that the stream has said something about since they are followed, which no view uses.
    doubted: dict[str, set[str]] = field(default_factory=dict)
    #: Warnings that were told.
    _warned: set[Finding] = field(default_factory=set)

    def planning_catalog(self, fresh: Catalog) -> Catalog:
        """`fresh`, with followed tables as the engine takes them."""
        tables = {**fresh.tables, **{t: self.catalog.tables[t] for t in self.layouts if t in self.catalog.tables}}
        return replace(fresh, tables=tables)

    async def refusals(self, session: UpstreamSession, tables: Iterable[str]) -> dict[str, TableRefusedError]:
        """Which of `tables` cannot be followed. Repairs their replica identity first, if the settings say so.

        Always before publishing: a published table without a replica identity refuses its own updates.
        """
        refused: dict[str, TableRefusedError] = {}
        for finding in await session.check_tables(tables):
            if finding.table is None:
                continue
            if not finding.fatal:
                self._warn(finding)
            elif finding.code == "replica_identity" and self.settings.set_replica_identity:
                await session.set_row_identity(finding.table)
                log.info("replica identity set to FULL", table=finding.table)
            else:
                refused.setdefault(finding.table, _refusal(finding))
        return refused

    def _warn(self, finding: Finding) -> None:
        if finding not in self._warned:
            self._warned.add(finding)
            log.warning("table check", table=finding.table, reason=finding.reason, fix=finding.fix)

    async def publish(self, session: UpstreamSession, tables: Iterable[str]) -> None:
        """Makes sure that the stream will carry `tables`."""
        added = await session.publish(tables)
        if added:
            log.info("tables added to the publication", publication=self.settings.publication, tables=added)

    async def follow(self, session: UpstreamSession, tables: Iterable[str], fresh: Catalog) -> None:
        """From now on the stream's rows of `tables` are decoded, as `fresh` has them."""
        wanted = list(tables)
        layouts = await session.load_layouts(wanted)
        # What changed since `fresh` was loaded and the tables were checked would be planned as it was and decoded as it
        # is: no statement that comes in the stream from here on says so.
        now = (await session.load_catalog(wanted)).tables
        for table in wanted:
            if table not in layouts or table not in fresh.tables or table not in now:
                raise TableRefusedError(f"Table {table} does not exist any more.", None)
            if now[table].columns != fresh.tables[table].columns or any(broken(fresh.tables[table], now[table])):
                raise TableAlteredError(table)
        for refusal in (await self.refusals(session, wanted)).values():
            raise refusal
        for table in wanted:
            self.catalog.tables[table] = fresh.tables[table]
            self.layouts[table] = layouts[table]
            self.doubted.pop(table, None)
        if self.stream is not None:
            await self.stream.wait_followed()

    def unfollow(self, tables: Iterable[str]) -> None:
        """No view reads `tables` any more."""
        for table in tables:
            self.layouts.pop(table, None)
            self.doubted.pop(table, None)

    def restart(self, fresh: Catalog) -> None:
        """A new engine, and a new stream that follows nothing yet."""
        self.catalog = Catalog({}, fresh.search_path, text=fresh.text, dialect=fresh.dialect)
        self.layouts.clear()
        self.doubted.clear()
        self.stream = None


def _refusal(finding: Finding) -> TableRefusedError:
    return TableRefusedError(finding.reason, finding.fix, streamed=finding.code != "not_streamed")
