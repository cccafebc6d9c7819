"""The publication: made if allowed, tables added on demand.

*Invariants*: a table is only ever added; whoever made the publication keeps its options.

Not here: whether a table should be published (`checks`). From then on, one without replica identity refuses its own
updates.
"""

from collections.abc import Iterable

import psycopg
from psycopg import AsyncConnection

from cdc.postgres.names import quote_identifier
from service.engine.upstream.results import UpstreamError

_ATTEMPTS = 5


async def ensure_published(connection: AsyncConnection, publication: str, tables: Iterable[str]) -> list[str]:
    """Make sure that the publication exists and has these tables; returns those that were added now.

    The stream has only part of the transactions that were open when a table was added. Afterwards: load its layout,
    take a snapshot (`Lookups.snapshot`) and tell the engine `TableJoined`. Raises UpstreamError with the statement to
    run.
    """
    wanted = sorted(set(tables))
    # Several shards may do it at once.
    for attempt in range(1, _ATTEMPTS + 1):
        statement, missing = await _needed(connection, publication, wanted)
        if statement is None:
            return []
        try:
            await connection.execute(statement.encode())
        except psycopg.errors.InsufficientPrivilege as error:
            detail = f"The role may not change the publication {publication}: {error.diag.message_primary}."
            raise UpstreamError("denied", detail, f"Its owner must run: {statement}") from None
        except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
            if attempt == _ATTEMPTS:
                raise
            continue  # Somebody else did it meanwhile: look again.
        return missing
    return []


async def _needed(connection: AsyncConnection, publication: str, wanted: list[str]) -> tuple[str | None, list[str]]:
    """The statement to run (None: nothing) and the tables that it adds."""
    found = await connection.execute(
        "SELECT puballtables FROM pg_catalog.pg_publication WHERE pubname = %s", [publication]
    )
    row = await found.fetchone()
    if row is None:
        return create_statement(publication, wanted, connection.info.server_version), wanted
    if row[0]:
        return None, []
    found = await connection.execute(
        "SELECT w.name FROM unnest(%s::text[]) AS w (name) WHERE NOT EXISTS ("
        " SELECT FROM pg_catalog.pg_publication_tables p WHERE p.pubname = %s AND pg_catalog.to_regclass(w.name) ="
        " pg_catalog.to_regclass(pg_catalog.format('%%I.%%I', p.schemaname, p.tablename))) ORDER BY 1",
        [wanted, publication],
    )
    missing = [name for (name,) in await found.fetchall()]
    if not missing:
        return None, []
    return f"ALTER PUBLICATION {quote_identifier(publication)} ADD TABLE {_listed(missing)};", missing


def create_statement(publication: str, tables: Iterable[str], server_version: int) -> str:
    """The statement that makes the publication. Stored generated columns are in the stream from PostgreSQL 18 on."""
    listed = _listed(tables)
    statement = f"CREATE PUBLICATION {quote_identifier(publication)}"
    if listed:
        statement += f" FOR TABLE {listed}"
    if server_version >= 180000:
        statement += " WITH (publish_generated_columns = stored)"
    return f"{statement};"


def _listed(tables: Iterable[str]) -> str:
    """Of a partitioned or inherited table only itself: that is what the stream's rows are about."""
    return ", ".join(f"ONLY {table}" for table in tables)
