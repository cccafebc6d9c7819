"""Two services that are the two shards of one: each answers any key, and of what is kept whole its own."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from service.sharding.homes import Homes
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, processes_of, running_service, until
from tests.integration.forty_stories import stories

pytestmark = pytest.mark.postgres
__all__ = ["stories"]

STORY = "SELECT id, title FROM stories WHERE id = :id"
#: As many as make it sure that each shard is the home of one of them.
WHOLE = {f"whole_{n}": f"SELECT count(*) + {n} AS n FROM stories" for n in range(4)}


@pytest.fixture(scope="module")
def shards(stories: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningService]]:
    directory = tmp_path_factory.mktemp("services")
    with ExitStack() as running:
        yield [
            running.enter_context(
                running_service(
                    directory / str(number),
                    stories.url,
                    {"story": STORY} | WHOLE,
                    shard={"number": number, "of": 2},
                    adhoc={"enabled": True},
                )
            )
            for number in (0, 1)
        ]


def test_both_answer_every_key(shards: list[RunningService], stories: Database) -> None:
    for shard in shards:
        for n in range(1, 41):
            assert shard.rows("story", id=n) == [{"id": n, "title": f"title {n}"}]
        body = {"keys": [{"id": n} for n in range(1, 41)]}
        answer = HTTP.post(f"{shard.http}/v1/views/story/query", json=body)
        assert [result["rows"][0]["id"] for result in answer.json()["results"]] == [*range(1, 41)]
        assert "hit" in answer.headers["cache-status"]
    stories.execute("UPDATE stories SET title = 'new' WHERE id = 3")
    ((version,),) = stories.query("SELECT pg_current_wal_insert_lsn()::text")
    for shard in shards:
        read = shard.read("story", id=3, headers={"Upquery-Min-Version": version, "Prefer": "wait=30"})
        assert read.json()["rows"] == [{"id": 3, "title": "new"}]
    stories.execute("UPDATE stories SET title = 'title 3' WHERE id = 3")


def test_what_is_kept_whole_is_kept_by_one(shards: list[RunningService]) -> None:
    homes = Homes(2)
    assert {homes.of_view(name) for name in WHOLE} == {0, 1}
    for name in WHOLE:
        home, other = shards[homes.of_view(name)], shards[1 - homes.of_view(name)]
        until(lambda home=home, name=name: home.view(name)["status"] == "ready")  # type: ignore[misc]
        assert home.rows(name) == [{"n": 40 + int(name[-1])}]
        assert other.view(name)["status"] == "elsewhere"
        for refused in (
            other.read(name),
            HTTP.post(
                f"{other.http}/v1/read", json={"reads": [{"view": "story", "params": {"id": 1}}, {"view": name}]}
            ),
            HTTP.post(f"{other.http}/v1/views/{name}/query", json={"keys": [{}]}),
        ):
            problem = refused.json()
            assert (refused.status_code, problem["code"], problem["view"]) == (421, "misdirected", name)


def test_each_tells_of_itself(shards: list[RunningService]) -> None:
    for number, shard in enumerate(shards):
        assert shard.stats()["shard"] == number
        statuses = [shard.call("GET", "/v1/graph", params=asked).status_code for asked in ({}, {"shard": number})]
        assert statuses == [200, 200]
        assert shard.call("GET", "/v1/graph", params={"shard": 1 - number}).status_code == 400


def test_a_query_is_answered_by_any(shards: list[RunningService]) -> None:
    """A query is matched with no view of another shard."""
    for shard in shards:
        for name, sql in WHOLE.items():
            answer = HTTP.post(f"{shard.http}/v1/query", json={"sql": sql})
            assert answer.status_code == 200, answer.text
            assert answer.json()["rows"] == [{"n": 40 + int(name[-1])}]
            kept = shard.view(name)["status"] == "ready"
            assert answer.headers.get("upquery-view") == (name if kept else None)


def test_views_that_are_put_are_kept_by_each_service(shards: list[RunningService]) -> None:
    name = next(f"late_{n}" for n in range(100) if Homes(2).of_view(f"late_{n}") == 0)
    sql = "SELECT max(id) AS last FROM stories"
    for shard in shards:
        assert shard.put(name, sql).status_code in (201, 202)
    until(lambda: shards[0].view(name)["status"] == "ready")
    assert shards[0].rows(name) == [{"last": 40}]
    assert shards[1].read(name).status_code == 421
    # It is known still when all processes were started again, and the whole service.
    for process in processes_of(shards[1].pid):
        os.kill(process, signal.SIGKILL)
    until(lambda: shards[1].ready() and shards[1].read(name).status_code == 421, 60)
    shards[1].stop()
    shards[1].start()
    assert shards[1].read(name).status_code == 421
    assert shards[1].rows("story", id=7) == [{"id": 7, "title": "title 7"}]
    for shard in shards:
        assert shard.call("DELETE", f"/v1/catalog/views/{name}").status_code == 204
        assert shard.read(name).status_code == 404
