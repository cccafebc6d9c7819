"""The command line against a running service, and without one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import RunningService, running_service, upquery

STORY = "SELECT id, title FROM stories WHERE id = :id"


@pytest.fixture(scope="module")
def service(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    module_database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, '[b]title ' || i FROM generate_series(1, 30) i",
    )
    directory = tmp_path_factory.mktemp("cli") / "service"
    with running_service(directory, module_database.url, {"story": STORY}) as running:
        yield running


def at(service: RunningService) -> dict[str, str]:
    return {"UPQUERY_URL": service.http, "UPQUERY_ADMIN_URL": service.admin}


@pytest.mark.postgres
def test_a_view_from_put_to_drop(service: RunningService, tmp_path: Path) -> None:
    file = tmp_path / "view.sql"
    file.write_text(STORY)
    assert upquery("view", "put", "mine", str(file), **at(service)).returncode == 0
    limited = upquery(
        "view", "put", "mine", "-", "-o", "limit_rows=10", "-o", "on_miss=forward", **at(service), given=STORY
    )
    assert limited.returncode == 0
    assert service.view("mine")["options"]["limit_rows"] == 10
    assert upquery("view", "put", "mine", "-", "-o", "limit_rows", **at(service), given=STORY).returncode == 2
    again = upquery("view", "put", "mine", "-", "--create", **at(service), given=STORY)
    assert again.returncode == 1
    assert "already" in again.stderr
    listed = upquery("view", "list", "--json", **at(service))
    assert {view["name"] for view in json.loads(listed.stdout)} == {"mine", "story"}
    table = upquery("view", "list", **at(service))
    assert "mine" in table.stdout
    assert "ready" in table.stdout
    got = upquery("view", "get", "mine", "id=7", "--json", **at(service))
    assert json.loads(got.stdout)["rows"] == [{"id": 7, "title": "[b]title 7"}]
    assert "[b]title 7" in upquery("view", "get", "mine", "id=7", **at(service)).stdout
    assert "lookup: " in upquery("view", "explain", "mine", **at(service)).stdout
    assert upquery("view", "explain", "mine", "--dot", **at(service)).stdout.startswith("digraph")
    assert upquery("view", "drop", "mine", **at(service)).returncode == 0
    gone = upquery("view", "get", "mine", "id=7", **at(service))
    assert gone.returncode == 1
    assert "mine" in gone.stderr
    document = json.loads(upquery("openapi", **at(service)).stdout)
    assert "/v1/views/story" in document["paths"]


@pytest.mark.postgres
def test_mistakes_say_where(service: RunningService, tmp_path: Path) -> None:
    wrong = upquery("view", "put", "wrong", "-", **at(service), given="SELECT id\nFROM nowhere WHERE id = :id")
    assert wrong.returncode == 1
    assert "line 2" in wrong.stderr
    assert "nowhere" in wrong.stderr
    assert upquery("view", "get", "story", "id", **at(service)).returncode == 2
    assert upquery("view", "put", "wrong", str(tmp_path / "missing.sql"), **at(service)).returncode == 2
    ill = upquery("view", "get", "story", "id=seven", "--json", **at(service))
    assert json.loads(ill.stdout)["code"] == "parameter_type"


def test_without_a_service() -> None:
    done = upquery("view", "list", "--admin", "http://127.0.0.1:1", cold=True)
    assert done.returncode == 1
    assert "upquery serve" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_gateway_that_cannot_start_says_why(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text("[gateway]\nshardss = 2\n")
    done = upquery("serve", "--role", "gateway", "--config", str(config), cold=True)
    assert done.returncode == 2
    assert "Did you mean 'shards'" in done.stderr


def test_help_and_usage() -> None:
    shown = upquery("--help", cold=True)
    assert shown.returncode == 0
    for name in ("serve", "view", "demo", "bench", "openapi"):
        assert name in shown.stdout
    assert upquery("view", "put", cold=True).returncode == 2
    assert upquery("nonsense", cold=True).returncode == 2
