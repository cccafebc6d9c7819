"""Requests over two shards: who is asked, and that several answers are of one version."""

import asyncio
from typing import Any

import httpx
import pytest

from dataflow.engine.effects import LeafFill, LeafFillAll
from service.ground.errors import ApiError
from service.ground.version import version_text
from service.leaf_store.catalog import ELSEWHERE
from tests.service.worker.conftest import STORY_ID
from tests.service.worker.shards.conftest import WHOLE, WHOLE_IDS, Run, Two, id_at

AT = [id_at(0), id_at(1)]


async def batch(two: Two, *ids: int, **headers: str) -> httpx.Response:
    body = {"keys": [{"id": n} for n in ids]}
    return await two.http.post("/v1/views/story/query", json=body, headers=headers)


def titles(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [row["title"] for result in response.json()["results"] for row in result["rows"]]


def story(two: Two, shard: int, number: int, title: str) -> None:
    """A change of a story, at one shard."""
    row = (str(number), title, "ann", "3")
    two.engines[shard].rows["story", (str(number),)] = [row]
    two.engines[shard].commit(LeafFill(STORY_ID, (str(number),), [row]))


def test_a_key_is_asked_of_its_home(run: Run) -> None:
    async def test(two: Two) -> None:
        for shard in (0, 1, 1, 0):
            answer = await two.http.get(f"/v1/views/story?id={AT[shard]}")
            assert answer.json()["rows"][0]["title"] == f"Title {AT[shard]}"
        assert [len(engine.reads) for engine in two.engines] == [1, 1]
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": "/v1/views/story",
            "raw_path": b"/v1/views/story",
            "query_string": b"id=%d" % AT[1],
            "headers": [],
        }
        direct = two.app.answer(scope, None)
        assert direct is not None
        assert (direct.status, (b"cache-status", b"upquery; hit") in direct.headers) == (200, True)

    run(test)


def test_a_view_that_is_kept_whole_is_asked_of_its_home(run: Run) -> None:
    async def test(two: Two) -> None:
        for shard, name in enumerate(WHOLE):
            answer = await two.http.get(f"/v1/views/{name}")
            assert answer.json()["rows"][0]["title"] == f"of {shard}"
            assert "hit" in answer.headers["cache-status"]
        document = (await two.http.get("/openapi.json")).json()
        assert {f"/v1/views/{name}" for name in (*WHOLE, "story")} <= document["paths"].keys()

    run(test)


def test_batches_are_answered_at_one_version(run: Run) -> None:
    async def test(two: Two) -> None:
        assert titles(await batch(two, AT[1], AT[0], AT[1])) == [f"Title {n}" for n in (AT[1], AT[0], AT[1])]
        older = two.engines[0].position = max(engine.position for engine in two.engines) + 800
        two.engines[1].position = older
        story(two, 0, AT[0], "new")
        story(two, 1, AT[1], "newer")
        for _ in range(5):
            two.engines[1].commit()
        warm = await batch(two, AT[0], AT[1])
        assert titles(warm) == ["new", "newer"]
        assert warm.json()["version"] == version_text(older + 8)
        assert "hit" in warm.headers["cache-status"]
        assert two.app.reads.outcomes["met"] >= 1

    run(test)


def test_who_is_behind_is_waited_for(run: Run) -> None:
    async def test(two: Two) -> None:
        await batch(two, *AT)
        two.engines[1].position += 800
        story(two, 1, AT[1], "ahead")
        answer = await batch(two, *AT)
        assert titles(answer) == [f"Title {AT[0]}", "ahead"]
        assert answer.json()["version"] == version_text(two.engines[1].position)
        assert two.engines[0].reaching == 1
        assert two.app.reads.outcomes["met_again"] == 1

    run(test)


def test_one_shard_answers_all_if_another_stays_behind(run: Run) -> None:
    async def test(two: Two) -> None:
        await batch(two, *AT)
        two.engines[1].rows["story", (str(AT[0]),)] = [(str(AT[0]), "filled there", "ann", "3")]
        two.engines[1].position += 8000
        story(two, 1, AT[1], "ahead")
        await two.servers[0].close()
        more = id_at(1, AT[1])
        answer = await batch(two, AT[0], AT[1], more)
        assert titles(answer) == ["filled there", "ahead", f"Title {more}"]
        assert two.app.reads.outcomes["one_shard"] == 1

    run(test)


def test_views_that_different_shards_keep_whole_may_be_refused(run: Run) -> None:
    async def test(two: Two) -> None:
        body = {"reads": [{"view": name} for name in WHOLE]}
        both = await two.http.post("/v1/read", json=body)
        assert titles(both) == ["of 0", "of 1"]
        two.engines[1].position += 800
        two.engines[1].commit(LeafFillAll(WHOLE_IDS[1], {(): [("1", "ahead", "ann", "3")]}))
        await two.servers[0].close()
        refused = await two.http.post("/v1/read", json=body)
        assert (refused.status_code, refused.json()["code"]) == (503, "versions_apart")
        assert refused.json()["retryable"] is True

    run(test)


def test_minimum_versions_are_waited_for_by_all_that_are_read(run: Run) -> None:
    async def test(two: Two) -> None:
        await batch(two, *AT)
        wanted = max(engine.position for engine in two.engines) + 80
        answer = await batch(two, *AT, **{"Upquery-Min-Version": version_text(wanted)})
        assert len(titles(answer)) == 2
        assert answer.json()["version"] >= version_text(wanted)
        assert [engine.reaching for engine in two.engines] == [1, 1]

    run(test)


def test_a_shard_that_is_away_leaves_the_others(run: Run) -> None:
    async def test(two: Two) -> None:
        await batch(two, *AT)
        await two.servers[1].close()
        assert titles(await batch(two, *AT))
        cold = [id_at(0, AT[0]), id_at(1, AT[1])]
        assert (await two.http.get(f"/v1/views/story?id={cold[0]}")).status_code == 200
        missed = await two.http.get(f"/v1/views/story?id={cold[1]}")
        assert (missed.status_code, missed.json()["code"]) == (503, "engine_unavailable")
        assert (await batch(two, *cold)).status_code == 503
        assert (await two.http.post("/v1/checkpoint")).status_code == 200

    run(test)


def test_mistakes_are_told_as_by_one_shard(run: Run) -> None:
    async def test(two: Two) -> None:
        for path, code in (
            ("/v1/views/story", "parameter_missing"),
            ("/v1/views/story?id=x", "parameter_type"),
            ("/v1/views/none?id=1", "view_not_found"),
            ("/v1/views/broken?id=1", "view_broken"),
            ("/v1/views/story?id=1&nr=2", "parameter_unknown"),
            ("/v1/nothing", "not_found"),
        ):
            assert (await two.http.get(path)).json()["code"] == code
        wrong = await two.http.post("/v1/views/story/query", json={"keys": [{"id": 1}, {"id": "x"}]})
        assert wrong.json()["code"] == "parameter_type"
        assert (await two.http.post("/v1/views/none/query", json={"keys": []})).json()["code"] == "view_not_found"
        assert (await two.http.post("/v1/views/story/query", json={"keys": []})).json()["results"] == []
        assert (await two.http.post("/v1/views/story?id=1")).status_code == 405

    run(test)


def test_a_view_that_moves_is_found(run: Run) -> None:
    async def test(two: Two) -> None:
        name = WHOLE[0]
        assert (await two.http.get(f"/v1/views/{name}")).json()["rows"][0]["title"] == "of 0"
        two.engines[0].writer.set_status(WHOLE_IDS[0], ELSEWHERE)
        two.engines[1].writer.set_status(WHOLE_IDS[0], "ready")
        two.engines[0].commit()
        two.engines[1].commit(LeafFillAll(WHOLE_IDS[0], {(): [("1", "moved", "ann", "3")]}))
        assert (await two.http.get(f"/v1/views/{name}")).json()["rows"][0]["title"] == "moved"

    run(test)


@pytest.mark.parametrize("shard", [0, 1])
def test_subscriptions_and_failures_of_the_engine_are_the_homes(run: Run, shard: int) -> None:
    async def test(two: Two) -> None:
        two.engines[shard].failure = ApiError("upstream_unavailable", "It does not answer.")
        answers = await asyncio.gather(*(two.http.get(f"/v1/views/story?id={n}") for n in AT))
        assert [answer.status_code for answer in answers] == [503 if n == shard else 200 for n in (0, 1)]

    run(test)
