"""The query that the peers run, and the answer that they give: those of the view ``story_with_votes``."""

from typing import Any

import orjson
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

STORY_SQL = """
SELECT s.id, s.title, s.author, COUNT(v.user_id) AS votes
FROM stories s LEFT JOIN votes v ON v.story_id = s.id
WHERE s.id = %s GROUP BY s.id, s.title, s.author
"""


async def query_story(pool: AsyncConnectionPool[AsyncConnection[Any]], story: int) -> list[dict[str, Any]]:
    """The view's rows."""
    async with pool.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(STORY_SQL, (story,))
        rows: list[dict[str, Any]] = await cursor.fetchall()
    return rows


def answer(rows: list[dict[str, Any]]) -> bytes:
    """The body that clients get."""
    return orjson.dumps({"rows": rows})
