"""Size estimates of lookups of all rows, by EXPLAIN.

The server's planner estimates the rows read and the fraction that satisfies a condition; table statistics give the
width of rows.

Not here: memory sizes (`dataflow.plan.estimate`).
"""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from dataflow.lookups.mysql.lookup import lookup_shape
from dataflow.plan.estimate import Size
from dataflow.plan.nodes import Aggregate, Chain, Relation, column_types, table_of
from dataflow.schema import Catalog
from service.engine.databases.mysql.sql_text import listed_names, unqualified
from service.engine.databases.mysql.wire import Wire

_LENGTHS = """
SELECT avg_row_length FROM information_schema.tables WHERE (table_schema, table_name) IN ({})
"""
#: Assumed row width if the server has no statistics.
_OTHER_BYTES = 64.0


async def expected_sizes(wire: Wire, relations: Iterable[Chain | Aggregate], catalog: Catalog) -> dict[Relation, Size]:
    """Returns estimates by relation, each of which can be looked up. Raises ServerError, ConnectionBroken."""
    sizes: dict[Relation, Size] = {}
    for relation in relations:
        name = table_of(relation)
        explained, lengths = await wire.query_all(
            [
                f"EXPLAIN FORMAT = JSON {lookup_shape(relation, (), catalog)}",
                _LENGTHS.format(listed_names([unqualified(name)])),
            ]
        )
        rows = max((_filtered_rows(table) for table in _tables(orjson.loads(str(explained.rows[0][0])))), default=0.0)
        length = float(str(lengths.rows[0][0] or 0)) if lengths.rows else 0.0
        share = len(column_types(relation)) / max(1, len(catalog.tables[name].columns))
        sizes[relation] = Size(rows, (length or _OTHER_BYTES) * min(1.0, share))
    return sizes


def _tables(plan: Any) -> Iterator[dict[str, Any]]:
    """Yields the tables of a plan at any depth: MariaDB and MySQL nest them differently."""
    if isinstance(plan, dict):
        if "table_name" in plan:
            yield plan
        for part in plan.values():
            yield from _tables(part)
    elif isinstance(plan, list):
        for part in plan:
            yield from _tables(part)


def _filtered_rows(table: dict[str, Any]) -> float:
    """Returns the number of a table's rows that pass its conditions."""
    rows = table.get("rows", table.get("rows_examined_per_scan", 0))
    return float(rows) * float(table.get("filtered", 100)) / 100
