"""A standby is promoted (PostgreSQL 17 and later): the stream goes on from its slot there, and nothing is evicted."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures.postgres import Database, Standby, discard_server, start_server, start_standby
from tests.fixtures.proxy import running_proxy
from tests.fixtures.service import running_service, until
from tests.integration.breaking_postgres import TABLES, VIEWS, compare, resumptions, warm, writing
from tests.integration.warm import filled_service

pytestmark = pytest.mark.postgres

VERSION = "Upquery-Version"
ANY_ENGINES = pytest.mark.parametrize("engines", [1, 2], ids=["one engine", "two engines"])


@dataclass(frozen=True, slots=True)
class Pair:
    """A primary and its standby; `database` is the one of both that can be written."""

    primary: Database
    standby: Standby
    database: Database

    def fail_over(self) -> None:
        """The primary crashes, and the standby takes its place."""
        self.primary.server.stop("immediate")
        self.standby.promote()


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        server = start_server()
        stack.callback(discard_server, server)
        primary = Database("postgres", server.url, server)
        primary.require(17, "failover slots")
        standby = start_standby(server)
        stack.callback(discard_server, standby)
        # The stream does not get ahead of the standby.
        primary.execute("ALTER SYSTEM SET synchronized_standby_slots = 'standby'", "SELECT pg_reload_conf()")
        hosts = f"127.0.0.1:{server.port},127.0.0.1:{standby.port}"
        url = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
        yield Pair(primary, standby, Database("postgres", url, standby))


def test_a_standby_is_promoted_under_writes(pair: Pair, tmp_path: Path) -> None:
    """Commits that the old server had not sent to the standby are gone, and were not applied."""
    database = pair.database
    database.execute(*TABLES)
    with running_service(tmp_path / "service", database.url, VIEWS) as service:
        warm(service)
        pair.standby.wait_for_slots()
        before, version = service.stats()["counters"]["leaf_evictions"], service.read("story", id=1).headers[VERSION]
        with writing(database, synchronous=False) as commits:
            seen = commits()
            until(lambda: commits() > seen + 20)
            pair.fail_over()
            until(lambda: resumptions(service) >= 1)
            seen = commits()
            until(lambda: commits() > seen + 20)
        compare(service, database)
        assert service.read("story", {"Upquery-Min-Version": version}, id=2).status_code == 200
        lost = service.read("story", {"Upquery-Min-Version": "F/0"}, id=2)
        assert (lost.status_code, lost.json()["code"]) == (400, "bad_request")
        counters = service.stats()["counters"]
        assert (counters["streams"], counters["streams_lost"]) == (1, 0)
        assert counters["leaf_evictions"] == before


def test_two_engines_go_on(pair: Pair, tmp_path: Path) -> None:
    """The stream process tells them which server it continues on."""
    database = pair.database
    database.execute(*TABLES)
    with running_service(tmp_path / "service", database.url, VIEWS, engine={"shards": 2}) as service:
        warm(service)
        pair.standby.wait_for_slots()
        pair.fail_over()
        until(lambda: "the change stream continues from the slot" in service.log.read_text())
        database.execute("UPDATE stories SET title = 'of the new server'")
        compare(service, database)
        assert "change stream lost" not in service.log.read_text()


@ANY_ENGINES
def test_a_restart_across_the_promotion_is_warm(pair: Pair, tmp_path: Path, engines: int) -> None:
    with filled_service(pair.database, tmp_path, engines=engines) as service:
        pair.standby.wait_for_slots()
        service.running.stop()
        pair.standby.wait_for_slots()
        pair.fail_over()
        service.database.execute("UPDATE stories SET title = 'of the new server' WHERE id < 10")
        service.restart()
        assert "the checkpoint was read" in service.log(), service.log()
        assert service.hit_rate() == 1.0
        service.compare()


def test_a_promoted_standby_that_lacks_transactions(pair: Pair, tmp_path: Path) -> None:
    """The stream has got ahead of it: everything is evicted."""
    database = pair.database
    database.execute(*TABLES)
    with running_service(tmp_path / "service", database.url, VIEWS) as service:
        warm(service)
        pair.standby.wait_for_slots()
        pair.primary.execute("ALTER SYSTEM RESET synchronized_standby_slots", "SELECT pg_reload_conf()")
        pair.standby.stop()
        database.execute("UPDATE stories SET title = 'of the old server'")
        compare(service, database)
        pair.primary.server.stop("immediate")
        pair.standby.start()
        pair.standby.promote()
        # Until a new stream begins, hits are of the old one.
        until(lambda: service.stats()["counters"]["streams"] >= 2)
        assert "the server has lost transactions" in service.log.read_text()
        assert ("of the old server",) not in database.query("SELECT title FROM stories")
        warm(service)
        compare(service, database)


@ANY_ENGINES
def test_the_old_primary_lives_on(pair: Pair, tmp_path: Path, engines: int) -> None:
    """New connections lead to the promoted standby, and the stream's is still whole: it is replaced."""
    old = pair.primary
    old.execute(*TABLES)
    new = Database("postgres", pair.standby.url, pair.standby)
    with running_proxy(old.server.port) as proxy:
        url = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"
        with running_service(tmp_path / "service", url, VIEWS, engine={"shards": engines}) as service:
            warm(service)
            pair.standby.wait_for_slots()
            pair.standby.promote()
            proxy.target = pair.standby.port
            old.execute("UPDATE stories SET title = 'of the old server'")
            new.execute("UPDATE stories SET title = 'of the new server'")
            old.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'upquery'")
            until(lambda: resumptions(service) >= engines)
            compare(service, new)
            assert service.stats()["counters"]["streams_lost"] == 0
