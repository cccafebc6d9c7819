"""How much a lookup of everything would answer: the upstream's planner is asked, nothing is run.

Its statistics know which rows a condition keeps and how wide texts are, which the catalog's do not say.

Not here: what that takes in memory (`dataflow.plan.estimate`).
"""

from collections.abc import Iterable

import orjson
from psycopg import AsyncConnection

from dataflow.plan.estimate import Size
from dataflow.plan.lookup import lookup_sql
from dataflow.plan.nodes import Aggregate, Chain, Relation
from dataflow.schema import Catalog


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
        sizes[relation] = Size(plan["Plan Rows"], plan["Plan Width"])
    return sizes
