"""A real news site's 44 reads as views, right under its writes. Reads and tables are those of the load's workload."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.corpus import LOBSTERS, corpus_upstream
from tests.fixtures.identities import set_default_identities
from tests.sql.corpus_run import CorpusRun
from tests.sql.lobsters.writes import WRITES, lobsters, schema

pytestmark = pytest.mark.postgres

TRANSACTIONS = 24
_IDENTITIES = """
SELECT DISTINCT c.relreplident::text FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
"""


def test_all_reads_and_writes_are_there() -> None:
    assert len(lobsters(1, 0).views) == 44
    assert len(WRITES) == 11


def test_answers_are_the_upstreams(
    postgres_server: EmbeddedPostgres, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """All tables have the replica identity of new tables: their primary key."""
    with corpus_upstream(postgres_server, tmp_path / "service", "lobsters", schema(), set_default_identities) as (
        service,
        oracle,
    ):
        run = CorpusRun(lobsters(1, TRANSACTIONS), service, oracle)
        problems = run.run().problems
        problems += CorpusRun(lobsters(2, TRANSACTIONS, repaired=True), service, oracle).run().problems
        identities = oracle.connection.execute(_IDENTITIES).fetchall()
    assert identities == [("d",)], "the service left the identities as they were"
    record_property(LOBSTERS, json.dumps([asdict(kept) for kept in run.kept]))
    assert not problems, "\n".join(problems)
