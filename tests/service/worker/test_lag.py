"""Views that say what is done when answers are too old. The engine of these tests is years behind."""

import json
import re
from typing import Any

import httpx

from service.ground.errors import ApiError
from service.ground.version import version_text
from tests.service.worker.conftest import Run, Service

ROWS = [{"id": 7, "title": "Seven", "author": "ann", "votes": 3}]


async def get(service: Service, view: str) -> httpx.Response:
    return await service.http.get(f"/v1/views/{view}?id=7")


def test_an_answer_that_is_too_old_is_waited_for(run: Run) -> None:
    async def test(service: Service) -> None:
        for status in ("fwd=miss; stored", "hit"):
            before = service.engine.position
            service.engine.ahead = 16
            response = await get(service, "waiting")
            assert response.json()["rows"] == ROWS
            assert response.headers["cache-status"] == f"upquery; {status}"
            # It has what was committed when it was asked for, so it is no older than that.
            assert response.headers["upquery-version"] >= version_text(before + 16)
            assert int(response.headers["upquery-age-ms"]) < 60_000

    run(test)


def test_waiting_ends(run: Run) -> None:
    async def test(service: Service) -> None:
        service.engine.failure = ApiError("upstream_unavailable", "There is no stream.", retryable=True)
        response = await get(service, "waiting")
        assert response.status_code == 503
        detail = response.json()["detail"]
        assert re.fullmatch(
            r"Cached answers are \d+ ms old, and view 'waiting' allows \d+ .* There is no stream\.", detail
        )

    run(test)


def test_an_answer_that_is_too_old_is_the_databases_own(run: Run) -> None:
    async def test(service: Service) -> None:
        for _ in range(2):
            response = await get(service, "current")
            assert response.json()["rows"] == ROWS
            assert response.headers["cache-status"] == "upquery; fwd=stale"
            # It is exact at none that is known.
            assert response.json()["version"] is None
            assert "upquery-version" not in response.headers
        assert len(service.engine.asked_now) == 2
        asked = version_text(service.engine.position)
        headers = {"upquery-min-version": asked}
        await service.http.get("/v1/views/current?id=7", headers=headers)
        assert service.engine.minimums == [None, None, service.engine.position]
        assert service.engine.reads == []

    run(test)


def test_batches_do_the_same(run: Run) -> None:
    async def test(service: Service) -> None:
        async def posted(path: str, body: dict[str, Any]) -> httpx.Response:
            headers = {"content-type": "application/json"}
            return await service.http.post(path, content=json.dumps(body), headers=headers)

        for _ in range(2):
            keys = await posted("/v1/views/current/query", {"keys": [{"id": 7}, {"id": 8}]})
            assert [result["rows"] for result in keys.json()["results"]] == [ROWS, []]
            assert keys.json()["version"] is None
            assert "upquery-version" not in keys.headers
            assert keys.headers["cache-status"] == "upquery; fwd=stale"
        reads = [{"view": view, "params": {"id": 7}} for view in ("story", "current")]
        assert (await posted("/v1/read", {"reads": reads})).headers["cache-status"] == "upquery; fwd=stale"
        # One that waits decides for all.
        reads.append({"view": "waiting", "params": {"id": 7}})
        assert (await posted("/v1/read", {"reads": reads})).headers["cache-status"] == "upquery; fwd=miss; stored"

    run(test)
