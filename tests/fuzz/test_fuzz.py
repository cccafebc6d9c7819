"""A few hundred random cases, other ones every day (`tests.fixtures.seeds`); ``make fuzz`` runs many more."""

from pathlib import Path

import pytest

from tests.fixtures.corpus import CorpusService, corpus_mariadb
from tests.fixtures.mariadb import MariaDbServer
from tests.fixtures.seeds import day_seed
from tests.fuzz.cases import file_of
from tests.fuzz.databases import DATABASES
from tests.fuzz.mariadb_dialect import MARIADB
from tests.fuzz.postgres_dialect import POSTGRES
from tests.fuzz.running import run_seed
from tests.sql.corpus_run import Report


def check(report: Report, least: int) -> None:
    """Nothing is wrong with so many reads at least."""
    assert report.reads > least, report.seeded
    assert not report.wrong_answers, report.seeded
    assert not report.failures, report.seeded


def seed_of(database: str, analyzed: bool) -> int:
    """The day's seed of a database, whose tables are analyzed or not (`tests.fuzz.cases`)."""
    return day_seed(f"fuzz {database} {analyzed}") // 2 * 2 + analyzed


@pytest.mark.postgres
@pytest.mark.parametrize("analyzed", [True, False], ids=["analyzed", "never_analyzed"])
def test_random_views_answer_as_postgres_does(analyzed: bool, corpus_service: CorpusService, tmp_path: Path) -> None:
    """Before and after every change, in every tier, whole or in part."""
    processes = corpus_service.service, corpus_service.oracle
    check(run_seed(seed_of("postgres", analyzed), tmp_path, POSTGRES, processes, views=15, steps=6), 100)


@pytest.mark.mariadb
def test_random_views_answer_as_mariadb_does(mariadb_server: MariaDbServer, tmp_path: Path) -> None:
    with corpus_mariadb(mariadb_server, tmp_path / "service", "fuzz") as processes:
        check(run_seed(seed_of("mariadb", False), tmp_path, MARIADB, processes, views=10, steps=4), 60)


@pytest.mark.parametrize("database", DATABASES)
def test_a_seed_always_makes_the_same_file(database: str) -> None:
    """Else nothing that went wrong could be run again."""
    dialect = DATABASES[database].dialect
    assert file_of(7, 20, 5, dialect) == file_of(7, 20, 5, dialect)
