"""A large view of MariaDB's that Spark builds while it is written to, by processes that hold one snapshot together."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from load.processes import family, title
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.service import HTTP, RunningService, running_service, until
from tests.integration.test_builds import LIMIT_S, SETTINGS, STORIES, VOTES, eventually, is_there, javas, writing

pytestmark = pytest.mark.mariadb

TABLES = (
    "CREATE TABLE stories (id int PRIMARY KEY, title varchar(200) NOT NULL)",
    f"INSERT INTO stories SELECT seq, CONCAT('story ', seq) FROM seq_1_to_{STORIES}",
    "CREATE TABLE votes (story_id int NOT NULL, user_id int NOT NULL, PRIMARY KEY (story_id, user_id), KEY (user_id))",
    f"INSERT INTO votes SELECT seq % {STORIES} + 1, seq FROM seq_1_to_{VOTES}",
    "ANALYZE TABLE votes",
)
COUNTS = "SELECT story_id, count(*) AS votes FROM votes GROUP BY story_id"


@contextmanager
def connected(database: MariaDatabase) -> Iterator[Any]:
    """A cursor, in autocommit."""
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        yield cursor


def readers(service: RunningService) -> list[int]:
    """Processes that hold a snapshot."""
    return [pid for pid in family(service.pid) if "mysql.snapshot_reader" in title(pid)]


def votes_told(service: RunningService) -> int:
    """How many votes an answer tells of, all stories together."""
    return sum(int(row["votes"]) for row in service.rows("counts"))


def test_a_view_is_built_at_a_snapshot_that_several_processes_hold(mariadb: MariaDatabase, tmp_path: Path) -> None:
    """One of them is killed, and with it the snapshot: all is built anew at another one."""
    mariadb.execute(*TABLES)
    with running_service(tmp_path, mariadb.url, **SETTINGS) as service:
        with writing(lambda: connected(mariadb)) as writer:
            service.put("counts", COUNTS).raise_for_status()
            # Once there is a Java, the snapshot has been taken.
            java = eventually(lambda: javas(service))
            first = readers(service)
            assert len(first) == 2
            os.kill(first[0], 9)
            eventually(lambda: not set(first) & set(readers(service)) and not java & javas(service))
            eventually(lambda: is_there(service))
            assert votes_told(service) == VOTES
            moved = writer.moved
            until(lambda: writer.moved > moved + 100 and votes_told(service) == VOTES, LIMIT_S)
        version = HTTP.post(f"{service.http}/v1/checkpoint").json()["version"]
        rows = service.read("counts", {"Upquery-Min-Version": version, "Prefer": "wait=20"}).json()["rows"]
        assert sorted((row["story_id"], row["votes"]) for row in rows) == sorted(mariadb.query(COUNTS))
        log = service.log.read_text()
        assert "The snapshot has expired" in log
        assert "built" in log
        assert "way=spark" in log
        assert not readers(service)
        assert service.stop() == 0
        assert list((tmp_path / "state" / "builds").iterdir()) == []
