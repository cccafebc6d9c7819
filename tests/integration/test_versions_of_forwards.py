"""The database's own answers, while a commit waits for a standby: the stream has it, no snapshot does yet."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.service import HTTP, RunningService, running_service, until

pytestmark = pytest.mark.postgres

ITEM = "SELECT id, name FROM items WHERE id = :id"
QUERY = {"sql": "SELECT name AS said, id FROM items WHERE id = 7"}
#: Not in the stream: no view reads it.
BESIDE = {"sql": "SELECT id FROM beside"}


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    server = start_server()
    try:
        yield Database("postgres", server.url, server)
    finally:
        discard_server(server)


@pytest.fixture(scope="module")
def service(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    database.execute(
        "CREATE TABLE items (id int PRIMARY KEY, name text)",
        "ALTER TABLE items REPLICA IDENTITY FULL",
        "CREATE TABLE beside (id int)",
    )
    directory: Path = tmp_path_factory.mktemp("forwards")
    adhoc = {"enabled": True, "install_after": 0}
    http = {"read_timeout_s": 2.0}
    with running_service(directory, database.url, {"item": ITEM}, adhoc=adhoc, http=http) as running:
        options = {"sql": ITEM, "max_lag_ms": 1, "on_lag": "forward"}
        running.call("PUT", "/v1/catalog/views/current", json=options).raise_for_status()
        until(lambda: running.read("item", id=1).status_code == 200 and running.hits("item", id=1))
        yield running


@contextmanager
def no_standby(database: Database) -> Iterator[None]:
    """Commits wait for a standby that there is not, until the end of the block."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        try:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            connection.execute("SELECT pg_reload_conf()")
            until(lambda: database.query("SHOW synchronous_standby_names") == [("nobody",)])
            yield
        finally:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            connection.execute("SELECT pg_reload_conf()")


def adhoc(service: RunningService, query: dict[str, Any], **headers: str) -> httpx.Response:
    return HTTP.post(f"{service.http}/v1/query", json=query, headers=headers)


def answers(service: RunningService, headers: dict[str, str]) -> list[httpx.Response]:
    """Read one key in every way past the store, at the same time."""
    posted = {
        "/v1/query": QUERY,
        "/v1/views/current/query": {"keys": [{"id": 7}]},
        "/v1/read": {"reads": [{"view": "current", "params": {"id": 7}}]},
    }
    with ThreadPoolExecutor(len(posted)) as pool:
        asked = [
            pool.submit(HTTP.post, service.http + path, json=body, headers=headers) for path, body in posted.items()
        ]
        return [service.read("current", headers, id=7), *(each.result() for each in asked)]


def rows_of(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    body = response.json()
    rows: list[dict[str, Any]] = body["rows"] if "rows" in body else body["results"][0]["rows"]
    return rows


def test_answers_past_the_store_tell_no_version(service: RunningService, database: Database) -> None:
    """With a version that has a row, there is no answer before it shows that row."""
    until(lambda: service.rows("item", id=7) == [] and service.hits("item", id=7))
    with ThreadPoolExecutor(1) as pool:
        with no_standby(database):
            waiting = pool.submit(database.execute, "INSERT INTO items VALUES (7, 'seven')")
            hit = until(lambda: (r := service.read("item", id=7)).json()["rows"] and r)
            assert "; hit" in hit.headers["cache-status"]
            for answer in answers(service, {}):
                assert rows_of(answer) == []
                assert answer.json()["version"] is None
                assert "upquery-version" not in answer.headers
                assert "fwd" in answer.headers["cache-status"]
            minimum = {"Upquery-Min-Version": hit.json()["version"], "Prefer": "wait=1"}
            for answer in answers(service, minimum):
                assert answer.status_code == 504, answer.text
                assert answer.json()["code"] == "version_timeout"
        waiting.result()
        # Whoever writes meanwhile, and has not ended, is not waited for.
        with psycopg.connect(database.url) as writer:
            writer.execute("INSERT INTO items VALUES (8, 'eight')")
            for answer in answers(service, minimum | {"Prefer": "wait=20"}):
                assert rows_of(answer)[0]["id"] == 7
                assert answer.json()["version"] is None
            assert rows_of(adhoc(service, BESIDE, **minimum)) == []
            writer.rollback()


def test_a_checkpoint_has_what_an_answer_without_a_version_showed(service: RunningService, database: Database) -> None:
    database.execute("INSERT INTO items VALUES (9, 'nine')")
    assert len(rows_of(service.read("current", id=9))) == 1
    version = HTTP.post(f"{service.http}/v1/checkpoint").json()["version"]
    assert len(rows_of(service.read("item", {"Upquery-Min-Version": version, "Prefer": "wait=20"}, id=9))) == 1
