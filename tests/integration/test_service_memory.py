"""The memory of a real service that is read far beyond its budget: what it says, what the kernel says, what stays."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, running_service, until

pytestmark = pytest.mark.postgres

BUDGET = 40 << 20
STORIES = 24_000
HOT = [str(i) for i in range(1, 101)]
STORY = """
SELECT s.id, s.title, s.body, count(v.user_id) AS votes
FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id GROUP BY s.id, s.title, s.body
"""


@pytest.fixture
def service(database: Database, tmp_path: Path) -> Iterator[RunningService]:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL, body text NOT NULL)",
        "CREATE TABLE votes (story_id int, user_id int, PRIMARY KEY (story_id, user_id))",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "ALTER TABLE votes REPLICA IDENTITY FULL",
        "INSERT INTO stories "
        f"SELECT i, 'title ' || i, repeat('body ', 100 + i % 200) FROM generate_series(1, {STORIES}) i",
        f"INSERT INTO votes SELECT i, j FROM generate_series(1, {STORIES}) i, generate_series(1, 3) j",
        "ANALYZE",
    )
    sections: dict[str, Any] = {"engine": {"memory": BUDGET}, "cdc": {"schema_check_s": 60}}
    with running_service(tmp_path / "service", database.url, {"story": STORY}, cold=True, **sections) as running:
        yield running


def read_all(service: RunningService, ids: list[str]) -> None:
    """Reads these stories, and sees that they are right."""
    keys = [{"id": id_} for id_ in ids]
    answer = HTTP.post(f"{service.http}/v1/views/story/query", json={"keys": keys})
    assert answer.status_code == 200, answer.text
    for id_, result in zip(ids, answer.json()["results"], strict=True):
        assert [(row["id"], row["votes"]) for row in result["rows"]] == [(int(id_), 3)]


def sizes(service: RunningService) -> dict[str, Any]:
    found: dict[str, Any] = service.stats()["sizes"]
    return found


def counted(service: RunningService, reads: int) -> dict[str, int]:
    """The view's counters when workers have reported all these reads."""

    def all_reported() -> dict[str, int] | None:
        view: dict[str, int] = service.stats()["views"]["story"]
        return view if view["hits"] + view["misses"] == reads else None

    view: dict[str, int] = until(all_reported)
    return view


def test_the_process_does_not_outgrow_its_budget_and_says_what_it_takes(service: RunningService) -> None:
    ids = [str(i) for i in range(101, STORIES + 1)]
    random.Random(1).shuffle(ids)
    most = most_grown = 0
    for first in range(0, len(ids), 200):
        read_all(service, HOT + ids[first : first + 200])
        found = sizes(service)
        most, most_grown = max(most, found["used_bytes"]), max(most_grown, found["process_grown_bytes"])
    evicted = service.stats()["views"]["story"]["evicted_by_budget"]
    assert evicted > STORIES // 5
    assert found["budget_bytes"] == BUDGET
    assert 0.8 * BUDGET < most < 1.1 * BUDGET
    assert most_grown < 1.1 * BUDGET + (16 << 20)
    # What the kernel says that the process took since it was empty.
    assert 0.75 < most_grown / most < 1.25
    until(lambda: sizes(service)["used_bytes"] <= BUDGET)

    # What is read again and again has stayed.
    rounds = -(-len(ids) // 200)
    before = counted(service, len(ids) + rounds * len(HOT))["misses"]
    read_all(service, HOT)
    assert counted(service, len(ids) + (rounds + 1) * len(HOT))["misses"] - before < len(HOT) // 10


def test_what_is_counted(service: RunningService) -> None:
    read_all(service, HOT)
    read_all(service, HOT)
    until(lambda: service.stats()["views"]["story"]["hits"] >= 100)
    freed = service.call("POST", "/v1/evict", json={"state_bytes": 100_000}).json()
    assert 0 < freed["keys"] < 100
    view = service.view("story")["counters"]
    assert (view["hits"], view["misses"], view["filled"]) == (100, 100, 100)
    assert view["upqueries"] >= 1
    assert 0 < view["upquery_max_s"] <= view["upquery_s"]
    assert view["evicted"] == view["evicted_by_budget"] == freed["keys"]
    assert view["lookups"] >= 2
    assert view["lookup_rows"] >= 200
    assert view["leaf_bytes"] > 0 < view["inner_bytes"]

    nodes = service.call("GET", "/v1/catalog/views/story/plan").json()["nodes"]
    assert nodes == service.call("GET", "/v1/graph").json()
    assert sum(node["counters"]["lookup_rows"] for node in nodes) == view["lookup_rows"]
    assert sum(node["state_bytes"] for node in nodes) == view["inner_bytes"]

    footprints = service.call("GET", "/v1/footprints").json()
    told = footprints["views"]["story"]
    assert told["covered_keys"] == len(told["keys"]) == view["covered_keys"]
    assert sum(node["covered_keys"] for node in footprints["nodes"]) == len(footprints["inner"]) > 0
    inside = sum(node["state_bytes"] for node in nodes if node["kind"] != "view")
    assert sum(node["state_bytes"] for node in footprints["nodes"]) == inside

    metrics = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(service.call("GET", "/metrics").text)
        for sample in family.samples
    }
    assert metrics["upquery_view_reads_total", ("outcome", "hits"), ("view", "story")] == 100
    assert metrics["upquery_view_evicted_keys_total", ("reason", "budget"), ("view", "story")] == freed["keys"]
    assert metrics["upquery_view_upquery_seconds_count", ("view", "story")] == view["upqueries"]
    assert metrics["upquery_view_upquery_seconds_bucket", ("le", "+Inf"), ("view", "story")] == view["upqueries"]
    assert metrics[("upquery_budget_bytes",)] == BUDGET
    assert metrics[("upquery_over_budget",)] == 0
    ready = service.call("GET", "/readyz").json()["memory"]
    assert (ready["budget_bytes"], ready["over_budget"]) == (BUDGET, False)


def test_a_view_that_cannot_fit_is_a_413_with_the_estimate(service: RunningService) -> None:
    whole = "SELECT title, body, count(*) AS n FROM stories GROUP BY title, body ORDER BY n"
    refused = service.put("whole", whole)
    assert refused.status_code == 413, refused.text
    problem = refused.json()
    assert problem["code"] == "too_large"
    assert problem["estimated_bytes"] > problem["budget_bytes"] == BUDGET
    assert "[engine] memory" in problem["hint"]
