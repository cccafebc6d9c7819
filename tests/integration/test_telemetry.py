"""Telemetry of a running service: metrics, traces, the access log, its log; no secret is in any of them."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.fixtures.otlp import Receiver, receiving
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, running_service, until
from tests.tidy.sources import ROOT

pytestmark = pytest.mark.postgres

STORY = "SELECT id, title FROM stories WHERE id = :id"
VOTES = "SELECT s.id, COUNT(v.id) FROM stories s LEFT JOIN votes v ON v.story = s.id WHERE s.id = :id GROUP BY s.id"
TRACE = "0af7651916cd43dd8448eb211c80319c"
SECRET = "a-secret-that-nobody-may-see"
#: While something is loaded, or a table does not answer.
AT_TIMES = {
    "upquery_load_progress_rows",
    "upquery_load_expected_rows",
    "upquery_load_left_rows",
    "upquery_sharded_requests_total",
    "upquery_table_resting",
}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture(scope="module")
def service(
    module_database: Database, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    module_database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text, was text)",
        "CREATE TABLE votes (id int PRIMARY KEY, story int NOT NULL)",
        "INSERT INTO stories SELECT i, 'story ' || i, '' FROM generate_series(1, 100) i",
        "INSERT INTO votes SELECT i, i % 100 + 1 FROM generate_series(1, 300) i",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "ALTER TABLE votes REPLICA IDENTITY FULL",
    )
    directory = tmp_path_factory.mktemp("telemetry")
    sections: dict[str, dict[str, Any]] = {
        "access_log": {"path": str(directory / "reads"), "rotate_s": 0.1},
        "traces": {"endpoint": receiver.url, "sample_rate": 0.0},
        "log": {"format": "json", "slow_ms": 0},
    }
    views = {"story": STORY, "votes": VOTES, "was": "SELECT was FROM stories WHERE id = :id"}
    with running_service(directory / "service", module_database.url, views, **sections) as running:
        yield running


def metric_names(service: RunningService) -> set[str]:
    text = service.call("GET", "/metrics").text
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


def worker_of(service: RunningService) -> dict[str, Any]:
    found: dict[str, Any] = service.stats()["worker_processes"].get("0", {})
    return found


def test_every_metric_is_documented_and_every_documented_one_is_there(service: RunningService) -> None:
    service.rows("story", id=1)
    assert service.read("nothing", id=1).status_code == 404
    until(lambda: worker_of(service).get("problems"))
    document = (ROOT / "docs" / "telemetry.md").read_text()
    table = document.partition("## Metrics")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`(upquery_[a-z_]+)[`{]", table))
    assert metric_names(service) == documented - AT_TIMES
    assert documented >= AT_TIMES


def test_every_line_of_the_log_is_json_and_abuse_makes_few(service: RunningService) -> None:
    """Requests that are not HTTP, or offer other protocols, are not logged line by line."""
    address = (urlsplit(service.http).hostname, urlsplit(service.http).port)
    upgrade = b"Host: %b\r\nConnection: upgrade\r\nUpgrade: %b\r\n%b\r\n"
    attacks = [
        b"\x16\x03\x01",
        b"GET / HTTP/9\r\n\r\n",
        b"GET /v1/views/story?id=1 HTTP/1.1\r\n" + upgrade % (b"localhost", b"foo", b""),
        b"GET /v1/subscribe HTTP/1.1\r\n" + upgrade % (b"a#b", b"websocket", b""),
        b"GET /v1/subscribe HTTP/1.1\r\n" + upgrade % (b"localhost", b"websocket", b"Sec-WebSocket-Version: x\r\n"),
    ]
    for attack in attacks * 40:
        with socket.create_connection(address) as client:
            client.sendall(attack)
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):
                pass
    for _ in range(40):
        assert service.read("was", id="x").status_code == 422
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    assert all(line["timestamp"] and line["level"] and line["process"] and line["event"] for line in lines)
    assert len([line for line in lines if "request_id" not in line]) < 60


def test_what_a_worker_counts(service: RunningService) -> None:
    before = worker_of(service).get("requests", 0)
    service.rows("story", id=2)
    assert service.read("story", idd=1).status_code == 422
    until(
        lambda: worker_of(service)["requests"] >= before + 2 and worker_of(service)["problems"].get("parameter_unknown")
    )
    metrics = service.call("GET", "/metrics").text
    assert re.search(
        r'^upquery_http_problems_total\{code="parameter_unknown",worker="0"\} [1-9]', metrics, re.MULTILINE
    )
    assert re.search(r'^upquery_wire_requests_total\{operation="fill",worker="0"\} [1-9]', metrics, re.MULTILINE)


def logged(directory: Path) -> list[dict[str, Any]]:
    files = sorted((directory.parent / "reads").glob("access-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_reads_are_in_the_access_log(service: RunningService) -> None:
    secret = {"authorization": f"Bearer {SECRET}"}
    for _ in range(3):
        assert service.read("story", headers=secret, id=77).status_code == 200
    HTTP.post(f"{service.http}/v1/read", json={"reads": [{"view": "story", "params": {"id": 77}}]}).raise_for_status()

    def lines() -> list[dict[str, Any]]:
        return [line for line in logged(service.directory) if line["key"] == ["77"]]

    until(lambda: len(lines()) == 4)
    assert [line["outcome"] for line in lines()] == ["miss", "hit", "hit", "hit"]
    assert {line["rows_bytes"] for line in lines()} == {len('[{"id":77,"title":"story 77"}]')}
    until(lambda: worker_of(service)["access_log"]["lines"] >= 4)
    assert worker_of(service)["access_log"]["dropped"] == 0
    service.put("kept", STORY).raise_for_status()
    written = [*service.directory.parent.glob("reads/*"), *(service.directory / "state").iterdir()]
    assert len(written) >= 2
    assert not [path for path in written if path.stat().st_mode & 0o077], "others may read it"


def test_a_request_is_followed_through_the_engine_to_its_lookups(service: RunningService, receiver: Receiver) -> None:
    parent = f"00-{TRACE}-b7ad6b7169203331-01"
    assert service.read("votes", headers={"traceparent": parent}, id=5).status_code == 200
    names = {"GET /v1/views/{view}", "ask engine fill", "engine fill", "lookups"}
    until(lambda: names <= {span.name for span in receiver.of(TRACE)})
    by_name = {span.name: span for span in receiver.of(TRACE)}
    request, question = by_name["GET /v1/views/{view}"], by_name["ask engine fill"]
    read, lookups = by_name["engine fill"], by_name["lookups"]
    assert (request.process, request.parent) == ("worker-0", "b7ad6b7169203331")
    assert (question.process, question.parent) == ("worker-0", request.id)
    assert (read.process, read.parent) == ("engine", question.id)
    # Each finds one row at most: they run together.
    assert (lookups.process, lookups.parent) == ("engine", read.id)
    assert lookups.attributes["db.collection.name"] == "public.stories, public.votes"
    assert request.took_ns >= question.took_ns >= read.took_ns
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["upquery.view"] == "votes"


def test_what_does_not_ask_to_be_traced_is_not(service: RunningService, receiver: Receiver) -> None:
    unsampled, sampled = "1" * 32, "2" * 32
    service.read("votes", headers={"traceparent": f"00-{unsampled}-b7ad6b7169203331-00"}, id=6)
    service.read("votes", headers={"traceparent": "nonsense"}, id=7)
    service.read("votes", id=8)
    service.read("votes", headers={"traceparent": f"00-{sampled}-b7ad6b7169203331-01"}, id=8)
    (hit,) = until(lambda: receiver.of(sampled))
    assert hit.attributes["upquery.cache_status"] == "upquery; hit"
    assert receiver.traces() <= {sampled, TRACE}


def lines_of_log(service: RunningService, event: str, request: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in service.log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("event") == event and line.get("request_id") == request]


def test_slow_requests_and_failures_are_logged_with_the_id_that_the_client_has(
    service: RunningService, module_database: Database
) -> None:
    slow = service.read("story", headers={"x-request-id": "mine:1", "authorization": f"Bearer {SECRET}"}, id=33)
    assert slow.headers["x-request-id"] == "mine:1"
    (line,) = until(lambda: lines_of_log(service, "request was slow", "mine:1"))
    assert (line["path"], line["status"], line["process"]) == ("/v1/views/story", 200, "worker-0")
    assert "x-request-id" not in service.read("story", headers={"x-request-id": "mine:2"}, id=33).headers

    module_database.execute("ALTER TABLE stories DROP COLUMN was")
    until(lambda: service.view("was")["status"] == "broken")
    broken = service.read("was", headers={"x-request-id": "in valid"}, id=1)
    assert broken.status_code == 503
    request = broken.headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{16}", request)
    (line,) = until(lambda: lines_of_log(service, "request failed", request))
    assert line["code"] == "view_broken"
    assert line["reason"] == broken.json()["detail"]

    # The console shows errors of all processes.
    until(lambda: request in str(service.stats()["recent_errors"]))
    errors = service.stats()["recent_errors"]
    assert {error["process"] for error in errors} >= {"engine", "worker-0"}
    assert errors == sorted(errors, key=lambda error: error["at"], reverse=True)


def test_no_token_is_in_what_is_written(service: RunningService, receiver: Receiver) -> None:
    written = service.log.read_text() + "".join(
        path.read_text() for path in (service.directory.parent / "reads").iterdir()
    )
    spans = [span.attributes for trace in receiver.traces() for span in receiver.of(trace)]
    assert SECRET not in written + str(spans) + json.dumps(service.stats()) + service.call("GET", "/metrics").text
