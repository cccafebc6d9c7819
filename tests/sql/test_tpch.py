"""The 22 queries of TPC-H as views, with constants and with parameters, right under changes, on both databases."""

from dataclasses import replace
from pathlib import Path

import pytest

from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.corpus import corpus_mariadb, corpus_upstream
from tests.fixtures.mariadb import MariaDbServer
from tests.fixtures.service import RunningService
from tests.sql.comparison import Answer
from tests.sql.corpus_run import CorpusRun
from tests.sql.tpch.writes import schema, tpch
from tests.sql.upstream_oracle import Oracle

TRANSACTIONS = 30
PARAMETER_TRANSACTIONS = 12
SEEDS = (1, 2)
QUERIES = 22
#: Refreshed with parameters: no route leads to it.
REFRESHED = frozenset({"q11"})


@pytest.mark.postgres
def test_answers_are_postgresqls(postgres_server: EmbeddedPostgres, tmp_path: Path) -> None:
    with corpus_upstream(postgres_server, tmp_path / "service", "tpch", schema()) as processes:
        check(*processes)
        check_parameters(*processes, REFRESHED)


@pytest.mark.mariadb
def test_answers_are_mariadbs(mariadb_server: MariaDbServer, tmp_path: Path) -> None:
    with corpus_mariadb(mariadb_server, tmp_path / "service", "tpch", schema()) as processes:
        check(*processes)
        check_parameters(*processes, REFRESHED)


def check(service: RunningService, oracle: Oracle) -> None:
    problems: list[str] = []
    found: set[str] = set()
    for seed in SEEDS:
        file = tpch(seed, TRANSACTIONS)
        problems += CorpusRun(file, service, oracle).run().problems
        found |= {view.name for view in file.views if has_values(oracle.answer(view.sql))}
    assert not problems, "\n".join(problems)
    assert len(found) == QUERIES, "every query finds something"


def check_parameters(service: RunningService, oracle: Oracle, refreshed: frozenset[str]) -> None:
    problems: list[str] = []
    for tier in ("incremental", "refresh"):
        file = tpch(1, PARAMETER_TRANSACTIONS, "parameters")
        views = [view for view in file.views if (view.name in refreshed) == (tier == "refresh")]
        problems += CorpusRun(replace(file, tier=tier, views=views), service, oracle).run().problems
    assert not problems, "\n".join(problems)


def has_values(answer: Answer | str) -> bool:
    """Return whether an answer has a value that is not NULL."""
    return not isinstance(answer, str) and any(value is not None for row in answer.rows for _, value in row)


def test_all_queries_are_there() -> None:
    for reads in ("reads", "parameters"):
        assert [view.name for view in tpch(1, 0, reads).views] == [f"q{number:02}" for number in range(1, QUERIES + 1)]
