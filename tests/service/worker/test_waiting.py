"""Requests that wait for the engine: for how long, and how many."""

import asyncio
import time
from pathlib import Path

from service.settings.sections import HttpSettings
from tests.service.worker.conftest import Run, Service, runner
from tests.service.worker.test_problems import check_problem

LIMITS = HttpSettings(read_timeout_s=0.05, max_body_bytes=4096, max_keys=20, max_wait_s=20.0, waiting_reads=3)


def test_more_waiting_requests_than_allowed_are_refused_and_hits_are_not(tmp_path: Path) -> None:
    async def test(service: Service) -> None:
        await service.http.get("/v1/views/story?id=7")
        service.engine.gate = asyncio.Event()
        patient = {"Prefer": "wait=15"}
        later = {"Upquery-Min-Version": "0/16B3800", **patient}
        waiting = [
            asyncio.create_task(service.http.get("/v1/views/story?id=8", headers=patient)),
            asyncio.create_task(service.http.get("/v1/views/story?id=7", headers=later)),
            asyncio.create_task(service.http.post("/v1/read", json=BOTH, headers=patient)),
        ]
        async with asyncio.timeout(20):
            while not (len(service.engine.reads) == 3 and service.engine.reaching):
                await asyncio.sleep(0)
        for refused in (
            await service.http.get("/v1/views/story?id=9"),
            await service.http.get("/v1/views/story?id=7", headers=later),
            await service.http.post("/v1/read", json=BOTH),
            await service.http.post("/v1/checkpoint"),
        ):
            assert check_problem(refused, 503, "overloaded")["retryable"]
            assert refused.headers["retry-after"] == "1"
        assert len(service.engine.reads) == 3
        assert (await service.http.get("/v1/views/story?id=7")).headers["cache-status"] == "upquery; hit"
        service.engine.gate.set()
        assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [200] * 3
        assert (await service.http.get("/v1/views/story?id=9")).status_code == 200

    runner(tmp_path, LIMITS)(test)


BOTH = {"reads": [{"view": "story", "params": {"id": 8}}, {"view": "kept", "params": {"id": 7}}]}


def test_who_gives_up_waits_no_more(run_impatient: Run) -> None:
    async def test(service: Service) -> None:
        service.engine.gate = asyncio.Event()
        for _ in range(2):
            check_problem(await service.http.get("/v1/views/story?id=8"), 504, "read_timeout")
        service.engine.gate.set()
        patient = {"Prefer": "wait=20"}
        assert (await service.http.get("/v1/views/story?id=8", headers=patient)).status_code == 200

    run_impatient(test)


def test_a_client_may_wait_longer_than_the_limit_and_not_longer_than_its_own(tmp_path: Path) -> None:
    limits = HttpSettings(read_timeout_s=0.02, max_wait_s=0.3, max_body_bytes=4096, max_keys=20)

    async def test(service: Service) -> None:
        service.engine.gate = asyncio.Event()
        later = {"Upquery-Min-Version": "0/16B3800"}
        for headers, code in (({}, "read_timeout"), (later, "version_timeout")):
            for prefer, least_s in (("wait=0", 0.0), ("wait=0.1", 0.1), ("respond-async, wait=3600", 0.3)):
                started = time.monotonic()
                answer = await service.http.get("/v1/views/story?id=8", headers={**headers, "Prefer": prefer})
                check_problem(answer, 504, code)
                assert time.monotonic() - started >= least_s

    runner(tmp_path, limits)(test)
