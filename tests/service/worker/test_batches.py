"""Batch reads: every key at one version."""

import asyncio

from dataflow.engine.effects import LeafChange, LeafEvict
from dataflow.types import Delta
from tests.service.worker.conftest import AUTHOR_ID, STORY_ID, Run, Service


def test_keys_of_one_view(run: Run) -> None:
    async def test(service: Service) -> None:
        body = {"keys": [{"id": 7}, {"id": "8"}, {"id": None}, {"id": 99}, {"id": "07"}]}
        for status in ("upquery; fwd=miss; stored", "upquery; hit"):
            answer = await service.http.post("/v1/views/story/query", json=body)
            assert answer.status_code == 200
            assert answer.headers["cache-status"] == status
            results = answer.json()["results"]
            assert [[row["title"] for row in result["rows"]] for result in results] == [
                ["Seven"],
                ["Eight"],
                [],
                [],
                ["Seven"],
            ]
            assert answer.json()["version"] == answer.headers["upquery-version"]
        assert len(service.engine.reads) == 1

    run(test)


def test_the_engine_is_asked_for_what_is_missing_and_all_is_read_at_the_version_of_then(run: Run) -> None:
    async def test(service: Service) -> None:
        body = {"reads": [{"view": "story", "params": {"id": 7}}, {"view": "stories_of", "params": {"author": "ann"}}]}
        await service.http.post("/v1/read", json=body)
        service.engine.commit(LeafEvict(AUTHOR_ID, ("ann",)))
        service.engine.gate = asyncio.Event()
        waiting = asyncio.ensure_future(service.http.post("/v1/read", json=body))
        async with asyncio.timeout(5):
            while len(service.engine.reads) < 2:
                await asyncio.sleep(0)
        change: Delta = ([("7", "Seven", "ann", "3")], [("7", "Seven", "ann", "9")])
        service.engine.commit(LeafChange(STORY_ID, {("7",): change}))
        service.engine.gate.set()
        answer = await waiting
        assert [item.view for item in service.engine.reads[-1]] == ["stories_of"]
        assert answer.json()["results"][0]["rows"][0]["votes"] == 9
        assert len(answer.json()["results"][1]["rows"]) == 10
        assert answer.headers["cache-status"] == "upquery; fwd=miss; stored"

    run(test)


def test_what_goes_while_another_key_is_filled_is_asked_for_with_all_the_rest(run: Run) -> None:
    async def test(service: Service) -> None:
        body = {"keys": [{"id": 7}, {"id": 8}]}
        await service.http.post("/v1/views/story/query", json={"keys": [{"id": 7}]})
        service.engine.gate = asyncio.Event()
        waiting = asyncio.ensure_future(service.http.post("/v1/views/story/query", json=body))
        async with asyncio.timeout(5):
            while len(service.engine.reads) < 2:
                await asyncio.sleep(0)
        service.engine.commit(LeafEvict(STORY_ID, ("7",)))
        service.engine.gate.set()
        results = (await waiting).json()["results"]
        assert [result["rows"][0]["title"] for result in results] == ["Seven", "Eight"]
        assert [[item.values for item in read] for read in service.engine.reads[1:]] == [[("8",)], [("7",), ("8",)]]

    run(test)


def test_forwarded_answers_join_what_is_cached_only_at_the_same_version(run: Run) -> None:
    async def test(service: Service) -> None:
        body = {"keys": [{"id": 7}, {"id": 8}]}
        await service.http.post("/v1/views/story/query", json={"keys": [{"id": 7}]})
        service.engine.forwards = True
        answer = await service.http.post("/v1/views/story/query", json=body)
        assert [result["rows"][0]["title"] for result in answer.json()["results"]] == ["Seven", "Eight"]
        assert len(service.engine.reads) == 2
        service.engine.late = True
        answer = await service.http.post("/v1/views/story/query", json=body)
        assert [result["rows"][0]["title"] for result in answer.json()["results"]] == ["Seven", "Eight"]
        assert [len(read) for read in service.engine.reads[2:]] == [1, 2]

    run(test)


def test_pages_of_several_views(run: Run) -> None:
    async def test(service: Service) -> None:
        body = {"reads": [{"view": "top", "limit": 1}, {"view": "stories_of", "params": {"author": "ann"}, "limit": 2}]}
        first = (await service.http.post("/v1/read", json=body)).json()["results"]
        assert [len(result["rows"]) for result in first] == [1, 2]
        body["reads"][1]["after"] = first[1]["next"]
        second = (await service.http.post("/v1/read", json=body)).json()["results"]
        assert second[1]["rows"] != first[1]["rows"]

    run(test)


def test_no_keys(run: Run) -> None:
    async def test(service: Service) -> None:
        assert (await service.http.post("/v1/read", json={"reads": []})).json()["results"] == []

    run(test)
