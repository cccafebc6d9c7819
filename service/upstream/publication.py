"""The publication: made if allowed, tables added on demand."""

from collections.abc import Iterable

from psycopg import AsyncConnection


async def ensure_published(connection: AsyncConnection, publication: str, tables: Iterable[str]) -> list[str]:
    """Make sure that the publication exists and has these tables; returns those that were added now.

    The stream has only part of the transactions that were open when a table was added. Afterwards: load its layout,
    take a snapshot (`Lookups.snapshot`) and tell the engine `TableJoined`. Raises UpstreamError with the statement to
    run.
    """
    raise NotImplementedError
