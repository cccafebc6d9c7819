"""The batch route answers what the documented application answers, whatever the body."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from dataflow.engine.effects import LeafEvict
from service.settings.sections import HttpSettings
from service.web.body_limit import BodyLimit
from service.worker.reads.batches import Batches
from service.worker.reads.reads import Reads
from service.worker.reads.view_reads import ViewReads
from service.worker.routes.documented import documented_app
from tests.service.worker.conftest import AMONG_ID, AUTHOR_ID, LIST_ID, RANGE_ID, STORY_ID, Run, Service, running

LIMITS = HttpSettings(read_timeout_s=5.0, max_body_bytes=4096, max_keys=20)
#: What a parameter may be given as: right, spelled otherwise, wrong.
IDS: list[Any] = [7, 7, 8, 8, 99, "7", "07", " 7", -0, 0, -8, True, None, 7.0, 1.5, 2**62, 2**63, 10**25, "", [7], {}]
AUTHORS: list[Any] = ["ann", "ann", "bob", "", "é", "a\0b", "%d", "x" * 300, 5, None, ["ann"], ["bob", "ann", None]]
LISTS: list[Any] = [
    [7, 8],
    [8, 7, 99],
    list(range(1, 15)),
    [7, None, -8],
    8,
    [],
    [8, "8", "08"],
    [7, 7],
    list(range(30)),
    [None],
    [True],
    ["x"],
    [1.5],
    [[7]],
    "7",
    None,
]
COUNTS: list[Any] = [0, 1, 2, "3", -1, None, True, "many"]
VALUES = {
    "id": IDS,
    "ids": LISTS,
    "author": AUTHORS,
    "authors": AUTHORS,
    "least": COUNTS,
    "below": COUNTS,
    "n": COUNTS,
    "m": COUNTS,
    "votes": COUNTS,
    "other": [1],
}
VIEWS = {
    "story": ["id"],
    "among": ["author", "ids"],
    "stories_of": ["author"],
    "votes_of": ["id", "author"],
    "top": [],
    "between": ["author", "least", "below"],
    "of_authors": ["authors"],
    "first": ["author", "n", "m"],
    "refreshed": ["authors", "votes"],
    "broken": ["id"],
    "building": ["id"],
    "nothing": [],
}
#: Bodies that no serializer makes.
RAW = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff",
    b'\xef\xbb\xbf{"keys": []}',
    '{"keys": []}'.encode("utf-16"),
    b" " * 5000,
    b'{"keys": [{"id": NaN}]}',
    b'{"keys": [{"id": 7, "id": 8}]}',
    b'{"keys": [{"id": 1e2}]}',
    b'{"keys": ["id"]}',
    b'{"keys": [{"id": 70000000000000000000}]}',
    b'{"keys": {"id": 7}}',
    b'{"keys": [], "x": 1}',
    b'{"keys": [[7]]}',
    b'{"keys":[{"id":07}]}',
    b'{"keys":[{"id":7},{"id":}]}',
    b'{"keys":[{"id":7},{"id":08}]}',
    b'{"keys":[{"id":7 8}]}',
    b'{"keys":[{"id":7}, {"id":8}]}',
    b'{"keys":[{"id":}]}',
    b'{"keys":[{"id":7},{"id":1000000000000000000}]}',
    b'{"keys": [{"id": "\\ud800"}]}',
    b'{"reads": [{"view": "of_authors", "params": {"authors": [1e1]}}]}',
]
#: Keys that go now and then.
FILLED = [
    LeafEvict(view, (text,))
    for view, text in ((STORY_ID, "7"), (STORY_ID, "8"), (AUTHOR_ID, "ann"), (RANGE_ID, "ann"), (LIST_ID, "bob"))
] + [LeafEvict(AMONG_ID, ("ann", text)) for text in ("7", "8", "14", "99")]


def key(random: Random, view: str) -> Any:
    """Parameters for a view, mostly right."""
    names = list(VIEWS[view])
    if random.random() < 0.01:
        names.append(random.choice(list(VALUES)))
    if names and random.random() < 0.01:
        names.pop()
    # Mostly from the beginning of the lists.
    return {name: VALUES[name][int(random.random() ** 8 * len(VALUES[name]))] for name in names}


def item(random: Random) -> Any:
    view = random.choice(list(VIEWS)[: random.choice((3, 5, 9, 9, 9, 12))])
    read: dict[str, Any] = {"view": view, "params": key(random, view)}
    if random.random() < 0.2:
        read["limit"] = random.choice((1, 2, 100, None, None, 0, True, 1.0, "2")[: random.choice((5, 5, 9))])
    if random.random() < 0.1:
        read["after"] = random.choice((None, None, None, "zzz", 7))
    if random.random() < 0.01:
        read["x"] = 1
    if random.random() < 0.01:
        del read[random.choice(list(read))]
    return read if random.random() < 0.99 else random.choice(("story", None, []))


def request(random: Random) -> httpx.Request:
    headers = {"content-type": "application/json"}
    if random.random() < 0.1:
        headers["content-type"] = random.choice(("text/plain", "application/json; charset=utf-8", "application/x+json"))
    if random.random() < 0.1:
        headers["upquery-min-version"] = random.choice(("0/0", "pg:0/1", "yesterday"))
    if random.random() < 0.05:
        headers["prefer"] = random.choice(("wait=1", "wait=soon", "x"))
    n = int(random.random() ** 2 * 12)
    if random.random() < 0.5:
        path, body = "/v1/read", {"reads": [item(random) for _ in range(n)]}
    else:
        view = random.choice(list(VIEWS))
        path, body = f"/v1/views/{view}/query", {"keys": [key(random, view) for _ in range(n)]}
    raw = json.dumps(body).encode() if random.random() < 0.95 else random.choice(RAW)
    return httpx.Request("POST", f"http://test{path}", content=raw, headers=headers)


def shown(answer: httpx.Response, *, with_version: bool) -> tuple[Any, ...]:
    """All that has to be the same. What is filled in between has a later version."""
    changing = {"server-timing", "upquery-age-ms", "age"} | (
        set() if with_version else {"upquery-version", "content-length"}
    )
    headers = sorted((name, value) for name, value in answer.headers.items() if name not in changing)
    body: Any = answer.content
    if not with_version and answer.status_code == 200:
        body = answer.json()["results"]
    return answer.status_code, headers, body


async def compare(service: Service, seed: int) -> tuple[bool, bool]:
    """Send equal requests to both, warm and cold. Returns whether there were hits and misses."""
    random = Random(seed)
    reads = Reads(service.engine.writer.reader, service.client, LIMITS)
    plain = BodyLimit(documented_app(reads, Batches(reads, ViewReads(reads))), LIMITS.max_body_bytes)
    transport = httpx.ASGITransport(plain, raise_app_exceptions=False)
    kinds = set()
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as documented:
        for _ in range(60):
            asked = request(random)
            await service.http.send(asked)
            fast, slow = await service.http.send(asked), await documented.send(asked)
            assert shown(fast, with_version=True) == shown(slow, with_version=True), asked.content
            kinds.add(fast.headers.get("cache-status"))
            gone = [key for key in FILLED if random.random() < 0.8]
            service.engine.commit(*gone)
            fast = await service.http.send(asked)
            service.engine.commit(*gone)
            slow = await documented.send(asked)
            assert shown(fast, with_version=False) == shown(slow, with_version=False), asked.content
            kinds.add(fast.headers.get("cache-status"))
    return "upquery; hit" in kinds, "upquery; fwd=miss; stored" in kinds


@pytest.mark.parametrize("seed", range(12))
def test_random_bodies(tmp_path: Path, seed: int) -> None:
    async def main() -> tuple[bool, bool]:
        async with running(tmp_path, LIMITS) as service:
            return await compare(service, seed)

    assert asyncio.run(main()) == (True, True)


@pytest.mark.parametrize("raw", RAW)
def test_bodies_of_other_forms(run: Run, raw: bytes) -> None:
    async def test(service: Service) -> None:
        reads = Reads(service.engine.writer.reader, service.client, LIMITS)
        plain = BodyLimit(documented_app(reads, Batches(reads, ViewReads(reads))), LIMITS.max_body_bytes)
        transport = httpx.ASGITransport(plain, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as documented:
            for path in ("/v1/views/story/query", "/v1/read"):
                asked = httpx.Request(
                    "POST", f"http://test{path}", content=raw, headers={"content-type": "application/json"}
                )
                await service.http.send(asked)
                fast, slow = await service.http.send(asked), await documented.send(asked)
                assert shown(fast, with_version=True) == shown(slow, with_version=True)

    run(test)


def test_a_body_in_parts_is_put_together(run: Run) -> None:
    async def test(service: Service) -> None:
        body = json.dumps({"keys": [{"id": 7}, {"id": 8}]}).encode()

        async def parts() -> Any:
            for i in range(0, len(body), 7):
                yield body[i : i + 7]

        headers = {"content-type": "application/json", "content-length": str(len(body))}
        answer = await service.http.post("/v1/views/story/query", content=parts(), headers=headers)
        assert [result["rows"][0]["title"] for result in answer.json()["results"]] == ["Seven", "Eight"]

    run(test)


def test_a_version_that_is_there_is_answered_and_one_to_come_is_waited_for(run: Run) -> None:
    async def test(service: Service) -> None:
        body = {"keys": [{"id": 7}]}
        first = await service.http.post("/v1/views/story/query", json=body)
        version = first.headers["upquery-version"]
        headers = {"upquery-min-version": version, "prefer": "wait=2"}
        again = await service.http.post("/v1/views/story/query", json=body, headers=headers)
        assert again.headers["upquery-version"] == version
        assert again.headers["cache-status"] == "upquery; hit"
        headers = {"upquery-min-version": "0/16B3800"}
        later = await service.http.post("/v1/views/story/query", json=body, headers=headers)
        assert later.headers["upquery-version"] >= "pg:0/16B3800"

    run(test)
