"""A service that is stopped and started again begins with its keys, and answers right whatever happened meanwhile."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.mariadb import MariaDbServer, empty_mariadb, start_mariadb
from tests.fixtures.service import process_named, until
from tests.integration.warm import WarmDatabase, WarmService, dialect_of, filled_service

#: Databases with numbers of engines.
SITES = [
    pytest.param(("mariadb", 1), marks=pytest.mark.mariadb, id="mariadb"),
    pytest.param(("mariadb", 2), marks=pytest.mark.mariadb, id="mariadb, two engines"),
    pytest.param(("database", 1), marks=pytest.mark.postgres, id="postgres"),
    pytest.param(("database", 2), marks=pytest.mark.postgres, id="postgres, two engines"),
]


@pytest.fixture(params=SITES)
def site(request: pytest.FixtureRequest) -> tuple[WarmDatabase, int]:
    """An empty database, and a number of engines."""
    name, engines = request.param
    return request.getfixturevalue(name), engines


@pytest.fixture
def warm(site: tuple[WarmDatabase, int], tmp_path: Path) -> Iterator[WarmService]:
    database, engines = site
    with filled_service(database, tmp_path, engines=engines) as service:
        yield service


@pytest.fixture(scope="module")
def own_server() -> Iterator[MariaDbServer]:
    """A server whose log may be reset."""
    server = start_mariadb()
    yield server
    server.discard()


@pytest.fixture(params=[1, 2], ids=["one engine", "two engines"])
def of_own_server(request: pytest.FixtureRequest, own_server: MariaDbServer, tmp_path: Path) -> Iterator[WarmService]:
    with (
        empty_mariadb(own_server) as database,
        filled_service(database, tmp_path, engines=request.param) as service,
    ):
        yield service


def test_a_restart_is_warm(warm: WarmService) -> None:
    """Nothing is written meanwhile, so nothing is evicted: every key is a hit at once, more than once."""
    for _ in range(2):
        assert warm.running.stop() == 0
        assert len(warm.checkpoints) == warm.engines
        warm.restart()
        assert warm.hit_rate() == 1.0, warm.log()
        assert warm.checkpoints == []
    warm.compare()


def test_writers_go_on_during_the_restart(warm: WarmService) -> None:
    with warm.writing():
        warm.running.stop()
        warm.restart()
        rate = warm.hit_rate()
    warm.compare()
    # A story that gets another author moves to keys whose engine may not have its votes: these are evicted.
    assert rate > (0.9 if warm.engines == 1 else 0.6), warm.log()


def test_a_killed_engine_begins_empty(warm: WarmService) -> None:
    """The checkpoint that it began with is of a position before what it applied."""
    warm.running.stop()
    warm.restart()
    os.kill(process_named("engine" if warm.engines == 1 else "engine-1", warm.running.pid), signal.SIGKILL)
    until(lambda: warm.log().count("stream started") == 2 * warm.engines + 1)
    until(warm.running.ready)
    assert warm.log().count("the checkpoint was read") == warm.engines
    warm.compare()


def test_other_engines(warm: WarmService) -> None:
    """Each had a part of the keys: with more engines, or fewer, the cache begins empty, which is logged."""
    warm.running.stop()
    before = warm.engines
    warm.restart(engines=before % 2 + 1)
    assert warm.hit_rate("story", "counted") == 0.0
    assert f"[engine] shards was {before} when it was written; it is {warm.engines} now." in warm.log()
    assert warm.checkpoints == []
    warm.compare()


@pytest.mark.parametrize("site", SITES[1::2], indirect=True)
def test_an_engine_has_no_checkpoint(warm: WarmService) -> None:
    """The others' keys are there, also if writers go on: the stream begins at the earliest place."""
    with warm.writing():
        warm.running.stop()
        warm.checkpoints[0].unlink()
        warm.restart()
        rate = warm.hit_rate("story")
    warm.compare()
    assert 0.2 < rate < 0.8


def test_other_views(warm: WarmService) -> None:
    """The keys of a view with another SQL are gone, those of others are not, and a new one shares their nodes."""
    warm.running.stop()
    (sql, keys), rest = warm.views["story"], dict(warm.views)
    del rest["voted"]
    warm.restart({"more": (sql, keys), **rest, "story": ("SELECT id, title FROM stories WHERE id = :key", keys)})
    assert warm.hit_rate("story") == 0.0
    assert warm.hit_rate("counted", "newest") == 1.0
    warm.compare()


def test_tables_are_altered_while_it_is_stopped(site: tuple[WarmDatabase, int], tmp_path: Path) -> None:
    """Rows of before are not used where they mean something else, also where a table has the same form again."""
    database, engines = site
    dialect = dialect_of(database)
    tables = [f"altered_{number}" for number in range(len(dialect.alterations))]
    for table in tables:
        database.execute(*[statement.format(table) for statement in dialect.altered])
    columns = "id, title, score", "COUNT(title) AS n, MAX(title) AS last, SUM(score) AS total"
    altered = {
        f"{table}_{form}": (f"SELECT {columns[form]} FROM {table} WHERE id = :key", range(1, 10))
        for table in tables
        for form in (0, 1)
    }
    with filled_service(database, tmp_path, altered, engines=engines) as service:
        service.running.stop()
        for table, statements in zip(tables, dialect.alterations, strict=True):
            change = f"UPDATE {table} SET score = score + 1 WHERE id < 4"
            database.execute(change, *[statement.format(table) for statement in statements], change)
        service.restart()
        assert service.hit_rate(*dialect.views, f"{tables[-1]}_0", f"{tables[-1]}_1") == 1.0, service.log()
        service.compare()


@pytest.mark.mariadb
def test_the_log_is_reset(of_own_server: WarmService) -> None:
    """Another log begins: nothing of the old one's positions is used, even where the numbers are the same."""
    warm = of_own_server
    warm.running.stop()
    warm.database.execute("RESET MASTER", "UPDATE stories SET title = 'another'")
    warm.restart()
    assert warm.hit_rate("story") == 0.0
    assert "is not used" in warm.log()
    warm.compare()


@pytest.mark.mariadb
def test_the_log_is_purged(of_own_server: WarmService) -> None:
    warm = of_own_server
    warm.running.stop()
    warm.database.execute("UPDATE stories SET title = 'purged'", "FLUSH BINARY LOGS")
    ((newest, *_),) = warm.database.query("SHOW MASTER STATUS")

    def is_purged() -> bool:
        # Not before the storage engine has written what is in the log, and the last reader is gone.
        warm.database.execute(f"PURGE BINARY LOGS TO '{newest}'")
        return len(warm.database.query("SHOW BINARY LOGS")) == 1

    until(is_purged)
    warm.restart()
    assert warm.hit_rate("story") == 0.0
    warm.compare()


@pytest.mark.mariadb
def test_the_server_is_restarted(of_own_server: WarmService) -> None:
    """The log is the same, and goes on in another file."""
    warm = of_own_server
    warm.running.stop()
    warm.database.server.stop()
    warm.database.server.start()
    warm.database.execute("UPDATE stories SET title = 'restarted' WHERE id < 5")
    warm.restart()
    assert warm.hit_rate() == 1.0
    warm.compare()


@pytest.mark.parametrize("damage", ["truncated", "torn"])
def test_a_damaged_file(warm: WarmService, damage: str) -> None:
    """Nodes that can be read are used, as far as those that they depend on can be, too."""
    warm.running.stop()
    for checkpoint in warm.checkpoints:
        content = bytearray(checkpoint.read_bytes())
        if damage == "truncated":
            del content[len(content) // 2 :]
        else:
            for at in range(5000, len(content), 5000):
                content[at] ^= 1
        checkpoint.write_bytes(content)
    warm.restart()
    warm.compare()
    assert "is damaged" in warm.log()
    assert warm.checkpoints == []
