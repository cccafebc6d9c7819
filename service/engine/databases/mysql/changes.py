"""Changes of followed MariaDB or MySQL tables that are visible only in the catalog.

Most changes are reported by the stream itself (`cdc.mysql.statements`).

Not here: whether a table can be followed (`checks`).
"""

from collections.abc import Iterator, Mapping

from cdc.change import SchemaNotice, TableLayout
from dataflow.schema import Catalog, Table
from service.engine.databases.mysql.catalog import load_layouts
from service.engine.databases.mysql.checks import check_tables
from service.engine.databases.mysql.connect import Flavour
from service.engine.databases.mysql.wire import Wire
from service.engine.upstream.constraints import broken


async def check_schema(
    wire: Wire, layouts: Mapping[str, TableLayout], tables: Mapping[str, Table], fresh: Catalog, flavour: Flavour
) -> list[SchemaNotice]:
    """Yields the followed tables that no longer match `layouts` and `tables`, by the catalog `fresh`."""
    found = await load_layouts(wire, layouts, flavour)
    notices = [notice for name, layout in layouts.items() for notice in _compare(name, layout, found.get(name))]
    for finding in await check_tables(wire, found, flavour):
        if finding.table is not None and finding.code == "not_streamed":
            fix = "" if finding.fix is None else f" Run: {finding.fix}"
            notices.append(SchemaNotice(finding.table, f"{finding.reason}{fix}"))
    now = fresh.tables
    return notices + [n for name in found if name in tables and name in now for n in broken(tables[name], now[name])]


def _compare(name: str, layout: TableLayout, found: TableLayout | None) -> Iterator[SchemaNotice]:
    if found is None:
        yield SchemaNotice(name, f"{name} was dropped or renamed.")
        return
    there = dict(zip(found.columns, found.column_types, strict=True))
    wanted = zip(layout.columns, layout.column_types, strict=True)
    changed = tuple(column for column, kind in wanted if there.get(column) != kind)
    if found.cascades != layout.cascades:
        yield SchemaNotice(name, f"Foreign keys that change rows of {name} were altered.")
    elif changed:
        yield SchemaNotice(name, f"Columns of {name} were dropped, renamed or altered: {', '.join(changed)}.", changed)
