"""A few hostile values through some of the functions, other ones every day; ``make fuzz ARGS=hostile`` has all of them,
long values among them, and looks at the time."""

from random import Random

import pytest

from dataflow.evaluate import MYSQL_SIGNATURES
from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.mariadb import MariaDbServer
from tests.fixtures.seeds import day_seed
from tests.fuzz.hostile.command import postgres_connection, postgres_subjects
from tests.fuzz.hostile.mariadb import MariaDbRun
from tests.fuzz.hostile.postgres import PostgresRun

_SUBJECTS, _VALUES, _ROWS = 200, 10, 45


@pytest.mark.postgres
def test_hostile_values_are_answered_as_postgres_does(postgres_server: EmbeddedPostgres) -> None:
    seed = day_seed("hostile postgres")
    with postgres_connection(postgres_server) as (connection, text):
        run = PostgresRun(connection, seed, (60, 10, 0), long=False)
        every = postgres_subjects(text, seed)
        run.run(Random(seed).sample(every, _SUBJECTS), _VALUES, lambda _: None)
    assert run.table.problems(timed=False) == []


@pytest.mark.mariadb
def test_hostile_values_are_answered_as_mariadb_does(mariadb_server: MariaDbServer) -> None:
    seed = day_seed("hostile mariadb")
    run = MariaDbRun(mariadb_server, seed, _ROWS, long=False)
    rng = Random(seed)
    run.run(lambda _: rng.randrange(12) == 0, lambda _: None)
    assert run.table.problems(timed=False) == []
    # It finishes an aggregate, and is in no expression of one row.
    assert MYSQL_SIGNATURES.keys() - run.functions() == {"GROUP_CONCAT"}
