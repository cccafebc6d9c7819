"""Every file of ``corpus_mariadb/`` over a service and MariaDB, at one version after every change. See README.md."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.corpus import corpus_mariadb
from tests.fixtures.mariadb import MariaDbServer
from tests.fixtures.service import RunningService
from tests.sql.corpus_file import CORPUS_MARIADB, corpus_files, read_corpus_file
from tests.sql.corpus_run import CorpusRun
from tests.sql.mariadb_oracle import MariaDbOracle


@pytest.fixture(scope="module")
def processes(
    mariadb_server: MariaDbServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningService, MariaDbOracle]]:
    with corpus_mariadb(mariadb_server, tmp_path_factory.mktemp("corpus_mariadb") / "service") as found:
        yield found


@pytest.mark.parametrize("path", corpus_files(CORPUS_MARIADB), ids=lambda path: path.stem)
def test_answers_are_the_upstreams(path: Path, processes: tuple[RunningService, MariaDbOracle]) -> None:
    report = CorpusRun(read_corpus_file(path), *processes).run()
    assert not report.problems, "\n".join(report.problems)
