"""Tables followed by the engine and the stream.

Invariants: a followed table has one definition in `catalog` and one layout, both of the same moment; while a plan made
with them is installed, they are only extended: columns that it reads stay at their places. A table added or extended
while the stream runs is announced to the engine with a snapshot taken after its layout.

Not here: the checks of tables (`upstream.checks`).
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace

import structlog

from cdc.change import FORMER_COLUMN, SchemaNotice, TableLayout
from cdc.stream import ChangeStream
from dataflow.plan.nodes import View
from dataflow.plan.placement import Places, placed
from dataflow.plan.refresh import RefreshView
from dataflow.schema import Catalog, Column, Table
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
    #: Changes of columns, by table, since they were followed; no view uses these columns.
    doubted: dict[str, list[SchemaNotice]] = field(default_factory=dict)
    #: Extended tables as the upstream defines them, and the places of their columns in the engine's rows.
    extended: dict[str, tuple[Table, Places]] = field(default_factory=dict)
    #: Warnings already logged.
    _warned: set[Finding] = field(default_factory=set)

    def planning_catalog(self, fresh: Catalog, anew: Container[str] = ()) -> Catalog:
        """Returns `fresh` with followed tables, except `anew`, as they were defined when they were followed, or
        extended. Plans made with it are then `placed`."""
        definitions = {table: self.definition(table) for table in self.layouts if table not in anew}
        return replace(fresh, tables={**fresh.tables, **definitions})

    def engine_catalog(self, fresh: Catalog) -> Catalog:
        """Returns `fresh` with followed tables in the form of the engine's rows."""
        return replace(fresh, tables={**fresh.tables, **{table: self.catalog.tables[table] for table in self.layouts}})

    def definition(self, table: str) -> Table:
        """Returns the definition by which a followed table was followed, or extended."""
        return self.extended[table][0] if table in self.extended else self.catalog.tables[table]

    def placed(self, view: View | RefreshView) -> View | RefreshView:
        """Returns a plan over the engine's rows, made with the definitions of the followed tables."""
        return placed(view, {table: places for table, (_, places) in self.extended.items()})

    async def refusals(self, session: UpstreamSession, tables: Iterable[str]) -> dict[str, TableRefusedError]:
        """Returns which of `tables` cannot be followed, after repairing their replica identity if the settings say so.

        Call this before publishing: a published table without a replica identity refuses its own updates.
        """
        refused: dict[str, TableRefusedError] = {}
        for finding in await session.check_tables(tables):
            if finding.table is None:
                continue
            if finding.code == "replica_identity" and self.settings.set_replica_identity:
                await session.repair_identity(finding)
                log.info("replica identity set to FULL", table=finding.table)
            elif not finding.fatal:
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
        layouts = await self._layouts(session, wanted, fresh)
        for table in wanted:
            self.catalog.tables[table] = fresh.tables[table]
            self.layouts[table] = layouts[table]
            self.extended.pop(table, None)
            self.doubted.pop(table, None)
        if self.stream is not None:
            await self.stream.wait_followed()

    async def extend(self, session: UpstreamSession, table: str, fresh: Catalog) -> None:
        """Follows also the new and altered columns of a followed table, as defined in `fresh`. Raises
        `TableAlteredError` if it became another table, or is altered again."""
        former = self.layouts[table]
        found = (await self._layouts(session, [table], fresh))[table]
        changed = {column for notice in self.doubted.get(table, ()) for column in notice.columns}
        for notice in await session.check_schema({table: former}, self.catalog.tables, fresh):
            if not notice.columns:
                raise TableAlteredError(table)
            changed.update(notice.columns)
        definition = fresh.tables[table]
        old = {column: at for at, column in enumerate(former.columns) if column not in changed}
        new = [column.name for column in definition.columns if column.name not in old]
        places = tuple(
            old[column.name] if column.name in old else len(former.columns) + new.index(column.name)
            for column in definition.columns
        )
        self.layouts[table] = _extended(former, found, changed, new)
        self.catalog.tables[table] = _placed(definition, places, self.catalog.tables[table])
        self.extended[table] = definition, places
        self.doubted.pop(table, None)
        if self.stream is not None:
            await self.stream.wait_followed()

    def redefine(self, definition: Table) -> None:
        """Takes another definition of a followed table that has the same columns."""
        table = definition.name
        places = self.extended[table][1] if table in self.extended else tuple(range(len(definition.columns)))
        self.catalog.tables[table] = _placed(definition, places, self.catalog.tables[table])
        self.extended[table] = definition, places

    async def _layouts(self, session: UpstreamSession, wanted: list[str], fresh: Catalog) -> dict[str, TableLayout]:
        """Reads layouts that match `fresh`. Raises `TableRefusedError`."""
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
        return layouts

    def continue_stream(self, changed: Container[str]) -> None:
        """Reads rows of all tables but `changed` from the stream's beginning on, which is before their layouts were
        read: the stream carries what changed them since."""
        for table, layout in self.layouts.items():
            if table not in changed:
                self.layouts[table] = replace(layout, since=0)

    async def note_rewrites(self, session: UpstreamSession) -> None:
        """Takes the current files of tables that were only rewritten, or truncated, since they were followed."""
        found = await session.load_layouts(self.layouts)
        for table, layout in self.layouts.items():
            now = found.get(table)
            if now == layout and now.marks[1:] == layout.marks[1:]:
                self.layouts[table] = replace(layout, file_mark=now.file_mark)

    def unfollow(self, tables: Iterable[str]) -> None:
        """Stops decoding `tables`, which no view reads any more."""
        for table in tables:
            self.layouts.pop(table, None)
            self.extended.pop(table, None)
            self.doubted.pop(table, None)

    def restart(self, fresh: Catalog) -> None:
        """Resets for a new engine and a new stream, which follows no tables yet."""
        self.catalog = Catalog({}, fresh.search_path, text=fresh.text, dialect=fresh.dialect)
        self.layouts.clear()
        self.extended.clear()
        self.doubted.clear()
        self.stream = None


def _refusal(finding: Finding) -> TableRefusedError:
    return TableRefusedError(finding.reason, finding.fix, streamed=finding.code != "not_streamed")


def _extended(former: TableLayout, found: TableLayout, changed: set[str], new: list[str]) -> TableLayout:
    """Returns the layout of `found` with the columns of `former` at their places."""
    at = {column: i for i, column in enumerate(found.columns)}
    kept = [column in at and column not in changed for column in former.columns]
    sources = [*(at[column] if keep else None for column, keep in zip(former.columns, kept, strict=True))]
    sources += [at[column] for column in new]
    names = [
        column if keep or column.startswith(FORMER_COLUMN) else f"{FORMER_COLUMN}{i}"
        for i, (column, keep) in enumerate(zip(former.columns, kept, strict=True))
    ]
    return replace(
        found,
        columns=(*names, *new),
        type_ids=tuple((0, 0) if i is None else found.type_ids[i] for i in sources),
        column_ids=tuple(0 if i is None else found.column_ids[i] for i in sources),
        column_marks=tuple("" if i is None else found.column_marks[i] for i in sources),
        type_marks=tuple("" if i is None else found.type_marks[i] for i in sources),
        since=former.since,
        former=former,
        extended=found.since,
    )


def _placed(definition: Table, places: Places, former: Table) -> Table:
    """Returns a table's definition with its columns at these places, and columns that it lost at the others."""
    at = dict(zip(places, definition.columns, strict=True))
    width = max([len(former.columns), *(place + 1 for place in places)])
    return replace(
        definition,
        columns=tuple(
            at[i] if i in at else Column(f"{FORMER_COLUMN}{i}", former.columns[i].type) for i in range(width)
        ),
        keys=tuple(tuple(places[column] for column in key) for key in definition.keys),
        identity=None if definition.identity is None else tuple(places[column] for column in definition.identity),
        indexes=tuple(tuple(places[column] for column in index) for index in definition.indexes),
        spreads={places[column]: spread for column, spread in definition.spreads.items()},
    )
