"""A change stream that stalls while the database answers otherwise: its connection is replaced, or it is begun anew."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.proxy import running_proxy
from tests.fixtures.service import PATIENT, RunningService, running_service, until

STORIES = (
    "CREATE TABLE stories (id int PRIMARY KEY, title varchar(100) NOT NULL)",
    "INSERT INTO stories VALUES (1, 'one'), (2, 'two')",
)
VIEWS = {"story": "SELECT id, title FROM stories WHERE id = :id"}
CDC = {"silence_s": 2.0, "set_replica_identity": True}


def through(url: str, port: int) -> str:
    """Return the URL of the server behind another port."""
    return url.replace(f":{urlsplit(url).port}", f":{port}")


def title(service: RunningService) -> str:
    return str(service.read("story", PATIENT, id=1).json()["rows"][0]["title"])


@pytest.mark.postgres
@pytest.mark.parametrize(("slot", "streams", "lost"), [("permanent", 1, 0), ("temporary", 2, 1)])
def test_of_postgres(database: Database, tmp_path: Path, slot: str, streams: int, lost: int) -> None:
    database.execute(*STORIES)
    cdc = CDC | {"slot": slot}
    port = urlsplit(database.url).port
    assert port is not None
    with (
        running_proxy(port) as proxy,
        running_service(tmp_path, through(database.url, proxy.port), VIEWS, cdc=cdc) as service,
    ):
        until(lambda: service.hits("story", id=1))
        assert len(proxy.stall(b"replication\0database")) == 1
        database.execute("UPDATE stories SET title = 'new' WHERE id = 1")
        until(lambda: title(service) == "new")
        until(lambda: service.stats()["counters"]["streams"] == streams)
        assert service.stats()["counters"]["streams_lost"] == lost
        assert "The change stream was silent for 2 s" in service.log.read_text()


@pytest.mark.mariadb
def test_of_mariadb(mariadb: MariaDatabase, tmp_path: Path) -> None:
    """The log goes on behind what was read: nothing is lost, and nothing evicted."""
    mariadb.execute(*STORIES)
    port = urlsplit(mariadb.url).port
    assert port is not None
    with (
        running_proxy(port) as proxy,
        running_service(tmp_path, through(mariadb.url, proxy.port), VIEWS, cdc={"silence_s": 2.0}) as service,
    ):
        until(lambda: service.hits("story", id=1))
        assert len(proxy.stall(b"heartbeat_period")) == 1
        mariadb.execute("UPDATE stories SET title = 'new' WHERE id = 1")
        until(lambda: title(service) == "new")
        assert service.stats()["counters"]["streams"] == 1
