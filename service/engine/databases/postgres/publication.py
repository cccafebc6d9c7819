"""Publication: created if permitted; tables are added on demand.

*Invariants*: tables are only added; the options set by its creator are unchanged.

Not here: whether a table should be published (`checks`). A published table without replica identity refuses its own
updates.
"""

from collections.abc import Iterable

import psycopg
from psycopg import AsyncConnection

from cdc.postgres.names import quote_identifier
from service.engine.databases.postgres.partitions import published_sql
from service.engine.upstream.results import UpstreamError

_ATTEMPTS = 5
#: A partitioned table is published if its partitions are, also later ones.
_MISSING = """
SELECT w.name
FROM pg_catalog.pg_publication p, unnest(%s::text[]) AS w (name)
     LEFT JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(w.name)
WHERE p.pubname = %s AND NOT CASE WHEN c.relkind = 'p' THEN {partitioned} ELSE EXISTS (
    SELECT FROM pg_catalog.pg_publication_tables t JOIN pg_catalog.pg_namespace n ON n.nspname = t.schemaname
    WHERE t.pubname = p.pubname AND (c.relnamespace, c.relname) = (n.oid, t.tablename)) END
ORDER BY 1
"""


async def ensure_published(connection: AsyncConnection, publication: str, tables: Iterable[str]) -> list[str]:
    """Creates the publication and adds missing tables; returns the added ones.

    The stream has only part of the transactions that were open when a table was added. Afterwards: load its layout,
    take a snapshot (`Lookups.snapshot`) and send `TableJoined` to the engine. Raises UpstreamError with the statement
    to run.
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
            detail = f"The role lacks the right to change the publication {publication}: {error.diag.message_primary}."
            raise UpstreamError("denied", detail, f"Its owner must run: {statement}") from None
        except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
            if attempt == _ATTEMPTS:
                raise
            continue  # Somebody else did it meanwhile: look again.
        return missing
    return []


async def _needed(connection: AsyncConnection, publication: str, wanted: list[str]) -> tuple[str | None, list[str]]:
    """Returns the statement to run (None: nothing) and the tables that it adds."""
    found = await connection.execute(
        "SELECT puballtables FROM pg_catalog.pg_publication WHERE pubname = %s", [publication]
    )
    row = await found.fetchone()
    if row is None:
        return create_statement(publication, wanted, connection.info.server_version), wanted
    if row[0]:
        return None, []
    found = await connection.execute(
        _MISSING.format(partitioned=published_sql(connection.info.server_version)).encode(), [wanted, publication]
    )
    missing = [name for (name,) in await found.fetchall()]
    if not missing:
        return None, []
    return f"ALTER PUBLICATION {quote_identifier(publication)} ADD TABLE {_listed(missing)};", missing


def create_statement(publication: str, tables: Iterable[str], server_version: int) -> str:
    """Returns the statement that creates the publication. Stored generated columns are published from PostgreSQL 18
    on."""
    listed = _listed(tables)
    statement = f"CREATE PUBLICATION {quote_identifier(publication)}"
    if listed:
        statement += f" FOR TABLE {listed}"
    if server_version >= 180000:
        statement += " WITH (publish_generated_columns = stored)"
    return f"{statement};"


def _listed(tables: Iterable[str]) -> str:
    """Returns table names with ONLY, which excludes child tables (but not partitions)."""
    return ", ".join(f"ONLY {table}" for table in tables)
