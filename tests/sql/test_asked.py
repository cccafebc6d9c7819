"""Lobsters' reads, and some of the corpus for MariaDB, as SQL that names no view."""

from contextlib import closing
from pathlib import Path

import pytest

from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.corpus import corpus_running
from tests.fixtures.mariadb import MariaDbServer
from tests.sql.asked_run import AskedRun
from tests.sql.corpus_file import CORPUS_MARIADB, read_corpus_file
from tests.sql.lobsters.writes import lobsters, schema
from tests.sql.mariadb_oracle import MariaDbOracle
from tests.sql.upstream_oracle import UpstreamOracle

TRANSACTIONS = 2
SETTINGS = {"enabled": True, "install_after": 4}


@pytest.mark.postgres
def test_lobsters_reads(postgres_server: EmbeddedPostgres, tmp_path: Path) -> None:
    with closing(UpstreamOracle(postgres_server.url)) as server:
        server.execute("CREATE DATABASE lobsters_asked")
    url = postgres_server.database_url("lobsters_asked")
    with (
        closing(UpstreamOracle(url)) as oracle,
        corpus_running(tmp_path / "service", url, adhoc=SETTINGS) as service,
    ):
        oracle.connection.execute(schema())
        run = AskedRun(lobsters(3, TRANSACTIONS), service, oracle)
        problems = run.run().problems
    assert not problems, "\n".join(problems)
    # Lists of constants are written as arrays there, whose casts say more than plans do.
    assert run.answered["view"] > run.answered["upstream"], run.answered


@pytest.mark.parametrize("name", ["equal_values"])
def test_mariadb(name: str, mariadb_server: MariaDbServer, tmp_path: Path) -> None:
    with closing(mariadb_server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE DATABASE asked CHARACTER SET utf8mb4")
    url = mariadb_server.url("asked")
    with closing(MariaDbOracle(url)) as oracle:
        assert oracle.execute((CORPUS_MARIADB / "shared" / "schema.sql").read_text(encoding="utf-8")) is None
        with corpus_running(tmp_path / "service", url, adhoc=SETTINGS) as service:
            run = AskedRun(read_corpus_file(CORPUS_MARIADB / f"{name}.test"), service, oracle)
            problems = run.run().problems
    assert not problems, "\n".join(problems)
    assert run.answered["view"] > 0, run.answered
