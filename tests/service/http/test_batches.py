"""Batch reads: every key at one version."""

from dataflow.engine.effects import LeafChange, LeafEvict
from dataflow.types import Delta
from tests.service.http.conftest import AUTHOR_ID, STORY_ID, Run, Service


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


def test_one_miss_sends_all_keys_to_the_engine(run: Run) -> None:
    async def test(service: Service) -> None:
        body = {"reads": [{"view": "story", "params": {"id": 7}}, {"view": "stories_of", "params": {"author": "ann"}}]}
        await service.http.post("/v1/read", json=body)
        service.engine.commit(LeafEvict(AUTHOR_ID, ("ann",)))
        change: Delta = ([("7", "Seven", "ann", "3")], [("7", "Seven", "ann", "9")])
        service.engine.commit(LeafChange(STORY_ID, {("7",): change}))
        service.engine.rows["story", ("7",)] = change[1]
        answer = await service.http.post("/v1/read", json=body)
        assert len(service.engine.reads[-1]) == 2
        assert answer.json()["results"][0]["rows"][0]["votes"] == 9
        assert len(answer.json()["results"][1]["rows"]) == 10

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
