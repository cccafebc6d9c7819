"""How much a lookup of everything would answer: the upstream's planner is asked, nothing is run.

Its statistics know which rows a condition keeps and how wide texts are, which the catalog's do not say.

Not here: what that takes in memory (`dataflow.plan.estimate`).
"""

from collections.abc import Iterable
from math import inf

import orjson
from psycopg import AsyncConnection

from dataflow.plan.estimate import Size
from dataflow.plan.lookup import lookup_sql
from dataflow.plan.nodes import Aggregate, Chain, Relation, table_of
from dataflow.schema import Catalog

#: The planner takes a table without statistics for one of so many pages at least
#: (``table_block_relation_estimate_size``), in each of which a few hundred rows may be.
_LEAST_PAGES = 10
_PAGES = """
SELECT pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::int8
FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass(%s) AND c.reltuples < 0 AND NOT c.relhassubclass
"""


async def expected_sizes(
    connection: AsyncConnection, relations: Iterable[Chain | Aggregate], catalog: Catalog
) -> dict[Relation, Size]:
    """By relation; each is one that can be looked up. Raises psycopg.Error."""
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
    """How many rows a table has that was never analyzed and is so small that they can be counted."""
    (row,) = await (await connection.execute(_PAGES, [table])).fetchall() or [(_LEAST_PAGES,)]
    if row[0] >= _LEAST_PAGES:
        return inf
    ((count,),) = await (await connection.execute(f"SELECT count(*) FROM {table}".encode())).fetchall()
    return float(count)
