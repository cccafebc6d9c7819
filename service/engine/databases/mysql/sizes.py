"""How much a lookup of everything would answer: the server's planner is asked, nothing is run.

It says how many rows it reads and which part of them a condition keeps; how wide rows are, the table's statistics say.

Not here: what that takes in memory (`dataflow.plan.estimate`).
"""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from dataflow.plan.estimate import Size
from dataflow.plan.mysql_lookup import lookup_shape
from dataflow.plan.nodes import Aggregate, Chain, Relation, column_types, table_of
from dataflow.schema import Catalog
from service.engine.databases.mysql.sql_text import listed_names, unqualified
from service.engine.databases.mysql.wire import Wire

_LENGTHS = """
SELECT avg_row_length FROM information_schema.tables WHERE (table_schema, table_name) IN ({})
"""
#: Of a row, if the server knows nothing.
_OTHER_BYTES = 64.0


async def expected_sizes(wire: Wire, relations: Iterable[Chain | Aggregate], catalog: Catalog) -> dict[Relation, Size]:
    """By relation; each is one that can be looked up. Raises ServerError, ConnectionBroken."""
    sizes: dict[Relation, Size] = {}
    for relation in relations:
        name = table_of(relation)
        explained, lengths = await wire.query_all(
            [
                f"EXPLAIN FORMAT = JSON {lookup_shape(relation, (), catalog)}",
                _LENGTHS.format(listed_names([unqualified(name)])),
            ]
        )
        rows = max((_kept(table) for table in _tables(orjson.loads(str(explained.rows[0][0])))), default=0.0)
        length = float(str(lengths.rows[0][0] or 0)) if lengths.rows else 0.0
        share = len(column_types(relation)) / max(1, len(catalog.tables[name].columns))
        sizes[relation] = Size(rows, (length or _OTHER_BYTES) * min(1.0, share))
    return sizes


def _tables(plan: Any) -> Iterator[dict[str, Any]]:
    """The tables of a plan, however deep: MariaDB and MySQL nest them differently."""
    if isinstance(plan, dict):
        if "table_name" in plan:
            yield plan
        for part in plan.values():
            yield from _tables(part)
    elif isinstance(plan, list):
        for part in plan:
            yield from _tables(part)


def _kept(table: dict[str, Any]) -> float:
    """Rows that a plan takes from a table."""
    rows = table.get("rows", table.get("rows_examined_per_scan", 0))
    return float(rows) * float(table.get("filtered", 100)) / 100
