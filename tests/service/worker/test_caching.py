"""Headers of answers: source, age and cacheability."""

import httpx

from service.settings.sections import HttpSettings
from service.worker.reads.view_reads import not_modified
from service.worker.routes.app import build_app
from tests.service.worker.conftest import Run, Service

KEPT = "public, max-age=5"
#: Sends a read the general way.
GENERAL = {"Upquery-Min-Version": "0/0"}


async def query(service: Service, view: str, *keys: int) -> httpx.Response:
    return await service.http.post(f"/v1/views/{view}/query", json={"keys": [{"id": key} for key in keys]})


async def read(service: Service, *views: str) -> httpx.Response:
    reads = [{"view": view, "params": {"id": 7}} for view in views]
    return await service.http.post("/v1/read", json={"reads": reads})


def test_a_view_says_how_long_its_answers_may_be_kept(run: Run) -> None:
    async def test(service: Service) -> None:
        for headers in ({}, {}, GENERAL):
            answer = await service.http.get("/v1/views/kept?id=7", headers=headers)
            assert answer.headers["cache-control"] == KEPT
            same = {**headers, "If-None-Match": answer.headers["etag"]}
            unchanged = await service.http.get("/v1/views/kept?id=7", headers=same)
            assert (unchanged.status_code, unchanged.headers["cache-control"]) == (304, KEPT)
            assert (await service.http.head("/v1/views/kept?id=7", headers=headers)).headers["cache-control"] == KEPT
        for _ in range(2):
            assert (await query(service, "kept", 7, 8)).headers["cache-control"] == KEPT
            assert (await read(service, "kept", "kept")).headers["cache-control"] == KEPT
            # Kept for as long as the one allows that allows least.
            assert (await read(service, "kept", "story")).headers["cache-control"] == "no-cache"
        assert (await service.http.get("/v1/views/kept?id=x")).headers["cache-control"] == "no-store"

    run(test)


def test_age_is_how_far_behind_the_database_an_answer_is(run: Run) -> None:
    async def test(service: Service) -> None:
        for send in (service.http.get, service.http.head):
            for headers in ({}, {}, GENERAL):
                answer = await send("/v1/views/story?id=7", headers=headers)
                assert int(answer.headers["age"]) == int(answer.headers["upquery-age-ms"]) // 1000 > 0
                same = {**headers, "If-None-Match": answer.headers["etag"]}
                unchanged = await send("/v1/views/story?id=7", headers=same)
                assert unchanged.status_code == 304
                assert int(unchanged.headers["age"]) == int(unchanged.headers["upquery-age-ms"]) // 1000
        answer = await query(service, "story", 7)
        assert int(answer.headers["age"]) == int(answer.headers["upquery-age-ms"]) // 1000 > 0

    run(test)


def test_where_an_answer_comes_from(run: Run) -> None:
    async def test(service: Service) -> None:
        async def statuses() -> list[str]:
            answers = [
                await service.http.get("/v1/views/story?id=7"),
                await query(service, "story", 7, 8),
                await read(service, "story", "kept"),
            ]
            return [answer.headers["cache-status"].removeprefix("upquery; ") for answer in answers]

        service.engine.forwards = True
        # Nothing is stored of what the database itself answers, so the next one asks again.
        for _ in range(2):
            assert await statuses() == ["fwd=bypass"] * 3
        service.engine.forwards = False
        assert await statuses() == ["fwd=miss; stored"] * 3
        assert await statuses() == ["hit"] * 3
        same = {"If-None-Match": (await service.http.get("/v1/views/story?id=7")).headers["etag"]}
        unchanged = await service.http.get("/v1/views/story?id=7", headers=same)
        assert (unchanged.status_code, unchanged.headers["cache-status"]) == (304, "upquery; hit")
        assert "cache-status" not in (await service.http.get("/v1/views/story?id=x")).headers

    run(test)


def test_a_tag_among_others_and_on_several_lines(run: Run) -> None:
    async def test(service: Service) -> None:
        tag = (await service.http.get("/v1/views/story?id=7")).headers["etag"]
        for tags in ([tag], ['"x"', tag], [f'"x", {tag}', '"y"'], [tag.removeprefix("W/")], ["*"]):
            for extra in ([], [("Upquery-Min-Version", "0/0")]):
                headers = [("If-None-Match", tag) for tag in tags] + extra
                assert (await service.http.get("/v1/views/story?id=7", headers=headers)).status_code == 304
        assert (await service.http.get("/v1/views/story?id=7", headers={"If-None-Match": '"x"'})).status_code == 200

    run(test)
    assert not not_modified(b'"ab"', b"a")


def test_what_may_be_compressed_says_so_also_when_it_is_not_modified(run: Run) -> None:
    async def test(service: Service) -> None:
        # No answer of these views is as long as what may be around rows.
        for bytes_, varies in ((0, False), (1 << 20, False), (64, True)):
            limits = HttpSettings(compress_bytes=bytes_)
            transport = httpx.ASGITransport(build_app(service.engine.writer.reader, service.client, limits))
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
                tag = (await http.get("/v1/views/story?id=7")).headers["etag"]
                for headers in ({}, GENERAL):
                    answer = await http.get("/v1/views/story?id=7", headers={**headers, "If-None-Match": tag})
                    assert answer.status_code == 304
                    assert ("vary" in answer.headers) == varies

    run(test)
