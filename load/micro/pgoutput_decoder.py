"""Cost of PostgreSQL's change stream: changes decoded per second of CPU, from the socket to transactions.

An embedded PostgreSQL of its own writes a phase first: single-row transactions, transactions of 1,000 inserts or of
1,000 updates. Then this process reads it, which alone is measured; the server decodes meanwhile in its own time.

``python -m load.micro.pgoutput_decoder [--changes 20000] [--rounds 3]`` prints one JSON line, ``--profile`` where the
time goes.
"""

import asyncio
import cProfile
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from cdc.change import TableLayout
from cdc.postgres.position import parse_lsn
from cdc.postgres.publication import create_publication_sql
from cdc.postgres.stream import PostgresStream
from load.micro.stream_benchmark import Reader, main, stream_seconds
from service.settings.sections import CdcSettings

_TABLE = (
    "DROP TABLE IF EXISTS votes",
    "CREATE TABLE votes (id int PRIMARY KEY, story int NOT NULL, voter text, at timestamptz NOT NULL,"
    " weight numeric(10,2))",
    "ALTER TABLE votes REPLICA IDENTITY FULL",
    "ALTER PUBLICATION bench ADD TABLE votes",
)
_ROWS = (
    "INSERT INTO votes SELECT i, i % 997, 'voter ' || i, '2024-02-29'::timestamptz + i * interval '1 second',"
    " i % 7 - 3.5 FROM generate_series({first}, {last}) i"
)
_COLUMNS = ("id", "story", "voter", "at", "weight")
#: What is written before, and not measured, in one transaction; changes of a transaction; the statement.
_UPDATE = "UPDATE votes SET story = story + 1 WHERE id BETWEEN {first} AND {last}"
PHASES = {
    "single_row_transactions": (False, 1, _ROWS),
    "inserts_of_1000": (False, 1000, _ROWS),
    "updates_of_1000": (True, 1000, _UPDATE),
}


@contextmanager
def opened(changes: int) -> Iterator[dict[str, Reader]]:
    """The stream's reader, on a server of its own."""
    from tests.fixtures.postgres import discard_server, start_server

    server = start_server()
    try:
        yield {"stream": Bench(server.url, changes).read_stream}
    finally:
        discard_server(server)


class Bench:
    """Writes phases and reads them."""

    def __init__(self, url: str, changes: int) -> None:
        self._url = url
        self._changes = changes
        self._execute(create_publication_sql("bench"))

    def read_stream(self, phase: str, profile: cProfile.Profile | None) -> float:
        self._execute("SET client_min_messages = warning", *_TABLE)
        if PHASES[phase][0]:
            self._execute(_ROWS.format(first=0, last=self._changes - 1))
        layouts = {"public.votes": TableLayout(_COLUMNS)}
        stream = PostgresStream(self._url, "bench", lambda: layouts, CdcSettings().transaction_rows)
        return asyncio.run(stream_seconds(stream, "public.votes", self._changes, lambda: self._write(phase), profile))

    def _write(self, phase: str) -> int:
        """Write what is measured; returns where it ends."""
        _, size, statement = PHASES[phase]
        self._execute(
            "SET synchronous_commit = off",
            *(statement.format(first=i, last=i + size - 1) for i in range(0, self._changes, size)),
        )
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("SELECT pg_logical_emit_message(true, 'bench', '')")
            row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        return parse_lsn(row[0])

    def _execute(self, *statements: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


if __name__ == "__main__":
    main(__doc__, PHASES, opened)
