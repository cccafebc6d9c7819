"""A real news site's 44 reads as views, right under its writes. Reads and tables are those of the load's workload."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.corpus import LOBSTERS, corpus_upstream
from tests.sql.corpus_run import CorpusRun
from tests.sql.lobsters.writes import WRITES, lobsters, schema

pytestmark = pytest.mark.postgres

TRANSACTIONS = 24


def test_all_reads_and_writes_are_there() -> None:
    assert len(lobsters(1, 0).views) == 44
    assert len(WRITES) == 11


def test_answers_are_the_upstreams(
    postgres_server: EmbeddedPostgres, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with corpus_upstream(postgres_server, tmp_path / "service", "lobsters", schema()) as (service, oracle):
        run = CorpusRun(lobsters(1, TRANSACTIONS), service, oracle)
        problems = run.run().problems
        problems += CorpusRun(lobsters(2, TRANSACTIONS, repaired=True), service, oracle).run().problems
    record_property(LOBSTERS, json.dumps([asdict(kept) for kept in run.kept]))
    assert not problems, "\n".join(problems)
