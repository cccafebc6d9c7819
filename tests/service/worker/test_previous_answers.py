"""Reads of a session that begins empty: answers of the session before, until the cache is warm."""

import time
from collections.abc import Callable

import httpx

from dataflow.engine.effects import LeafEvict
from service.ground.version import version_text
from service.leaf_store.serving_options import OnLag, Serving
from service.leaf_store.writer import LeafWriter
from tests.service.leaf_store.sample_views import STORY, make_view
from tests.service.worker.conftest import Run, Service

STALE = "upquery; hit; detail=stale"
AGAIN = "again"
BOUNDS = {"current": OnLag.FORWARD, "waiting": OnLag.WAIT, "lenient": OnLag.SERVE}


def register(writer: LeafWriter) -> None:
    """`STORY`, views like it with a maximum age of a minute, and one that is served stale while it is computed."""
    writer.register(writer.new_id(), STORY, meaning="same")
    writer.register(writer.new_id(), make_view(AGAIN, {"id": 0}), serving=Serving(stale_ms=60_000), meaning="same")
    for name, on_lag in BOUNDS.items():
        serving = Serving(max_lag_ms=60_000, on_lag=on_lag)
        writer.register(writer.new_id(), make_view(name, {"id": 0}), serving=serving, meaning="same")


async def begin(service: Service, *views: str, age_s: int = 1) -> None:
    """Store key 7 of views, end the session, and begin another that has stored nothing."""
    engine = service.engine
    now_ms = int(time.time() * 1000)
    engine.writer.reset("before")
    register(engine.writer)
    for name in views:
        engine.rows[name, ("7",)] = [("7", "Old", "ann", "3")]
        engine.writer.commit([], engine.position, now_ms)
        assert (await get(service, name)).json()["rows"][0]["title"] == "Old"
        engine.rows[name, ("7",)] = [("7", "New", "ann", "3")]
    engine.writer.commit([], engine.position, now_ms - age_s * 1000)
    engine.writer.reset("now", aside=True)
    register(engine.writer)
    engine.position += 8
    engine.writer.commit([], engine.position, now_ms)
    engine.reads.clear()


async def get(service: Service, view: str, key: int = 7, **headers: str) -> httpx.Response:
    return await service.http.get(f"/v1/views/{view}?id={key}", headers=headers)


def title(response: httpx.Response) -> str:
    (row,) = response.json()["rows"]
    return str(row["title"])


def test_a_hole_is_answered_as_before(run: Run) -> None:
    async def test(service: Service) -> None:
        await begin(service, "story")
        position = service.engine.position - 8
        for _ in range(2):
            answer = await get(service, "story")
            assert (title(answer), answer.headers["cache-status"]) == ("Old", STALE)
            assert answer.headers["upquery-version"] == version_text(position)
            assert 1000 <= int(answer.headers["upquery-age-ms"]) < 60_000
        assert not service.engine.reads
        assert service.app.counters()["story"].hits >= 2
        # A key that was a hole before is filled, and another's answer is no older than before.
        assert (await get(service, "story", 8)).headers["cache-status"] == "upquery; fwd=miss; stored"

    run(test)


def test_what_is_stored_anew_is_answered(run: Run) -> None:
    async def test(service: Service) -> None:
        await begin(service, "story")
        newer = {"Upquery-Min-Version": version_text(service.engine.position)}
        filled = await get(service, "story", **newer)
        assert (title(filled), filled.headers["cache-status"]) == ("New", "upquery; fwd=miss; stored")
        hit = await get(service, "story")
        assert (title(hit), hit.headers["cache-status"]) == ("New", "upquery; hit")

    run(test)


def test_a_batch_is_answered_from_one_session(run: Run) -> None:
    async def test(service: Service) -> None:
        await begin(service, "story")

        async def batch(*keys: int) -> httpx.Response:
            reads = [{"view": "story", "params": {"id": key}} for key in keys]
            return await service.http.post("/v1/read", json={"reads": reads})

        before = await batch(7, 7)
        assert before.json()["version"] == version_text(service.engine.position - 8)
        assert [result["rows"][0]["title"] for result in before.json()["results"]] == ["Old", "Old"]
        # Key 8 was a hole then.
        now = await batch(7, 8)
        assert now.json()["version"] == version_text(service.engine.position)
        assert [result["rows"][0]["title"] for result in now.json()["results"]] == ["New", "Eight"]

    run(test)


def test_not_beyond_the_bounds_of_views(run: Run) -> None:
    async def test(service: Service) -> None:
        for age_s, lenient in ((1, True), (61, False)):
            await begin(service, *BOUNDS, age_s=age_s)
            for name, on_lag in BOUNDS.items():
                expected = "Old" if lenient or on_lag is OnLag.SERVE else "New"
                assert title(await get(service, name)) == expected

    run(test)


def test_not_once_they_are_withdrawn(run: Run) -> None:
    async def test(service: Service) -> None:
        writer = service.engine.writer
        ways: list[Callable[[], None]] = [lambda: writer.delete_previous(100), writer.withdraw_previous]
        for withdraw in ways:
            await begin(service, "story")
            assert title(await get(service, "story")) == "Old"
            withdraw()
            writer.commit([], service.engine.position, int(time.time() * 1000))
            assert title(await get(service, "story")) == "New"
            service.engine.commit(LeafEvict(writer.reader.catalog().by_name["story"].id, ("7",)))
            assert (await get(service, "story")).headers["cache-status"] == "upquery; fwd=miss; stored"

    run(test)


def test_not_to_a_read_with_a_minimum_version(run: Run) -> None:
    """Even an old one may be of another log, if the database was restored from a backup."""

    async def test(service: Service) -> None:
        await begin(service, "story")
        old = {"Upquery-Min-Version": version_text(service.engine.position - 8)}
        assert title(await get(service, "story")) == "Old"
        assert title(await get(service, "story", **old)) == "New"

    run(test)


def test_they_are_not_taken_for_newer_answers(run: Run) -> None:
    """A view that is served stale: an answer that was stored and evicted is newer."""

    async def test(service: Service) -> None:
        await begin(service, AGAIN)
        view = service.engine.writer.reader.catalog().by_name[AGAIN].id
        assert title(await get(service, AGAIN)) == "Old"
        newest = {"Upquery-Min-Version": version_text(service.engine.position)}
        assert title(await get(service, AGAIN, **newest)) == "New"
        service.engine.commit(LeafEvict(view, ("7",)))
        assert title(await get(service, AGAIN)) == "New"

    run(test)
