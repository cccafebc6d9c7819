"""Puts the news site into a database: the tables, then the data by COPY.

Not here: what the data is (`dataset`).
"""

from collections.abc import Callable, Iterator
from importlib.resources import files
from itertools import islice

from psycopg import Connection, sql

from service.demo.dataset import DatasetSize, Lines, generate

#: Lines that one COPY message carries.
_BLOCK_LINES = 5_000

#: Says how far the loading is: the table, and how many rows more of it are in.
Progress = Callable[[str, int], None]


def create_tables(connection: Connection) -> None:
    """Create the site's tables, empty."""
    connection.execute(files("service.demo").joinpath("schema.sql").read_text(encoding="utf-8"))


def load(connection: Connection, size: DatasetSize, progress: Progress) -> None:
    """Fill the empty tables, in one transaction.

    The generator's rows agree with each other, so the checks of foreign keys row by row are left out while loading
    (`session_replication_role`); they hold, and are on, from then on.
    """
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        for lines in generate(size):
            _copy(connection, lines, progress)
        for table in ("stories", "comments", "tags"):
            connection.execute(
                sql.SQL("SELECT setval(pg_get_serial_sequence({name}, 'id'), (SELECT max(id) FROM {table}))").format(
                    name=sql.Literal(table), table=sql.Identifier(table)
                )
            )
    connection.execute("ANALYZE")


def _copy(connection: Connection, lines: Lines, progress: Progress) -> None:
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(lines.table), sql.SQL(", ").join(map(sql.Identifier, lines.columns))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for block in _blocks(lines.lines):
            copy.write("".join(block))
            progress(lines.table, len(block))


def _blocks(lines: Iterator[str]) -> Iterator[list[str]]:
    while block := list(islice(lines, _BLOCK_LINES)):
        yield block
