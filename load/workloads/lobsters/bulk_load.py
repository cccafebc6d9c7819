"""Loads the site into a database: tables and views as published, repairs, rows by COPY, indexes; on request, counter
columns.

Not here: what the rows are (`dataset`).
"""

from collections.abc import Iterator
from importlib.resources import files
from itertools import islice

import psycopg
from psycopg import Connection, sql

from load.workloads.lobsters.dataset import CopyRows, LobstersSize, site, tables

#: Lines that one COPY message carries.
_BLOCK_LINES = 5_000


def schema_sql() -> str:
    """Tables and views as published, then the repairs."""
    return _text("schema.sql") + _text("repairs.sql")


def load(url: str, size: LobstersSize, *, counter_columns: bool = False) -> None:
    """Fill the tables, and make the indexes that are not published. The whole site takes about a minute.

    `counter_columns`: votes and hotness are counted when they change (``counter_columns.sql``), not when they are read.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        with connection.transaction():
            for rows in tables(site(size)):
                _copy(connection, rows)
        connection.execute(_text("indexes.sql").encode())
        if counter_columns:
            connection.execute(_text("counter_columns.sql").encode())
        connection.execute("VACUUM ANALYZE")


def _copy(connection: Connection, rows: CopyRows) -> None:
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(rows.table), sql.SQL(", ").join(map(sql.Identifier, rows.columns))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for block in _blocks(rows.lines):
            copy.write(block)


def _blocks(lines: Iterator[str]) -> Iterator[str]:
    while block := list(islice(lines, _BLOCK_LINES)):
        yield "".join(block)


def _text(name: str) -> str:
    return files("load.workloads.lobsters").joinpath(name).read_text(encoding="utf-8")
