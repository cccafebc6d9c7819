"""Size estimates of lookups of all rows, by EXPLAIN.

The planner's statistics include the selectivity of conditions and the width of texts, which the catalog lacks.

Not here: memory sizes (`dataflow.plan.estimate`).
"""

from collections.abc import Iterable
from math import inf

import orjson
from psycopg import AsyncConnection

from dataflow.lookups.postgres.lookup import lookup_sql
from dataflow.plan.estimate import Size
from dataflow.plan.nodes import Aggregate, Chain, Relation, table_of
from dataflow.schema import Catalog
from service.engine.databases.postgres.partitions import LEAVES

#: The planner assumes at least this many pages for a table without statistics (``table_block_relation_estimate_size``),
#: each with up to a few hundred rows.
_LEAST_PAGES = 10
_PAGES = f"""
SELECT sum(pg_catalog.pg_relation_size(t.oid)) / pg_catalog.current_setting('block_size')::int8
FROM pg_catalog.pg_class c, LATERAL (
    SELECT c.oid, c.reltuples WHERE NOT c.relhassubclass UNION ALL SELECT l.oid, l.reltuples FROM {LEAVES} l
) AS t
WHERE c.oid = pg_catalog.to_regclass(%s) HAVING bool_or(t.reltuples < 0)
"""


async def expected_sizes(
    connection: AsyncConnection, relations: Iterable[Chain | Aggregate], catalog: Catalog
) -> dict[Relation, Size]:
    """Returns estimates by relation, each of which can be looked up. Raises psycopg.Error."""
    sizes: dict[Relation, Size] = {}
    for relation in relations:
        statement = f"EXPLAIN (FORMAT JSON) {lookup_sql(relation, (), catalog)}"
        cursor = await connection.execute(statement.encode())
        row = await cursor.fetchone()
        assert row is not None
        found = row[0] if isinstance(row[0], list) else orjson.loads(row[0])
        plan = found[0]["Plan"]
        rows = min(plan["Plan Rows"], await _most_rows(connection, table_of(relation)))
        sizes[relation] = Size(rows, plan["Plan Width"])
    return sizes


async def _most_rows(connection: AsyncConnection, table: str) -> float:
    """Counts the rows of a table that was never analyzed and is small enough."""
    (row,) = await (await connection.execute(_PAGES, [table])).fetchall() or [(_LEAST_PAGES,)]
    if row[0] >= _LEAST_PAGES:
        return inf
    ((count,),) = await (await connection.execute(f"SELECT count(*) FROM {table}".encode())).fetchall()
    return float(count)
