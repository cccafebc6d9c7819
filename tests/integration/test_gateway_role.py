"""A gateway's admin port over two services that are the two shards of one: views for all of them, whoever was away."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from service.gateway.homes import home_of
from service.web.auth.tokens import entry_text
from tests.fixtures.postgres import Database
from tests.fixtures.service import (
    HTTP,
    RunningGateway,
    RunningService,
    alive,
    processes_of,
    running_gateway,
    running_service,
    until,
)
from tests.integration.forty_stories import stories
from tests.tidy.sources import ROOT

pytestmark = pytest.mark.postgres
__all__ = ["stories"]

STORY = "SELECT id, title FROM stories WHERE id = :id"
TOKEN = "of-the-gateway"


@pytest.fixture(scope="module")
def pods(stories: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningService]]:
    directory = tmp_path_factory.mktemp("pods")
    with ExitStack() as running:
        found = []
        for number in (0, 1):
            shard = {"number": number, "of": 2}
            pod = running_service(directory / str(number), stories.url, {"story": STORY}, shard=shard)
            found.append(running.enter_context(pod))
            found[-1].keep_ports()
        yield found


@pytest.fixture(scope="module")
def gateway(pods: list[RunningService], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway"), [[pod] for pod in pods], cold=True) as running:
        yield running


def names(service: RunningService) -> set[str]:
    views = service.call("GET", "/v1/catalog/views").json()["views"]
    return {view["name"] for view in views if view["origin"] == "http"}


def metrics(service: RunningService) -> dict[str, float]:
    lines = service.call("GET", "/metrics").text.splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_views_are_those_of_all_pods(gateway: RunningGateway, pods: list[RunningService]) -> None:
    assert gateway.put("titles", "SELECT title FROM stories WHERE id = :id").status_code == 201
    assert [names(pod) for pod in pods] == [{"titles"}] * 2
    for n in range(1, 41):
        assert gateway.rows("titles", id=n) == [{"title": f"title {n}"}]
    until(lambda: gateway.view("titles")["counters"]["misses"] >= 40)
    assert gateway.call("GET", "/v1/catalog/views/titles/plan").json()["tier"] == "incremental"
    assert gateway.call("GET", "/v1/graph?shard=1").json()
    stats = gateway.stats()
    assert sorted(shard["shard"] for shard in stats["shards"]) == [0, 1]
    assert {(node["shard"], node["replica"]) for node in stats["nodes"]} == {(0, 0), (1, 0)}
    assert {worker.rpartition(".")[0] for worker in stats["worker_processes"]} == {"0.0", "1.0"}
    assert gateway.call("POST", "/v1/evict", json={"view": "titles"}).json()["keys"] == 40
    refused = gateway.put("broken", "SELECT nothing FROM nowhere")
    assert refused.status_code == 422
    assert [names(pod) for pod in pods] == [{"titles"}] * 2
    assert gateway.call("DELETE", "/v1/catalog/views/titles").status_code == 204
    assert [names(pod) for pod in pods] == [set()] * 2
    assert gateway.call("DELETE", "/v1/catalog/views/titles").status_code == 404


def test_keys_are_filled_where_they_are_read(gateway: RunningGateway, pods: list[RunningService]) -> None:
    keys = [[str(n)] for n in range(1, 41)]
    gateway.call("POST", "/v1/evict", json={"view": "story"}).raise_for_status()
    assert gateway.call("POST", "/v1/prewarm", json={"view": "story", "keys": keys}).json()["keys"] == 40

    def done() -> bool:
        filled: list[dict[str, Any]] = gateway.call("GET", "/v1/prewarm").json()["prewarmed"]
        return sum(each["filled"] for each in filled) == 40

    until(done)
    own = [sum(home_of(2, "story", {"id": key}) == shard for (key,) in keys) for shard in (0, 1)]
    assert [pod.view("story")["counters"]["covered_keys"] for pod in pods] == own
    for (key,) in keys:
        assert "hit" in gateway.read("story", id=key).headers["cache-status"]


def test_a_pod_that_was_away_gets_what_it_missed(gateway: RunningGateway, pods: list[RunningService]) -> None:
    assert gateway.put("early", "SELECT id FROM stories WHERE title = :title").status_code == 201
    assert gateway.put("dropped", "SELECT title FROM stories WHERE id = :id").status_code == 201
    # A pod that a busy machine made seem away has it a moment later.
    until(lambda: names(pods[1]) == {"early", "dropped"})
    children = processes_of(pods[1].pid)
    pods[1].stop(signal.SIGKILL)
    until(lambda: not any(map(alive, children)))
    until(lambda: metrics(gateway)['upquery_gateway_pod_up{replica="0",shard="1"}'] == 0)
    # What others can answer is answered, so nobody takes the gateway away.
    ready = gateway.call("GET", "/readyz")
    assert (ready.status_code, ready.json()["engine"]) == (200, False)
    assert gateway.put("late", "SELECT title FROM stories WHERE id = :id").status_code == 201
    assert gateway.call("DELETE", "/v1/catalog/views/dropped").status_code == 204
    assert names(pods[0]) == {"early", "late"}

    pods[1].start()
    assert "early" in names(pods[1])
    until(lambda: names(pods[1]) == {"early", "late"})
    until(lambda: gateway.call("GET", "/readyz").json()["engine"])
    for n in range(1, 41):
        until(lambda n=n: gateway.read("late", id=n).status_code == 200)  # type: ignore[misc]
        assert gateway.rows("late", id=n) == [{"title": f"title {n}"}]

    # Also what somebody told one pod only.
    assert pods[1].put("of_one", "SELECT id FROM stories WHERE id = :id").status_code == 201
    until(lambda: names(pods[0]) == {"early", "late", "of_one"})
    for name in ("early", "late", "of_one"):
        assert gateway.call("DELETE", f"/v1/catalog/views/{name}").status_code == 204
    assert [names(pod) for pod in pods] == [set()] * 2


def test_what_the_gateway_counts_is_documented(gateway: RunningGateway) -> None:
    assert HTTP.post(f"{gateway.http}/v1/read", content=b" " * (1 << 20) + b"{}").status_code == 413
    keys = [{"id": n} for n in range(1, 41)]
    assert HTTP.post(f"{gateway.http}/v1/views/story/query", json={"keys": keys}).status_code == 200
    document = (ROOT / "docs" / "gateway.md").read_text().partition("## Metrics")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`(upquery_[a-z_]+)[`{]", document))
    until(lambda: {name.partition("{")[0] for name in metrics(gateway)} >= documented)
    assert {name.partition("{")[0] for name in metrics(gateway)} == documented
    found = metrics(gateway)
    assert found['upquery_process_up{process="worker-0"}'] == 1
    assert found['upquery_gateway_pod_ready{replica="0",shard="0"}'] == 1
    assert found['upquery_gateway_shards{worker="0"}'] == 2
    assert "0" in gateway.stats()["gateway"]


def test_the_file_is_followed_also_by_who_is_started_again(gateway: RunningGateway, pods: list[RunningService]) -> None:
    # Any pod answers any key, so this is not wrong.
    gateway.follow([[pods[0]], [pods[1]], [pods[0], pods[1]]])
    try:
        until(lambda: 'upquery_gateway_pod_up{replica="1",shard="2"}' in metrics(gateway))
        until(lambda: metrics(gateway)['upquery_gateway_shards{worker="0"}'] == 3)
        assert gateway.rows("story", id=2) == [{"id": 2, "title": "title 2"}]
        served = until(lambda: metrics(gateway)['upquery_http_requests_total{worker="0"}'])
        gateway.config.write_text("of no use")
        (worker,) = processes_of(gateway.pid)
        os.kill(worker, signal.SIGKILL)
        found = until(lambda: (now := metrics(gateway))['upquery_http_requests_total{worker="0"}'] < served and now)
        assert found['upquery_gateway_shards{worker="0"}'] == 3
        assert gateway.rows("story", id=3) == [{"id": 3, "title": "title 3"}]
    finally:
        gateway.follow([[pod] for pod in pods])
    until(lambda: 'upquery_gateway_pod_up{replica="0",shard="2"}' not in metrics(gateway))


def test_pods_that_ask_who_it_is(stories: Database, tmp_path: Path) -> None:
    tokens, secret = tmp_path / "tokens.toml", tmp_path / "secret"
    tokens.write_text(entry_text("gateway", TOKEN, {"rights": '["read", "admin"]'}))
    secret.write_text(TOKEN + "\n")
    auth, headers = {"tokens_file": str(tokens)}, {"authorization": f"Bearer {TOKEN}"}
    with (
        running_service(tmp_path / "pod", stories.url, {"story": STORY}, auth=auth) as pod,
        running_gateway(tmp_path / "gateway", [[pod]], auth=auth, gateway={"admin_token_file": str(secret)}) as gateway,
    ):
        assert gateway.read("story", id=1).status_code == 401
        assert gateway.read("story", headers, id=1).json()["rows"] == [{"id": 1, "title": "title 1"}]
        assert gateway.call("GET", "/v1/catalog/views").status_code == 401

        def views() -> Any:
            return gateway.call("GET", "/v1/catalog/views", headers=headers).json()

        assert [view["name"] for view in views()["views"]] == ["story"]
        # A secret that is changed is read anew.
        secret.write_text("of nobody")
        refused = until(lambda: "views" not in (said := views()) and said)
        assert (refused["code"], "admin_token" in refused["hint"]) == ("engine_unavailable", True)
        secret.write_text(TOKEN)
        until(lambda: "views" in views())
