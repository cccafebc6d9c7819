"""Views whose last answer may do for a while, while it is run again."""

import asyncio

import httpx
import pytest

from dataflow.engine.effects import LeafEvict
from dataflow.types import ViewId
from service.ground.version import version_text
from service.leaf_store.answer import StoredAnswer
from service.worker.reads.stale import StaleAnswers
from tests.service.engine.running import until
from tests.service.worker.conftest import SOON_ID, STALE_ID, Run, Service


async def get(service: Service, view: str, **headers: str) -> httpx.Response:
    return await service.http.get(f"/v1/views/{view}?id=7", headers=headers)


def spoil(service: Service, view: ViewId, title: str) -> None:
    """A change makes the answer stale; it has another title from now on."""
    service.engine.commit(LeafEvict(view, ("7",)))
    name = "stale" if view == STALE_ID else "soon"
    service.engine.rows[name, ("7",)] = [("7", title, "ann", "3")]


def titles(response: httpx.Response) -> list[str]:
    return [row["title"] for row in response.json()["rows"]]


def test_served_stale_while_it_is_run_again(run: Run) -> None:
    async def test(service: Service) -> None:
        first = await get(service, "stale")
        assert first.headers["cache-status"] == "upquery; fwd=miss; stored"
        hit = await get(service, "stale")
        assert hit.headers["cache-status"] == "upquery; hit"
        spoil(service, STALE_ID, "New")
        service.engine.gate = asyncio.Event()
        for _ in range(3):
            stale = await get(service, "stale")
            assert titles(stale) == ["Seven"]
            assert stale.headers["cache-status"] == "upquery; hit; detail=stale"
            # Its own version: the last at which it was seen to be exact.
            assert stale.headers["upquery-version"] == hit.headers["upquery-version"]
            assert stale.headers["etag"] == hit.headers["etag"]
        await until(lambda: len(service.engine.reads) == 2)
        service.engine.gate.set()

        async def is_new() -> bool:
            return titles(await get(service, "stale")) == ["New"]

        async with asyncio.timeout(10):
            while not await is_new():
                await asyncio.sleep(0.01)
        assert len(service.engine.reads) == 2

    run(test)


def test_not_for_who_wants_a_newer_version(run: Run) -> None:
    async def test(service: Service) -> None:
        await get(service, "stale")
        spoil(service, STALE_ID, "New")
        newer = {"Upquery-Min-Version": version_text(service.engine.position)}
        assert titles(await get(service, "stale", **newer)) == ["New"]

    run(test)


def test_not_when_it_is_too_old_or_the_refill_fails(run: Run) -> None:
    async def test(service: Service) -> None:
        for view, name in ((SOON_ID, "soon"), (STALE_ID, "stale")):
            await get(service, name)
            spoil(service, view, "New")
        assert titles(await get(service, "soon")) == ["New"]
        service.engine.failure = RuntimeError("no")
        for _ in range(2):
            assert titles(await get(service, "stale")) == ["Seven"]

    run(test)


@pytest.mark.parametrize("count", [10, 1000])
def test_what_is_kept_is_bounded(count: int) -> None:
    kept = StaleAnswers(max_bytes=100_000)
    for n in range(count):
        kept.keep((STALE_ID, (str(n),), None), StoredAnswer(b"x" * 1000, "", None), n, n)
        assert kept.find((STALE_ID, ("0",), None), 0, 0) is not None
    assert len(kept) == min(count, 58)
    # An answer that came late does not replace a newer one.
    kept.keep((STALE_ID, ("0",), None), StoredAnswer(b"new", "", None), 5, 5)
    kept.keep((STALE_ID, ("0",), None), StoredAnswer(b"old", "", None), 4, 4)
    found = kept.find((STALE_ID, ("0",), None), 5, 5)
    assert found is not None
    assert found[0].rows == b"new"
    assert kept.find((STALE_ID, ("0",), None), 6, 5) is None
    assert kept.find((STALE_ID, ("0",), None), 5, 6) is None
