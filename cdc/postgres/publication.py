"""The publication that a stream reads: newer servers stream nothing, without an error, if it does not exist.

Not here: tables of the publication (`service.engine.databases.postgres.publication`).
"""

import psycopg

from cdc.change import StreamLost


async def require_publication(ordinary: psycopg.AsyncConnection, publication: str) -> None:
    """Raise StreamLost, with the statement that creates it, unless the publication exists."""
    found = await ordinary.execute("SELECT FROM pg_catalog.pg_publication WHERE pubname = %s", [publication])
    if await found.fetchone() is None:
        raise StreamLost(
            f"The publication {publication} does not exist.",
            False,
            hint=f"Run: {create_publication_sql(publication)}",
        )


def create_publication_sql(publication: str) -> str:
    """Return the statement that creates an empty publication; tables are added as views need them."""
    return f'CREATE PUBLICATION "{publication.replace(chr(34), chr(34) * 2)}";'
