"""The upstream's catalog: tables, types, keys, and the layouts that the change stream is decoded by."""

from collections.abc import Iterable

from psycopg import AsyncConnection

from cdc.change import TableLayout
from dataflow.schema import Catalog


async def load_catalog(connection: AsyncConnection) -> Catalog:
    """All tables (and views, foreign tables …: `checks` says why those cannot be followed) outside system schemas."""
    raise NotImplementedError


async def load_layouts(connection: AsyncConnection, tables: Iterable[str]) -> dict[str, TableLayout]:
    """Layouts of these tables for `PostgresSource`, by the names of `load_catalog`. A table that is gone is left out.

    Load them *before* taking the snapshot of `TableJoined`, and keep a followed table's layout object as it is.
    """
    raise NotImplementedError
