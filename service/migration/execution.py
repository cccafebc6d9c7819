"""Execution of a migration's file on a copy of the database.

Not here: the copy (`schema_copy`), what has changed (`prediction`).
"""

from typing import TYPE_CHECKING

import psycopg

from service.engine.upstream.upstream import Upstream
from service.migration.script import Script

if TYPE_CHECKING:
    from service.engine.databases.mysql.upstream import MySqlUpstream


class MigrationFailed(Exception):
    """Statement that the copy rejects."""


def run_on_postgres(script: Script, url: str) -> None:
    """Runs a file as this URL's role, in one transaction if that is possible, otherwise statement by statement as psql
    does. Raises `MigrationFailed`."""
    pieces = [(script.text, 0)] if script.in_one_transaction else [(s.text, s.start) for s in script.statements]
    place = 0
    try:
        with psycopg.connect(url, autocommit=True, client_encoding="utf8") as connection:
            for text, place in pieces:  # noqa: B007
                connection.execute(text.encode())
    except psycopg.Error as error:
        at = error.diag.statement_position
        line = script.line(place + int(at) - 1) if at else script.line(place) if len(pieces) > 1 else None
        raise MigrationFailed(_failure(line, error.diag.message_primary or str(error).strip())) from None


async def run_on_mysql(script: Script, upstream: Upstream) -> None:
    """Runs a file statement by statement. Raises `MigrationFailed`, `UpstreamError`."""
    from service.engine.databases.mysql.packets import ServerError

    async with _mysql(upstream).pool.connection() as wire:
        for statement in script.statements:
            try:
                await wire.query(statement.text)
            except ServerError as error:
                raise MigrationFailed(_failure(script.line(statement.start), error.message)) from None


async def postgres_identity(upstream: Upstream) -> tuple[str, ...]:
    """Returns the identity of a server, then the name of the database. Raises `UpstreamError`."""
    from service.engine.databases.postgres.upstream import PostgresUpstream

    assert isinstance(upstream, PostgresUpstream)
    async with upstream.pool.connection() as connection:
        found = await connection.execute(
            "SELECT pg_postmaster_start_time()::text, current_setting('port'), current_database()::text"
        )
        return tuple(map(str, await found.fetchone() or ()))


async def mysql_identity(upstream: Upstream) -> tuple[str, ...]:
    """Returns the identity of a server, then the name of the database. Raises `UpstreamError`."""
    async with _mysql(upstream).pool.connection() as wire:
        (row,) = (await wire.query("SELECT @@hostname, @@port, @@server_id, DATABASE()")).rows
        return tuple(map(str, row))


def _mysql(upstream: Upstream) -> "MySqlUpstream":
    from service.engine.databases.mysql.upstream import MySqlUpstream

    assert isinstance(upstream, MySqlUpstream)
    return upstream


def _failure(line: int | None, message: str) -> str:
    return f"The migration fails{'' if line is None else f' at line {line}'}: {message}"
