"""Reads of one key: hits, misses, headers, pages, versions."""

import asyncio

from dataflow.engine.effects import LeafChange, LeafEvict
from service.leaf_store.read_ahead import AT_ONCE_ROWS
from service.protocol.counters import ReadCounters
from service.worker.routes.openapi import HEADERS
from tests.service.worker.conftest import AMONG_ID, AUTHOR_ID, STORY_ID, Run, Service

SEVEN = {"id": 7, "title": "Seven", "author": "ann", "votes": 3}


def test_miss_then_hit(run: Run) -> None:
    async def test(service: Service) -> None:
        miss = await service.http.get("/v1/views/story?id=7")
        assert miss.status_code == 200
        assert miss.json() == {"rows": [SEVEN], "version": "pg:0/16B3758", "next": None}
        assert miss.headers["cache-status"] == "upquery; fwd=miss; stored"
        hit = await service.http.get("/v1/views/story?id=7")
        assert hit.json() == miss.json()
        assert hit.headers["cache-status"] == "upquery; hit"
        assert hit.headers["etag"] == miss.headers["etag"]
        assert hit.headers["upquery-version"] == hit.json()["version"]
        assert int(hit.headers["upquery-age-ms"]) > 0
        assert hit.headers["content-type"] == "application/json"
        assert hit.headers["cache-control"] == "no-cache"
        assert hit.headers["server-timing"].startswith("leaf;dur=")
        assert len(service.engine.reads) == 1

    run(test)


def test_hot_route_and_general_route_agree(run: Run) -> None:
    async def test(service: Service) -> None:
        for path in ("story?id=7", "stories_of?author=ann", "top", "story?id=99"):
            await service.http.get(f"/v1/views/{path}")
            for asked in ({}, {"If-None-Match": "*"}):
                fast = await service.http.get(f"/v1/views/{path}", headers=asked)
                general = await service.http.get(f"/v1/views/{path}", headers={**asked, "Upquery-Min-Version": "0/0"})
                assert fast.status_code == general.status_code
                assert fast.content == general.content
                assert fast.headers["cache-status"] == general.headers["cache-status"] == "upquery; hit"
                assert fast.headers["etag"] == general.headers["etag"]
                # The hot route does not measure answers without rows.
                assert general.headers.keys() ^ fast.headers.keys() <= {"server-timing"}
                documented = {*map(str.lower, HEADERS), "content-type", "content-length"}
                assert fast.headers.keys() | general.headers.keys() <= documented

    run(test)


def test_many_rows_are_the_same_one_by_one_and_in_batches(run: Run) -> None:
    """Rows are read one by one where they are too many to be read at once."""

    async def test(service: Service) -> None:
        many = [(str(n), f"Story {n}", "ann", "0") for n in range(AT_ONCE_ROWS + 1)]
        service.engine.rows["stories_of", ("ann",)] = many
        miss = await service.http.get("/v1/views/stories_of?author=ann")
        hit = await service.http.get("/v1/views/stories_of?author=ann")
        body = {"reads": [{"view": "stories_of", "params": {"author": "ann"}}] * 2}
        batch = await service.http.post("/v1/read", json=body)
        keys = await service.http.post("/v1/views/stories_of/query", json={"keys": [{"author": "ann"}] * 2})
        for response in (hit, batch, keys):
            assert response.headers["cache-status"] == "upquery; hit"
        assert hit.headers["etag"] == miss.headers["etag"]
        rows = miss.json()["rows"]
        assert len(rows) == len(many)
        answers = [hit.json(), *batch.json()["results"], *keys.json()["results"]]
        assert [answer["rows"] for answer in answers] == [rows] * 5
        assert service.app.counters()["stories_of"] == ReadCounters(hits=5, misses=1)

    run(test)


def test_spellings_of_one_key_are_one_key(run: Run) -> None:
    async def test(service: Service) -> None:
        for query in ("id=7", "id=%37", "id=07", "id=+7", "&id=7&"):
            assert (await service.http.get(f"/v1/views/story?{query}")).json()["rows"] == [SEVEN]
        assert [item.values for items in service.engine.reads for item in items] == [("7",)]

    run(test)


def test_answer_follows_the_commits(run: Run) -> None:
    async def test(service: Service) -> None:
        first = await service.http.get("/v1/views/story?id=7")
        old, new = ("7", "Seven", "ann", "3"), ("7", "Seven", "ann", "4")
        service.engine.commit(LeafChange(STORY_ID, {("7",): ([old], [new])}))
        second = await service.http.get("/v1/views/story?id=7")
        assert second.json()["rows"][0]["votes"] == 4
        assert second.headers["etag"] != first.headers["etag"]
        service.engine.commit(LeafChange(STORY_ID, {("7",): ([new], [old])}))
        third = await service.http.get("/v1/views/story?id=7")
        assert third.headers["etag"] == first.headers["etag"]
        assert third.json()["version"] > second.json()["version"] > first.json()["version"]

    run(test)


def test_not_modified_and_head(run: Run) -> None:
    async def test(service: Service) -> None:
        for path in ("story?id=7", "top", "stories_of?author=ann&limit=2"):
            first = await service.http.get(f"/v1/views/{path}")
            tag = first.headers["etag"]
            for asked in (tag, tag.removeprefix("W/"), f'"x", {tag}', "*"):
                same = await service.http.get(f"/v1/views/{path}", headers={"If-None-Match": asked})
                assert (same.status_code, same.content) == (304, b"")
                assert same.headers["upquery-version"]
                assert same.headers["etag"] == tag
            other = await service.http.get(f"/v1/views/{path}", headers={"If-None-Match": 'W/"other"'})
            assert other.status_code == 200
            head = await service.http.head(f"/v1/views/{path}")
            assert head.headers["content-length"] == str(len(first.content))

    run(test)


def test_null_parameter_needs_no_engine(run: Run) -> None:
    async def test(service: Service) -> None:
        assert (await service.http.get("/v1/views/story?id:null")).json()["rows"] == []
        zero = await service.http.get("/v1/views/votes_of?author:null=&id=7")
        assert zero.json()["rows"] == [{"votes": 0}]
        assert zero.headers["cache-status"] == "upquery; hit"
        assert (await service.http.get("/v1/views/stories_of?author=")).json()["rows"] == []
        assert [item.values for items in service.engine.reads for item in items] == [("",)]

    run(test)


def test_pages_join_up(run: Run) -> None:
    async def test(service: Service) -> None:
        whole = (await service.http.get("/v1/views/stories_of?author=ann")).json()
        assert [row["votes"] for row in whole["rows"]] == [3, 3, 2, 2, 1, 1, 1, 0, 0, 0]
        assert whole["next"] is None
        rows, url = [], "/v1/views/stories_of?author=ann&limit=4"
        for size in (4, 4, 2):
            page = await service.http.get(url)
            assert len(page.json()["rows"]) == size
            rows += page.json()["rows"]
            if page.json()["next"]:
                assert page.links["next"]["url"].endswith(page.json()["next"])
                url = page.links["next"]["url"]
        assert rows == whole["rows"]
        assert "next" not in page.links

    run(test)


def test_pages_stay_within_the_views_limit(run: Run) -> None:
    async def test(service: Service) -> None:
        assert [r["id"] for r in (await service.http.get("/v1/views/top")).json()["rows"]] == [8, 7, 6]
        page = (await service.http.get("/v1/views/top?limit=2")).json()
        assert [r["id"] for r in page["rows"]] == [8, 7]
        page = (await service.http.get(f"/v1/views/top?limit=2&after={page['next']}")).json()
        assert ([r["id"] for r in page["rows"]], page["next"]) == ([6], None)
        assert len((await service.http.get("/v1/views/top?limit=100")).json()["rows"]) == 3

    run(test)


def test_page_of_a_miss(run: Run) -> None:
    async def test(service: Service) -> None:
        page = await service.http.get("/v1/views/stories_of?author=ann&limit=3")
        assert len(page.json()["rows"]) == 3
        assert page.json()["next"]
        assert page.headers["cache-status"] == "upquery; fwd=miss; stored"

    run(test)


def test_minimum_version_waits(run: Run) -> None:
    async def test(service: Service) -> None:
        await service.http.get("/v1/views/story?id=7")
        ahead = service.engine.position + 800
        token = f"0/{ahead:X}"
        answer = await service.http.get(
            "/v1/views/story?id=7", headers={"Upquery-Min-Version": token, "Prefer": "wait=2"}
        )
        assert answer.status_code == 200
        assert answer.headers["upquery-version"] >= f"pg:{token}"

    run(test)


def test_minimum_version_that_does_not_come(run: Run) -> None:
    async def test(service: Service) -> None:
        service.engine.gate = asyncio.Event()
        headers = {"Upquery-Min-Version": "pg:FFFF/0", "Prefer": "respond-async, wait=0.01"}
        late = await service.http.get("/v1/views/story?id=7", headers=headers)
        assert (late.status_code, late.json()["code"]) == (504, "version_timeout")
        wrong = await service.http.get("/v1/views/story?id=7", headers={"Upquery-Min-Version": "soon"})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "bad_request")

    run(test)


def test_evicted_key_is_filled_again_with_the_same_tag(run: Run) -> None:
    async def test(service: Service) -> None:
        first = await service.http.get("/v1/views/stories_of?author=ann")
        service.engine.commit(LeafEvict(AUTHOR_ID, ("ann",)))
        again = await service.http.get("/v1/views/stories_of?author=ann")
        assert again.headers["cache-status"] == "upquery; fwd=miss; stored"
        assert again.headers["etag"] == first.headers["etag"]

    run(test)


def test_checkpoint(run: Run) -> None:
    async def test(service: Service) -> None:
        token = (await service.http.post("/v1/checkpoint")).json()["version"]
        answer = await service.http.get("/v1/views/story?id=7", headers={"Upquery-Min-Version": token})
        assert answer.status_code == 200

    run(test)


def test_a_list_of_a_view_without_an_order_joins_its_keys(run: Run) -> None:
    async def test(service: Service) -> None:
        tags = set()
        for query in ("ids=7&ids=8&ids=99", "ids=8&ids=7&ids=99&ids=8", "ids=99&ids=8&ids=7"):
            for status in ("upquery; fwd=miss; stored", "upquery; hit"):
                answer = await service.http.get(f"/v1/views/among?author=ann&{query}")
                assert answer.headers["cache-status"] == status
                rows = [(row["id"], row["title"]) for row in answer.json()["rows"]]
                assert sorted(rows) == [(7, "Seven"), (8, "Eight"), (8, "Eight"), (8, "Eighth")]
                tags.add(answer.headers["etag"])
            service.engine.commit(LeafEvict(AMONG_ID, ("ann", "8")))
        assert len(tags) == 1
        one = await service.http.get("/v1/views/among?author=ann&ids=7")
        assert one.headers["etag"] not in tags

    run(test)
