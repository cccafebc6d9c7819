"""A part of a batch is answered as the batch would be, and says where that is exact."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from dataflow.engine.effects import LeafEvict
from service.ground.version import version_text
from service.settings.sections import HttpSettings
from service.web.compression import Compression
from service.worker.reads.part import MEDIA_TYPE, PART, PartHead, read_part
from tests.service.worker.conftest import STALE_ID, STORY_ID, Run, Service, running
from tests.service.worker.test_batch_route import FILLED, LIMITS, RAW, request

HEADER = {PART[0].decode(): PART[1].decode()}
SERVER = "that server"
BOTH = {"keys": [{"id": 7}, {"id": 8}]}


def as_part(asked: httpx.Request) -> httpx.Request:
    return httpx.Request("POST", asked.url, content=asked.content, headers={**asked.headers, **HEADER})


async def part(service: Service, path: str, body: dict[str, Any], **headers: str) -> tuple[PartHead, list[bytes]]:
    answer = await service.http.post(path, json=body, headers=HEADER | headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].encode() == MEDIA_TYPE
    return read_part(answer.content)


def begin(service: Service) -> None:
    """A continuity of a server that is known."""
    service.engine.writer.set_epoch(f"continuity@{SERVER}")
    service.engine.commit()


def same(whole: httpx.Response, part: httpx.Response) -> None:
    """Expect equal results or problems from both."""
    assert whole.status_code == part.status_code, (whole.text, part.text)
    if whole.status_code != 200:
        assert whole.json() == part.json()
        return
    head, results = read_part(part.content)
    assert [json.loads(result) for result in results] == whole.json()["results"]
    assert b",".join(results) in whole.content
    assert part.headers["upquery-version"] == version_text(head.position)
    assert head.cache_control == whole.headers["cache-control"] == part.headers["cache-control"]
    assert head.hit == part.headers["cache-status"].startswith("upquery; hit")
    assert head.since <= head.position


async def compare(service: Service, seed: int) -> set[str]:
    """Requests of any form, warm and cold; how those were answered that were right."""
    random, kinds = Random(seed), set()
    for _ in range(60):
        asked = request(random)
        await service.http.send(asked)
        whole, part = await service.http.send(asked), await service.http.send(as_part(asked))
        same(whole, part)
        kinds.add(part.headers.get("cache-status", ""))
        if whole.status_code == 200:
            assert part.headers["upquery-version"] == whole.headers["upquery-version"]
        gone = [key for key in FILLED if random.random() < 0.8]
        service.engine.commit(*gone)
        part = await service.http.send(as_part(asked))
        service.engine.commit(*gone)
        same(await service.http.send(asked), part)
        kinds.add(part.headers.get("cache-status", ""))
    return kinds


@pytest.mark.parametrize("seed", range(6))
def test_random_bodies(tmp_path: Path, seed: int) -> None:
    async def main() -> set[str]:
        async with running(tmp_path, LIMITS) as service:
            return await compare(service, seed)

    assert asyncio.run(main()) >= {"upquery; hit", "upquery; fwd=miss; stored"}


@pytest.mark.parametrize("raw", RAW)
def test_bodies_of_other_forms(run: Run, raw: bytes) -> None:
    async def test(service: Service) -> None:
        for path in ("/v1/views/story/query", "/v1/read"):
            asked = httpx.Request(
                "POST", f"http://test{path}", content=raw, headers={"content-type": "application/json"}
            )
            await service.http.send(asked)
            same(await service.http.send(asked), await service.http.send(as_part(asked)))

    run(test)


def test_hits_are_exact_since_the_last_of_them_changed(run: Run) -> None:
    async def test(service: Service) -> None:
        begin(service)
        reads = {"reads": [{"view": "story", "params": {"id": n}} for n in (7, 8)]}
        await part(service, "/v1/views/story/query", {"keys": [{"id": 7}]})
        await part(service, "/v1/views/story/query", {"keys": [{"id": 8}]})
        filled = service.engine.position
        for _ in range(5):
            service.engine.commit()
        for path, body in (("/v1/views/story/query", BOTH), ("/v1/read", reads)):
            head, results = await part(service, path, body)
            assert (head.since, head.position) == (filled, service.engine.position)
            assert (head.hit, head.exact, head.source) == (True, True, "stored")
            assert head.server == SERVER
            assert [json.loads(result)["rows"][0]["title"] for result in results] == ["Seven", "Eight"]

    run(test)


def test_a_miss_that_is_stored_is_exact_since_it_was_filled(run: Run) -> None:
    async def test(service: Service) -> None:
        begin(service)
        await part(service, "/v1/views/story/query", BOTH)
        service.engine.commit(LeafEvict(STORY_ID, ("8",)))
        head, results = await part(service, "/v1/views/story/query", BOTH)
        assert len(results) == 2
        assert (head.hit, head.exact) == (False, True)
        assert head.since <= head.position == service.engine.position

    run(test)


def test_what_is_exact_at_no_version_says_so(run: Run) -> None:
    async def test(service: Service) -> None:
        begin(service)
        head, results = await part(service, "/v1/views/current/query", {"keys": [{"id": 7}]})
        assert head.source == "current"
        assert not head.exact
        assert len(results) == 1
        # What was answered before is for those who ask alone.
        for _ in range(2):
            service.engine.commit(LeafEvict(STALE_ID, ("7",)))
            head, _ = await part(service, "/v1/views/stale/query", {"keys": [{"id": 7}]})
            assert head.exact

    run(test)


def test_nothing_is_meant_by_positions_of_a_server_that_is_not_known(run: Run) -> None:
    async def test(service: Service) -> None:
        for _ in range(2):
            service.engine.commit(LeafEvict(STORY_ID, ("8",)))
            head, _ = await part(service, "/v1/views/story/query", BOTH)
            assert not head.exact
            head, _ = await part(service, "/v1/views/story/query", BOTH)
            assert head.hit
            assert not head.exact

    run(test)


def test_a_part_says_which_definitions_its_views_have(run: Run) -> None:
    async def test(service: Service) -> None:
        begin(service)
        reads = [{"view": "story", "params": {"id": n}} for n in (7, 8)]
        reads.append({"view": "top"})
        names = [["story"], ["story", "top"]]
        infos = service.engine.writer.reader.catalog().by_name
        for cold in (True, False):
            for path, body, views in zip(
                ("/v1/views/story/query", "/v1/read"), (BOTH, {"reads": reads}), names, strict=True
            ):
                head, _ = await part(service, path, body)
                assert head.hit != cold
                assert head.views == {name: infos[name].definition for name in views}

    run(test)


def test_a_minimum_version_is_waited_for(run: Run) -> None:
    async def test(service: Service) -> None:
        head, _ = await part(service, "/v1/views/story/query", BOTH)
        later = version_text(head.position + 10)
        again, _ = await part(
            service, "/v1/views/story/query", BOTH, **{"upquery-min-version": later, "prefer": "wait=5"}
        )
        assert again.position >= head.position + 10

    run(test)


def test_a_part_is_not_compressed(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, HttpSettings(compress_bytes=100)) as service:
            app = Compression(service.app, 100)
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
                for headers, coding in (({}, "gzip"), (HEADER, None)):
                    for _ in range(2):
                        answer = await http.post(
                            "/v1/views/story/query", json=BOTH, headers={"accept-encoding": "gzip", **headers}
                        )
                        assert answer.headers.get("content-encoding") == coding
                        assert ("vary" in answer.headers) == (coding is not None)

    asyncio.run(main())


@pytest.mark.parametrize("body", [b"", b"{}", b"[]\n", b'{"results": []}', b"null\n\n", b"<html>\n"])
def test_what_is_no_part_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        read_part(body)


def test_a_part_that_was_cut_off_is_refused(run: Run) -> None:
    async def test(service: Service) -> None:
        answer = await service.http.post("/v1/views/story/query", json=BOTH, headers=HEADER)
        with pytest.raises(ValueError, match="truncated"):
            read_part(answer.content[:-1])

    run(test)
