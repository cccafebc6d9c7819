"""PostgreSQL's materialized views, refreshed concurrently every few seconds; writes go to the database.

A view with parameters becomes one relation of all keys, indexed by them (`materialized_sql`). A view that no single
relation can hold stays a query, as a team would leave it.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from psycopg import AsyncConnection, errors
from psycopg.sql import SQL, Identifier

from load.peers.backend import BackendAnswers, Read
from load.peers.database import Database
from load.peers.materialized_sql import Materialized, UnsuitableError, materialized
from load.peers.statements import Values
from load.site import SiteDefinition, SiteView

_log = logging.getLogger(__name__)


class MaterializedViews:
    """A `Backend`. The views are in a schema that the harness made, and drops.

    *State*: `_names` are the materialized views that there are.
    """

    def __init__(self, database: Database, site: SiteDefinition, schema: str, refresh_s: float) -> None:
        self._database = database
        self._site = site
        self._schema = schema
        self._refresh_s = refresh_s
        self._names: list[str] = []
        self._refreshing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make the views, and begin to refresh them."""
        connection = await self._database.connect()
        for view in self._site.views:
            try:
                await self._create(connection, view, materialized(view))
            except (UnsuitableError, errors.Error) as reason:
                _log.warning("%s stays a query: %s", view.name, reason)
        await self._database.open()
        self._refreshing = asyncio.create_task(self._refresh(connection))

    async def read(self, reads: Sequence[Read]) -> BackendAnswers:
        """From the materialized views."""
        return BackendAnswers(await self._database.read_many(reads), None)

    async def write(self, name: str, values: Values) -> str:
        """Into the database; the views have it after a refresh."""
        return await self._database.write(name, values)

    async def _create(self, connection: AsyncConnection[Any], view: SiteView, made: Materialized) -> None:
        name = Identifier(self._schema, view.name)
        await connection.execute(SQL("CREATE MATERIALIZED VIEW {} AS {}").format(name, SQL(made.sql)))
        columns = await self._columns(connection, view.name)
        shown = columns[: len(columns) - made.hidden]
        unique = await self._make_refreshable(connection, name, [made.keys, made.groups, columns])
        if made.keys and unique != made.keys:
            keys = SQL(", ").join(map(Identifier, made.keys))
            await connection.execute(SQL("CREATE INDEX ON {} ({})").format(name, keys))
        await connection.execute(SQL("ANALYZE {}").format(name))
        statement = SQL("SELECT {} FROM {} {}").format(SQL(", ").join(map(Identifier, shown)), name, SQL(made.rest))
        self._database.add(replace(view, sql=statement.as_string(connection)))
        self._names.append(view.name)

    async def _columns(self, connection: AsyncConnection[Any], name: str) -> list[str]:
        cursor = await connection.execute(SQL("SELECT * FROM {} LIMIT 0").format(Identifier(self._schema, name)))
        return [column.name for column in cursor.description or ()]

    async def _make_refreshable(
        self, connection: AsyncConnection[Any], name: Identifier, candidates: Sequence[Sequence[str]]
    ) -> Sequence[str]:
        """A refresh beside readers needs a unique index (PostgreSQL manual, REFRESH MATERIALIZED VIEW): its columns."""
        for columns in candidates:
            if not columns:
                continue
            unique = SQL(", ").join(map(Identifier, columns))
            try:
                await connection.execute(SQL("CREATE UNIQUE INDEX ON {} ({})").format(name, unique))
            except errors.UniqueViolation:
                continue
            return columns
        await connection.execute(SQL("DROP MATERIALIZED VIEW {}").format(name))
        raise UnsuitableError("none of its columns are unique")

    async def _refresh(self, connection: AsyncConnection[Any]) -> None:
        while True:
            await asyncio.sleep(self._refresh_s)
            for name in self._names:
                refresh = SQL("REFRESH MATERIALIZED VIEW CONCURRENTLY {}").format(Identifier(self._schema, name))
                try:
                    await connection.execute(refresh)
                except errors.Error as error:
                    _log.warning("%s is not refreshed: %s", name, error)
