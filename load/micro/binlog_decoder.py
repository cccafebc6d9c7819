"""Cost of MariaDB's change stream: changes decoded per second of CPU, by the stream and by the library alone.

A MariaDB of its own (that of the tests) writes a phase of the log first: single-row transactions, statements of 1,000
rows, updates of 1,000 rows. Then this process reads it, which alone is measured. The library reads the same: its events
with their values as Python objects, which are not yet the texts that the engine needs, nor transactions.

``python -m load.micro.binlog_decoder [--changes 20000] [--rounds 3]`` prints one JSON line, ``--profile`` where the
time of either goes. Needs MariaDB (Debian: mariadb-server).
"""

import asyncio
import cProfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from cdc.change import TableLayout
from cdc.column_type import ColumnType
from cdc.mysql import server
from cdc.mysql.position import position_of
from cdc.mysql.stream import MySqlStream
from load.micro.stream_benchmark import Reader, main, stream_seconds
from service.settings.sections import CdcSettings

_TABLE = (
    "CREATE OR REPLACE TABLE votes (id int PRIMARY KEY, story int NOT NULL, voter varchar(40), at datetime NOT NULL,"
    " weight decimal(10,2)) CHARACTER SET utf8mb4"
)
_LAYOUT = TableLayout(
    ("id", "story", "voter", "at", "weight"),
    column_types=(
        ColumnType("int"),
        ColumnType("int"),
        ColumnType("varchar", length=40, charset="utf8mb4"),
        ColumnType("datetime"),
        ColumnType("decimal", precision=10, scale=2),
    ),
)
_ROWS = (
    "INSERT INTO votes SELECT seq, seq % 997, CONCAT('voter ', seq), '2024-02-29' + INTERVAL seq SECOND,"
    " seq % 7 - 3.5 FROM seq_{first}_to_{last}"
)
Place = tuple[str, int]
#: Statements that make a number of changes.
Statements = Callable[[int], list[str]]


def _single(changes: int) -> list[str]:
    return [_ROWS.format(first=i, last=i) for i in range(changes)]


def _thousands(changes: int) -> list[str]:
    return [_ROWS.format(first=i, last=i + 999) for i in range(0, changes, 1000)]


def _updates(changes: int) -> list[str]:
    update = "UPDATE votes SET story = story + 1 WHERE id BETWEEN {} AND {}"
    return [update.format(i, i + 999) for i in range(0, changes, 1000)]


#: What is written before, and not measured; and what is.
PHASES: dict[str, tuple[Statements | None, Statements]] = {
    "single_row_transactions": (None, _single),
    "inserts_of_1000": (None, _thousands),
    "updates_of_1000": (_thousands, _updates),
}


@contextmanager
def opened(changes: int) -> Iterator[dict[str, Reader]]:
    """The readers, on a server of their own."""
    from tests.fixtures.mariadb import start_mariadb

    mariadb = start_mariadb()
    try:
        options = {"host": "127.0.0.1", "port": mariadb.port, "user": "root"}
        with closing(server.connect(options, 10)) as connection:
            bench = Bench(options, connection, changes)
            yield {"stream": bench.read_stream, "library": bench.read_library}
    finally:
        mariadb.discard()


class Bench:
    """Writes phases and reads them."""

    def __init__(self, options: dict[str, Any], connection: server.Connection, changes: int) -> None:
        self._options = options
        self._connection = connection
        self._changes = changes
        self._execute("CREATE DATABASE bench", "USE bench")

    def read_stream(self, phase: str, profile: cProfile.Profile | None) -> float:
        self._prepare(phase)
        stream = MySqlStream(self._options, lambda: {"bench.votes": _LAYOUT}, CdcSettings().transaction_rows)
        return asyncio.run(
            stream_seconds(stream, "bench.votes", self._changes, lambda: position_of(*self._write(phase)), profile)
        )

    def read_library(self, phase: str, profile: cProfile.Profile | None) -> float:
        from pymysqlreplication import BinLogStreamReader, row_event  # type: ignore[import-untyped]

        self._prepare(phase)
        file, offset = server.current_end(self._connection)
        end = self._write(phase)
        reader = BinLogStreamReader(
            {**self._options, "charset": "utf8mb4"},
            server_id=4711,
            log_file=file,
            log_pos=offset,
            end_log_pos=end[1],
            resume_stream=True,
            blocking=True,
            enable_logging=False,
            only_tables=["votes"],
            only_events=[row_event.WriteRowsEvent, row_event.UpdateRowsEvent, row_event.DeleteRowsEvent],
        )
        started = time.process_time()
        if profile is not None:
            profile.enable()
        found = sum(len(event.rows) for event in reader)
        if profile is not None:
            profile.disable()
        seconds = time.process_time() - started
        reader.close()
        assert found == self._changes, found
        return seconds

    def _execute(self, *statements: str) -> None:
        with self._connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def _write(self, phase: str) -> Place:
        """Writes what is measured; returns where it ends."""
        self._execute(*PHASES[phase][1](self._changes))
        return server.current_end(self._connection)

    def _prepare(self, phase: str) -> None:
        before = PHASES[phase][0]
        self._execute(_TABLE, *(before(self._changes) if before else ()))


if __name__ == "__main__":
    main(__doc__, PHASES, opened)
