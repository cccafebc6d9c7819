"""The databases that random SQL is run on: each with its dialect, and a server of its own."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.fixtures.corpus import corpus_mariadb, corpus_upstream
from tests.fixtures.mariadb import start_mariadb
from tests.fixtures.postgres import discard_server, start_server
from tests.fixtures.seeds import day_seed
from tests.fixtures.service import RunningService
from tests.fuzz.dialect import Dialect
from tests.fuzz.mariadb_dialect import MARIADB
from tests.fuzz.postgres_dialect import POSTGRES
from tests.sql.upstream_oracle import Oracle


@dataclass(frozen=True, slots=True)
class Database:
    """A database: its SQL, and how a server with a service over it is started, for as long as the context lasts."""

    title: str
    dialect: Dialect
    processes: Callable[[Path], AbstractContextManager[tuple[RunningService, Oracle]]]


@contextmanager
def _postgres(directory: Path) -> Iterator[tuple[RunningService, Oracle]]:
    server = start_server()
    try:
        with corpus_upstream(server, directory) as processes:
            yield processes
    finally:
        discard_server(server)


@contextmanager
def _mariadb(directory: Path) -> Iterator[tuple[RunningService, Oracle]]:
    server = start_mariadb()
    image = Random(day_seed("row image")).choice(("FULL", "MINIMAL", "NOBLOB"))
    try:
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"SET GLOBAL binlog_row_image = '{image}'")
        with corpus_mariadb(server, directory) as processes:
            yield processes
    finally:
        server.discard()


DATABASES = {
    "postgres": Database("PostgreSQL", POSTGRES, _postgres),
    "mariadb": Database("MariaDB", MARIADB, _mariadb),
}
