"""Restarts from a checkpoint over PostgreSQL, with all that can happen to server, slot and publication meanwhile."""

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.postgres import Database, discard_server, empty_database, start_server
from tests.fixtures.service import PATIENT, alive, until, upquery
from tests.integration.breaking_postgres import FLUSHES_SELDOM, crash, restart
from tests.integration.warm import WarmService, filled_service

pytestmark = pytest.mark.postgres

SLOTS = "SELECT slot_name, active FROM pg_replication_slots"
#: Tests of a service with one engine, and of one whose engines share the slot.
ANY_ENGINES = pytest.mark.parametrize("engines", [1, 2], indirect=True, ids=["one engine", "two engines"])


@pytest.fixture(scope="module")
def own() -> Iterator[Database]:
    """A server that can be crashed. It loses what it has not flushed, which it does seldom."""
    server = start_server(FLUSHES_SELDOM)
    try:
        yield Database("postgres", server.url, server)
    finally:
        discard_server(server)


@pytest.fixture
def engines(request: pytest.FixtureRequest) -> int:
    return getattr(request, "param", 1)


@pytest.fixture
def warm(own: Database, tmp_path: Path, engines: int) -> Iterator[WarmService]:
    with empty_database(own.server) as database, filled_service(database, tmp_path, engines=engines) as service:
        yield service


def slots(service: WarmService) -> list[tuple[str, bool]]:
    return service.database.query(f"{SLOTS} WHERE database = current_database()")


def write(service: WarmService) -> None:
    """Changes rows under keys of all views."""
    service.database.execute(
        "UPDATE stories SET title = title || '!', author = (author + 1) % 8 WHERE id < 10",
        "DELETE FROM votes WHERE id % 7 = 0",
        "INSERT INTO votes (story, voter) SELECT i, i FROM generate_series(1, 9) i",
    )


def restarts_warm(service: WarmService) -> bool:
    """Starts it again and compares all keys; returns whether the checkpoints were used: all of them, or none."""
    used = service.log().count("the checkpoint was read")
    service.restart()
    service.compare()
    read = service.log().count("the checkpoint was read") - used
    assert read in (0, service.engines), service.log()
    return read > 0


@ANY_ENGINES
def test_the_slot_is_left_while_it_is_stopped(warm: WarmService) -> None:
    ((name, active),) = slots(warm)
    assert active
    warm.running.stop()
    assert slots(warm) == [(name, False)]
    listed = upquery("slots", "--config", str(warm.running.config)).stdout
    assert name in listed
    write(warm)
    assert restarts_warm(warm)
    assert slots(warm) == [(name, True)]


@ANY_ENGINES
def test_a_service_that_is_not_persistent_leaves_nothing(own: Database, tmp_path: Path, engines: int) -> None:
    settings: dict[str, dict[str, Any]] = {"state": {}}
    with (
        empty_database(own.server) as database,
        filled_service(database, tmp_path, settings=settings, engines=engines) as service,
    ):
        service.running.stop()
        assert slots(service) == []
        assert service.checkpoints == []


def test_a_slot_that_is_not_used_any_more_is_dropped(warm: WarmService) -> None:
    """Also by a service that uses a temporary one."""
    warm.running.stop()
    warm.settings["cdc"] = {"slot": "temporary"}
    assert not restarts_warm(warm)
    ((name, active),) = slots(warm)
    assert active
    assert name.startswith("upquery_")
    warm.running.stop()
    assert slots(warm) == []


def drop(service: WarmService) -> None:
    service.database.drop_slots()


def create_again(service: WarmService) -> None:
    ((name, _),) = slots(service)
    service.database.drop_slots()
    write(service)
    service.database.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")


def advance(service: WarmService) -> None:
    """Somebody else has read from it."""
    write(service)
    service.database.execute(
        "SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) FROM pg_replication_slots"
    )


def invalidate(service: WarmService) -> None:
    database = service.database
    database.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")

    def is_gone() -> bool:
        database.execute(
            "SELECT pg_logical_emit_message(false, 'test', repeat('x', 20000000))",
            "SELECT pg_switch_wal()",
            "CHECKPOINT",
        )
        return not database.query("SELECT FROM pg_replication_slots WHERE wal_status IN ('reserved', 'extended')")

    until(is_gone)
    database.execute("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")


def unlimit(service: WarmService) -> None:
    service.database.execute("ALTER SYSTEM SET max_slot_wal_keep_size = -1", "SELECT pg_reload_conf()")


@ANY_ENGINES
@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (drop, "was dropped"),
        (create_again, "was created again"),
        (advance, "was created again"),
        (invalidate, "has invalidated the slot"),
        (unlimit, "does not limit any more"),
    ],
)
def test_a_slot_that_lacks_something(warm: WarmService, happens: Callable[[WarmService], None], why: str) -> None:
    warm.running.stop()
    happens(warm)
    write(warm)
    try:
        assert not restarts_warm(warm)
    finally:
        warm.database.execute("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")
    assert why in warm.log()


def kill(database: Database) -> None:
    pid = database.server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))
    # Its processes end when they notice.
    until(lambda: starts(database))


def starts(database: Database) -> bool:
    try:
        database.server.start()
    except RuntimeError:
        return False
    return True


@ANY_ENGINES
@pytest.mark.parametrize("fail", [restart, crash, kill])
def test_the_server_fails_while_it_is_stopped(warm: WarmService, fail: Callable[[Database], None]) -> None:
    """Commits that were not flushed, and that the service may have seen, are gone; other ones get their ids."""
    database = warm.database
    assert isinstance(database, Database)
    with unflushed_writes(database):
        warm.running.stop()
    database.execute("SET synchronous_commit = off; UPDATE stories SET title = 'undone', author = 0")
    fail(database)
    undone = ("undone",) not in database.query("SELECT title FROM stories")
    # The server may have written it of its own accord before it failed.
    assert not (undone and fail is restart)
    write(warm)
    assert restarts_warm(warm)


@contextmanager
def unflushed_writes(database: Database) -> Iterator[None]:
    """Somebody writes within the block, without waiting for flushes."""
    ended = threading.Event()

    def work() -> None:
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = off")
            while not ended.is_set():
                connection.execute("UPDATE stories SET title = title || '.' WHERE id = 1 + random() * 39")
                connection.execute("INSERT INTO votes (story, voter) VALUES (1 + random() * 39, 1)")

    writer = threading.Thread(target=work)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


@ANY_ENGINES
def test_transactions_that_are_open_during_the_restart(warm: WarmService) -> None:
    """Their changes are in the stream when they commit. Nothing waits for them."""
    with psycopg.connect(warm.database.url) as one, psycopg.connect(warm.database.url) as other:
        one.execute("UPDATE stories SET title = 'one', author = 3 WHERE id IN (1, 2)")
        other.execute("INSERT INTO votes (story, voter) VALUES (1, 1), (2, 2)")
        warm.running.call("POST", "/v1/evict", json={"state_bytes": 1 << 40}).raise_for_status()
        until(lambda: warm.hits("story", 1) and warm.hits("counted", 2))
        warm.running.stop()
        one.execute("UPDATE stories SET score = 77 WHERE id = 3")
        warm.restart()
        assert warm.hits("story", 1)
        assert not warm.hits("story", 5)
        until(lambda: warm.hits("story", 5) and warm.hits("voted", 3))
        one.execute("UPDATE stories SET title = 'later' WHERE id = 5")
        one.commit()
        other.rollback()
    warm.compare()
    warm.fill()
    warm.compare()


@ANY_ENGINES
def test_a_table_that_is_followed_anew_waits_for_open_transactions(warm: WarmService) -> None:
    """The stream lacks rows that these had written before the table was published."""
    database = warm.database
    database.execute("CREATE TABLE newer (id int PRIMARY KEY, n int)", "INSERT INTO newer VALUES (1, 1), (2, 2)")
    warm.running.stop()
    with psycopg.connect(database.url) as writer:
        writer.execute("UPDATE newer SET n = 10")
        newer = {"newer": ("SELECT id, n FROM newer WHERE id = :key", range(1, 3))}
        warm.restart({**warm.views, **newer})
        assert warm.hit_rate(*warm.dialect.views) == 1.0
        assert [warm.running.rows("newer", key=1) for _ in range(2)] == 2 * [[{"id": 1, "n": 1}]]
        writer.execute("UPDATE newer SET n = n + 1 WHERE id = 2")
        writer.commit()
    until(lambda: warm.hits("newer", 1) and warm.hits("newer", 2))
    warm.compare()


@ANY_ENGINES
def test_a_commit_that_no_snapshot_sees(own: Database, tmp_path: Path, engines: int) -> None:
    """A commit waits for a standby that does not exist: it is in the log, and applied, and not visible. Lookups after a
    restart could miss it, so the cache begins empty."""
    with empty_database(own.server) as database, filled_service(database, tmp_path, engines=engines) as warm:
        database.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
        ended = threading.Event()

        def write_until_one_waits() -> None:
            # The server takes the setting over a moment later.
            while not ended.is_set():
                database.execute("UPDATE stories SET title = title || '.'")

        writer = threading.Thread(target=write_until_one_waits)
        writer.start()
        try:
            until(lambda: database.query("SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
            ended.set()
            ((visible,),) = database.query("SELECT title FROM stories WHERE id = 1")
            until(lambda: warm.running.rows("story", key=1)[0]["title"] == f"{visible}.")
            assert database.query("SELECT title FROM stories WHERE id = 1") == [(visible,)]
            warm.running.stop()
            assert warm.checkpoints == []
            assert "commits wait for a standby" in warm.log()
            assert slots(warm) == []
        finally:
            ended.set()
            database.execute("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")
            writer.join()
        assert not restarts_warm(warm)


def test_the_publication_is_made_anew(warm: WarmService) -> None:
    """Changes are missing in the stream from the time when there was none."""
    warm.running.stop()
    warm.database.execute(
        "DROP PUBLICATION upquery",
        "UPDATE stories SET title = 'unpublished'",
        "CREATE PUBLICATION upquery FOR TABLE stories, votes",
    )
    restarts_warm(warm)
    until(lambda: warm.hits("story", 1))
    warm.compare()


def test_the_publication_omits_operations_for_a_while(warm: WarmService) -> None:
    warm.running.stop()
    warm.database.execute(
        "ALTER PUBLICATION upquery SET (publish = 'insert')",
        "UPDATE stories SET title = 'unpublished'",
        "ALTER PUBLICATION upquery SET (publish = 'insert, update, delete, truncate')",
    )
    assert restarts_warm(warm)
    assert '"changed_tables": []' not in warm.log()


def test_a_schema_leaves_the_publication_for_a_while(own: Database, tmp_path: Path) -> None:
    own.require(15, "publication of schemas")
    with empty_database(own.server) as database:
        database.execute("CREATE PUBLICATION upquery FOR TABLES IN SCHEMA public")
        with filled_service(database, tmp_path) as warm:
            warm.running.stop()
            database.execute(
                "ALTER PUBLICATION upquery DROP TABLES IN SCHEMA public",
                "UPDATE stories SET title = 'unpublished'",
                "ALTER PUBLICATION upquery ADD TABLES IN SCHEMA public",
            )
            restarts_warm(warm)


def test_a_partition_is_detached_for_a_while(own: Database, tmp_path: Path) -> None:
    """Changes of a partition that is detached are not in the stream."""
    with empty_database(own.server) as database:
        database.execute(
            "CREATE TABLE parted (id int, part int, n int, PRIMARY KEY (id, part)) PARTITION BY LIST (part)",
            "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1)",
            "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2)",
            "INSERT INTO parted SELECT i, 1 + i % 2, i FROM generate_series(1, 20) i",
        )
        views = {"parts": ("SELECT id, n FROM parted WHERE part = :key", range(1, 3))}
        with filled_service(database, tmp_path, views) as service:
            service.running.stop()
            database.execute(
                "ALTER TABLE parted DETACH PARTITION parted_2",
                "UPDATE parted_2 SET n = -n",
                "ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES IN (2)",
            )
            assert restarts_warm(service)


def test_tables_that_were_rewritten_before(warm: WarmService) -> None:
    """A table's file is another one since it was followed: that is no change while the service was stopped."""
    warm.database.execute("VACUUM FULL stories", "TRUNCATE votes", "INSERT INTO votes (story, voter) VALUES (1, 1)")
    warm.compare()
    warm.fill()
    warm.running.stop()
    assert restarts_warm(warm)
    assert warm.hit_rate() == 1.0
    assert '"changed_tables": []' in warm.log()


@ANY_ENGINES
def test_another_server(warm: WarmService) -> None:
    """Database and slot have the same names there, and the log is at another position."""
    ((name, _),) = slots(warm)
    warm.running.stop()
    database = warm.database
    assert isinstance(database, Database)
    other = start_server()
    try:
        there = Database(database.name, other.database_url(database.name), other)
        Database("postgres", other.url, other).execute(f'CREATE DATABASE "{database.name}"')
        there.execute(*warm.dialect.tables, "UPDATE stories SET title = 'elsewhere'")
        there.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
        warm.database = there
        assert not restarts_warm(warm)
        assert "Another database server" in warm.log()
    finally:
        warm.running.stop()
        warm.database = database
        discard_server(other)


@ANY_ENGINES
def test_an_older_copy_of_the_server(tmp_path: Path, engines: int) -> None:
    """System, timeline and slot are the same, and its log has grown beyond the checkpoint again."""
    server = start_server()
    database = Database("postgres", server.url, server)
    data, copy = server.log.parent / "data", server.log.parent / "copy"
    try:
        with filled_service(database, tmp_path, engines=engines) as warm:
            server.stop("fast")
            shutil.copytree(data, copy, symlinks=True)
            _own_as(data, copy)
            server.start()
            write(warm)
            database.execute("UPDATE stories SET title = 'of a lost future' WHERE id < 30")
            warm.compare()
            warm.fill()
            warm.running.stop()
            assert warm.checkpoints
            server.stop("fast")
            shutil.rmtree(data)
            copy.rename(data)
            server.start()
            database.execute(
                "UPDATE stories SET title = 'of another future' WHERE id > 20",
                "SELECT pg_logical_emit_message(true, 'test', repeat('x', 10000000))",
            )
            assert [active for _, active in slots(warm)] == [False]
            assert not restarts_warm(warm)
            assert "older copy" in warm.log()
    finally:
        discard_server(server)


def _own_as(original: Path, copy: Path) -> None:
    """Gives a copy the owner of the original."""
    if os.geteuid() == 0:
        owner = original.stat()
        for path in (copy, *copy.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


@ANY_ENGINES
def test_a_role_without_the_right_to_write_messages(own: Database, tmp_path: Path, engines: int) -> None:
    """The last transaction before the stop serves as well, if there is one."""
    with empty_database(own.server) as database:
        database.execute(
            "DROP ROLE IF EXISTS app",
            "CREATE ROLE app LOGIN REPLICATION",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO app",
            "CREATE PUBLICATION upquery FOR ALL TABLES",
            "REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text, boolean) FROM PUBLIC"
            if own.version >= 17
            else "REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) FROM PUBLIC",
        )
        url = {"upstream": {"url": database.url.replace("postgres@", "app@")}}
        try:
            with filled_service(database, tmp_path, settings=url, engines=engines) as service:
                with service.writing() as written:
                    until(lambda: written() > 50)
                    service.running.stop()
                assert service.checkpoints, service.log()
                assert restarts_warm(service)
        finally:
            database.execute("DROP OWNED BY app", "DROP ROLE app")


@ANY_ENGINES
def test_misses_right_after_the_restart(warm: WarmService) -> None:
    """Reads of keys that were not in memory, while the stream catches up."""
    warm.running.call("POST", "/v1/evict", json={"state_bytes": 1 << 40}).raise_for_status()
    with warm.writing() as written:
        warm.running.stop()
        before = written()
        until(lambda: written() > before + 100)
        warm.restart()
        for name, key in warm.keys_of():
            given = {} if key is None else {"key": key}
            assert warm.running.read(name, PATIENT, **given).status_code == 200
    warm.compare()
