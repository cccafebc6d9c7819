"""What must be true of the upstream, checked: each finding says what to do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from psycopg import AsyncConnection

from cdc.change import SchemaNotice, TableLayout


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the upstream that the user should know."""

    #: ``wal_level``, ``replication_role``, ``replication_slots``, ``publication``, ``replica_identity``,
    #: ``not_streamed``, ``rights`` …
    code: str
    #: One sentence.
    reason: str
    #: The statement or setting that repairs it, if there is one.
    fix: str | None = None
    #: The table it is about; None: the server or the database.
    table: str | None = None
    #: Whether nothing (of this table) can be followed until it is repaired; otherwise it is a warning.
    fatal: bool = True


async def check_server(connection: AsyncConnection, publication: str) -> list[Finding]:
    """Findings about the server, database and role: wal_level, slots, replication right, the publication's options."""
    raise NotImplementedError


async def check_tables(connection: AsyncConnection, publication: str, tables: Iterable[str]) -> list[Finding]:
    """Findings about tables that views are to read: kind, replica identity, row-level security, rights, publication."""
    raise NotImplementedError


async def check_schema(connection: AsyncConnection, layouts: Mapping[str, TableLayout]) -> list[SchemaNotice]:
    """Followed tables that are no longer what their layouts say, by the catalog: the stream does not tell of a DROP."""
    raise NotImplementedError


async def set_replica_identity(connection: AsyncConnection, table: str) -> None:
    """Run ``ALTER TABLE … REPLICA IDENTITY FULL``. Raises UpstreamError."""
    raise NotImplementedError
