"""A service that cannot start says why and what to do, in one message, and leaves nothing behind."""

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.service import NotReadyError, RunningService, command, environment

pytestmark = pytest.mark.postgres

STORY = "SELECT id FROM stories WHERE id = :id"


def why_not(directory: Path, url: str, **sections: dict[str, object]) -> str:
    """Return the error of a service that does not start."""
    service = RunningService(directory, url, **sections)
    try:
        with pytest.raises(NotReadyError) as failure:
            service.start()
        assert service.stop() == 1
        assert list(service.run.iterdir()) == []
    finally:
        service.discard()
    log = service.log.read_text()
    assert "Traceback" not in log, log
    return str(failure.value)


@pytest.fixture(scope="module")
def server_without_logical_wal() -> Iterator[EmbeddedPostgres]:
    server = start_server({"wal_level": "replica"})
    yield server
    discard_server(server)


def test_no_logical_wal(server_without_logical_wal: EmbeddedPostgres, tmp_path: Path) -> None:
    message = why_not(tmp_path, server_without_logical_wal.url)
    assert "wal_level" in message
    assert "logical" in message


def test_wrong_credentials(database: Database, tmp_path: Path) -> None:
    message = why_not(tmp_path, database.url.replace("postgres@", "nobody_of_this_name:secret@"))
    assert "nobody_of_this_name" in message
    assert "secret" not in message


def test_no_such_database(database: Database, tmp_path: Path) -> None:
    assert "no_such_database" in why_not(tmp_path, database.url.replace(database.name, "no_such_database"))


def test_unreachable_host(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        message = why_not(tmp_path, f"postgresql://app@127.0.0.1:{port}/app")
    assert str(port) in message or "connect" in message


def test_a_role_without_replication(database: Database, tmp_path: Path) -> None:
    role = f"reader_{database.name}"
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
    try:
        message = why_not(tmp_path, database.url.replace("postgres@", f"{role}@"))
        assert "REPLICATION" in message
    finally:
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute(f"DROP ROLE {role}")


def test_a_port_in_use(database: Database, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = why_not(tmp_path, database.url, http={"port": port, "admin_port": 0})
    assert str(port) in message
    assert "UPQUERY_HTTP__PORT" in message


def test_a_view_in_both_places(database: Database, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "views.json").write_text('{"format": 1, "views": [{"name": "story", "sql": "SELECT 1"}]}')
    service = RunningService(tmp_path, database.url, {"story": STORY})
    try:
        with pytest.raises(NotReadyError, match="story"):
            service.start()
        assert service.stop() == 1
    finally:
        service.discard()


def run_serve(tmp_path: Path, toml: str, **variables: str) -> subprocess.CompletedProcess[str]:
    config = tmp_path / "upquery.toml"
    config.write_text(toml)
    return subprocess.run(
        command("serve", "--config", str(config)),
        capture_output=True,
        text=True,
        env=environment(**variables),
        timeout=60,
        check=False,
    )


def test_an_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    done = run_serve(tmp_path, '[upstream]\nurl = "postgresql://a@b/c"\n[http]\nprot = 1\n')
    assert done.returncode == 2
    assert "http.prot" in done.stderr
    assert "'port'" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_variable_names_the_nearest(tmp_path: Path) -> None:
    done = run_serve(tmp_path, '[upstream]\nurl = "postgresql://a@b/c"\n', UPQUERY_HTP__PORT="1")
    assert done.returncode == 2
    assert "UPQUERY_HTTP__PORT" in done.stderr


def test_another_machine_may_not_reach_it(tmp_path: Path) -> None:
    done = run_serve(tmp_path, '[upstream]\nurl = "postgresql://a@b/c"\n[http]\nhost = "0.0.0.0"\n')
    assert done.returncode == 2
    assert "127.0.0.1" in done.stderr


@pytest.mark.parametrize("mode", ["", "&sslmode=disable"], ids=["default", "chosen"])
def test_a_server_elsewhere_that_is_not_verified_is_in_the_log(database: Database, tmp_path: Path, mode: str) -> None:
    """Once, unless the URL says how it is to be. libpq connects to `hostaddr`; who has to answer is `host`."""
    url = f"{database.url.replace('127.0.0.1', 'db.internal')}?hostaddr=127.0.0.1{mode}"
    service = RunningService(tmp_path, url, log={"format": "json"})
    try:
        service.start()
    finally:
        service.discard()
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    warnings = [line for line in lines if line["event"].startswith("the database server is not verified")]
    expected = [] if mode else [("warning", "supervisor", "db.internal", "[upstream] url")]
    assert [(line["level"], line["process"], line["host"], line["setting"]) for line in warnings] == expected
    assert all("sslmode=verify-full&sslrootcert=" in line["hint"] for line in warnings)


def test_a_broken_view_does_not_keep_the_others_away(database: Database, tmp_path: Path) -> None:
    database.execute("CREATE TABLE stories (id int PRIMARY KEY)", "ALTER TABLE stories REPLICA IDENTITY FULL")
    views = {"story": STORY, "wrong": "SELECT id FROM nowhere WHERE id = :id"}
    service = RunningService(tmp_path, database.url, views, cold=True)
    try:
        service.start()
        assert service.rows("story", id=1) == []
        problem = service.read("wrong", id=1)
        assert problem.status_code == 503
        assert problem.json()["code"] == "view_broken"
        assert "nowhere" in problem.json()["detail"]
        assert service.call("GET", "/readyz").json()["broken"].keys() == {"wrong"}
        assert service.call("GET", "/readyz?strict=1").status_code == 503
    finally:
        service.discard()
