"""``make fuzz ARGS=hostile``: hostile values through every function, compared by answer and by time."""

import argparse
import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import psycopg

from dataflow.schema import SqlType
from service.demo.postgres_server import EmbeddedPostgres
from service.engine.databases.postgres.catalog import load_catalog
from tests.dataflow.functions.server import PINNED, Connection
from tests.fixtures.mariadb import start_mariadb
from tests.fixtures.postgres import discard_server, start_server
from tests.fixtures.seeds import day_seed
from tests.fuzz.hostile.comparison import Table
from tests.fuzz.hostile.mariadb import MariaDbRun
from tests.fuzz.hostile.postgres import PostgresRun
from tests.fuzz.hostile.postgres_aggregates import aggregates
from tests.fuzz.hostile.postgres_subjects import PostgresSubjects
from tests.fuzz.hostile.subject import Subject

#: Values of a type: small, large, largest.
_POOL = (600, 60, 4)


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz ARGS='hostile …'", description=__doc__)
    parser.add_argument("--database", choices=("postgres", "mariadb"), default="postgres", help="default: %(default)s")
    parser.add_argument("--values", type=int, default=5000, help="values of each function (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=day_seed("hostile"), help="default: the day's")
    parser.add_argument("--only", default="", help="functions whose names match this regular expression")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    """0 if every answer is the database's, in its time."""
    arguments = _arguments(words)
    table = _postgres(arguments) if arguments.database == "postgres" else _mariadb(arguments)
    problems = table.problems(timed=True)
    print("\n".join([*problems, table.text(), f"seed {arguments.seed}"]))  # noqa: T201
    return 1 if problems else 0


def _progress() -> Callable[[str], None]:
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {text}", flush=True)  # noqa: T201

    return say


@contextmanager
def postgres_connection(server: EmbeddedPostgres) -> Iterator[tuple[Connection, SqlType]]:
    """A connection to a server on which the subjects' enum is, and the server's type of text."""

    async def text() -> SqlType:
        async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as other:
            return (await load_catalog(other)).text

    with psycopg.connect(server.url, options=PINNED, autocommit=True) as connection:
        connection.execute("CREATE TYPE pg_temp.mood AS ENUM ('sad', 'ok', 'happy'); SET search_path = public, pg_temp")
        yield connection, asyncio.run(text())


def postgres_subjects(text: SqlType, seed: int) -> list[Subject]:
    """All there are."""
    made = PostgresSubjects(text, Random(seed))
    return [*made.all(), *aggregates(made.type_of)]


def _postgres(arguments: argparse.Namespace) -> Table:
    server = start_server({"max_stack_depth": "7MB"})
    try:
        with postgres_connection(server) as (connection, text):
            subjects = [s for s in postgres_subjects(text, arguments.seed) if re.search(arguments.only, s.name)]
            run = PostgresRun(connection, arguments.seed, _POOL, long=True)
            run.run(subjects, arguments.values, _progress())
            return run.table
    finally:
        discard_server(server)


def _mariadb(arguments: argparse.Namespace) -> Table:
    # By default it sorts by the first kilobyte only (docs/mysql.md).
    server = start_mariadb({"max_allowed_packet": "64M", "max_sort_length": "8M", "sort_buffer_size": "256M"})
    try:
        run = MariaDbRun(server, arguments.seed, arguments.values, long=True)
        run.run(lambda name: re.search(arguments.only, name) is not None, _progress())
        return run.table
    finally:
        server.discard()
