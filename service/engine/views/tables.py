"""Tables followed by the engine and the stream.

Invariants: a followed table has one definition in `catalog` and one layout, both of the same moment; neither is
replaced while a plan made with it is installed. A table added while the stream runs is announced to the engine with a
snapshot taken after its layout.

Not here: the checks of tables (`upstream.checks`).
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
    """Table that cannot be followed; `hint` is the statement that repairs it.

    `streamed`: the table can be followed after the repair.
    """

    def __init__(self, reason: str, hint: str | None, *, streamed: bool = True) -> None:
        super().__init__(reason if hint is None else f"{reason} {hint}")
        self.reason = reason
        self.hint = hint
        self.streamed = streamed


class TableAlteredError(TableRefusedError):
    """Table altered since the catalog was read; read the catalog again."""

    def __init__(self, table: str) -> None:
        super().__init__(f"Table {table} is being altered; it is checked again soon.", None)


@dataclass(slots=True)
class FollowedTables:
    settings: CdcSettings
    #: The engine's catalog: tables are added to it, and replaced only while no view reads them.
    catalog: Catalog = field(default_factory=Catalog)
    #: Layouts by qualified name; the source reads them before it decodes a transaction.
    layouts: dict[str, TableLayout] = field(default_factory=dict)
    #: Decoder of the tables; None before the stream begins with the tables followed then.
    stream: ChangeStream | None = None
    #: Columns reported by the stream as changed while followed, which no view uses.
    doubted: dict[str, set[str]] = field(default_factory=dict)
    #: Warnings already logged.
    _warned: set[Finding] = field(default_factory=set)

    def planning_catalog(self, fresh: Catalog) -> Catalog:
        """Returns `fresh` with followed tables in the engine's form."""
        tables = {**fresh.tables, **{t: self.catalog.tables[t] for t in self.layouts if t in self.catalog.tables}}
        return replace(fresh, tables=tables)

    async def refusals(self, session: UpstreamSession, tables: Iterable[str]) -> dict[str, TableRefusedError]:
        """Returns which of `tables` cannot be followed, after repairing their replica identity if the settings say so.

        Call this before publishing: a published table without a replica identity refuses its own updates.
        """
        refused: dict[str, TableRefusedError] = {}
        for finding in await session.check_tables(tables):
            if finding.table is None:
                continue
            if finding.code == "replica_identity" and self.settings.set_replica_identity:
                await session.set_row_identity(finding.table)
                log.info("replica identity set to FULL", table=finding.table)
            elif not finding.fatal:
                # What an identity costs is said of each view (`dataflow.plan.identity_uses`).
                if finding.code != "replica_identity":
                    self._warn(finding)
            else:
                refused.setdefault(finding.table, _refusal(finding))
        return refused

    def _warn(self, finding: Finding) -> None:
        if finding not in self._warned:
            self._warned.add(finding)
            log.warning("table check", table=finding.table, reason=finding.reason, fix=finding.fix)

    async def publish(self, session: UpstreamSession, tables: Iterable[str]) -> None:
        """Adds missing tables to the publication."""
        added = await session.publish(tables)
        if added:
            log.info("tables added to the publication", publication=self.settings.publication, tables=added)

    async def follow(self, session: UpstreamSession, tables: Iterable[str], fresh: Catalog) -> None:
        """Starts decoding the stream's rows of `tables`, with the layouts of `fresh`."""
        wanted = list(tables)
        layouts = await session.load_layouts(wanted)
        # Check the layouts again: no statement in the stream from here on reports a change made between the read of
        # `fresh` and now.
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
        """Stops decoding `tables`, which no view reads any more."""
        for table in tables:
            self.layouts.pop(table, None)
            self.doubted.pop(table, None)

    def restart(self, fresh: Catalog) -> None:
        """Resets for a new engine and a new stream, which follows no tables yet."""
        self.catalog = Catalog({}, fresh.search_path, text=fresh.text, dialect=fresh.dialect)
        self.layouts.clear()
        self.doubted.clear()
        self.stream = None


def _refusal(finding: Finding) -> TableRefusedError:
    return TableRefusedError(finding.reason, finding.fix, streamed=finding.code != "not_streamed")
