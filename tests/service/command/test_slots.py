"""``upquery slots``: the slots of Upquery, and removal of those that are not in use."""

import json
from pathlib import Path

import psycopg
import pytest

from cdc.postgres.slot import slot_name
from tests.fixtures.postgres import Database
from tests.fixtures.service import until, upquery

pytestmark = pytest.mark.postgres


@pytest.fixture
def config(database: Database, tmp_path: Path) -> str:
    """Configuration over a database with two slots of Upquery, and one of others."""
    for name in ("upquery_one", "upquery_two", "other"):
        database.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
    path = tmp_path / "upquery.toml"
    path.write_text(f'[upstream]\nurl = "{database.url}"\n')
    return str(path)


def names(database: Database) -> list[str]:
    return [
        name
        for (name,) in database.query(
            "SELECT slot_name FROM pg_replication_slots WHERE database = current_database() ORDER BY 1"
        )
    ]


def test_slots_are_listed_with_the_log_that_they_hold(config: str) -> None:
    listed = json.loads(upquery("slots", "--json", "--config", config).stdout)["slots"]
    assert [(slot["name"], slot["active_pid"], slot["temporary"]) for slot in listed] == [
        ("upquery_one", None, False),
        ("upquery_two", None, False),
    ]
    assert all(slot["held_bytes"] >= 0 for slot in listed)
    assert "upquery_one" in upquery("slots", "--config", config).stdout


def test_named_slots_and_all_unused_ones_are_dropped(config: str, database: Database) -> None:
    assert upquery("slots", "drop", "upquery_two", "--config", config).returncode == 0
    assert names(database) == ["other", "upquery_one"]
    assert upquery("slots", "drop", "--config", config).returncode == 0
    assert names(database) == ["other"]


def test_a_slot_in_use_is_refused(config: str, database: Database) -> None:
    with psycopg.connect(database.url + "?replication=database", autocommit=True) as user:  # type: ignore[call-overload]
        user.pgconn.send_query(
            b"START_REPLICATION SLOT upquery_one LOGICAL 0/0 (proto_version '1', publication_names 'x')"
        )
        user.pgconn.flush()
        until(lambda: database.query("SELECT FROM pg_replication_slots WHERE slot_name = 'upquery_one' AND active"))
        refused = upquery("slots", "drop", "upquery_two", "upquery_one", "--config", config)
        assert refused.returncode == 1
        assert "upquery_one is in use by a running service" in refused.stderr
        assert names(database) == ["other", "upquery_one", "upquery_two"]
        user.pgconn.finish()
    assert upquery("slots", "drop", "nowhere", "--config", config).returncode == 1


def test_slots_of_removed_services(config: str, database: Database, tmp_path: Path) -> None:
    """They are named by host, state directory and database; others' are left alone, and one in use is waited for."""
    state = tmp_path / "state"
    Path(config).write_text(f'[upstream]\nurl = "{database.url}"\n[state]\ndirectory = "{state}"\n')
    name = slot_name("pod-1", state, database.url)
    database.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
    with psycopg.connect(database.url + "?replication=database", autocommit=True) as user:  # type: ignore[call-overload]
        user.pgconn.send_query(
            f"START_REPLICATION SLOT {name} LOGICAL 0/0 (proto_version '1', publication_names 'x')".encode()
        )
        user.pgconn.flush()
        until(lambda: database.query("SELECT FROM pg_replication_slots WHERE slot_name = %s AND active", name))
        refused = upquery("slots", "drop", "--host", "pod-1", "--wait", "0.5", "--config", config)
        assert refused.returncode == 1
        assert "still in use" in refused.stderr
        user.pgconn.finish()
    done = upquery("slots", "drop", "--host", "pod-0", "--host", "pod-1", "--json", "--config", config)
    assert json.loads(done.stdout) == {"dropped": [name]}
    assert names(database) == ["other", "upquery_one", "upquery_two"]


def test_another_database_has_no_slots(tmp_path: Path) -> None:
    path = tmp_path / "upquery.toml"
    path.write_text('[upstream]\nurl = "mariadb://app@localhost/app"\n')
    refused = upquery("slots", "--config", str(path))
    assert refused.returncode == 2
    assert "only PostgreSQL" in refused.stderr
    of_hosts = upquery("slots", "drop", "--host", "pod-0", "--json", "--config", str(path))
    assert json.loads(of_hosts.stdout) == {"dropped": []}


def test_doctor_reports_unused_slots(config: str) -> None:
    found = json.loads(upquery("doctor", "--json", "--config", config).stdout)
    reasons = [finding["reason"] for finding in found["findings"] if finding["code"] == "unused_slot"]
    assert len(reasons) == 2
    assert "upquery_one is not in use" in reasons[0]
