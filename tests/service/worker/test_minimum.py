"""Reads that ask for transactions by their global ids."""

import asyncio
from typing import cast

from cdc.gtid import GtidPosition, Gtids
from cdc.mysql.position import position_of
from service.leaf_store.answer import LeafState
from service.protocol.engine_client import EngineClient
from service.worker.reads.minimum import Minimums
from tests.service.worker.conftest import Run, Service

STORY = "/v1/views/story?id=7"
SET = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7"


def as_mariadb(service: Service) -> None:
    """The store's positions are a binary log's from now on."""
    service.engine.position = position_of("binlog.000001", 400)
    service.engine.gtids = GtidPosition.parse("0-1-10")
    service.engine.commit()


def test_a_read_waits_for_them(run: Run) -> None:
    async def test(service: Service) -> None:
        as_mariadb(service)
        service.engine.gate = asyncio.Event()
        reading = asyncio.ensure_future(
            service.http.get(STORY, headers={"Upquery-Min-Version": "0-1-11,2-1-1", "Prefer": "wait=5"})
        )
        while not service.engine.reaching:
            await asyncio.sleep(0.001)
        assert not reading.done()
        service.engine.gate.set()
        assert (await reading).status_code == 200
        assert GtidPosition.parse("0-1-11,2-1-1") <= service.engine.gtids

    run(test)


def test_what_was_there_once_is_not_asked_for_again(run: Run) -> None:
    async def test(service: Service) -> None:
        as_mariadb(service)
        body = {"keys": [{"id": 7}]}
        for gtids in ("0-1-12", "0-1-12", "0-1-11", "0-2-9"):
            headers = {"Upquery-Min-Version": gtids}
            assert (await service.http.get(STORY, headers=headers)).status_code == 200
            assert (await service.http.post("/v1/views/story/query", json=body, headers=headers)).status_code == 200
        assert service.engine.reaching == 1

    run(test)


class Reached:
    """An engine that has everything."""

    async def reach_gtids(self, gtids: Gtids, timeout_s: float) -> None:
        """At once."""


def test_what_was_there_is_not_there_in_another_continuity() -> None:
    minimums = Minimums(cast("EngineClient", Reached()))
    at, wanted = position_of("binlog.000001", 400), GtidPosition.parse("0-1-7")
    before, after = (LeafState(at, 0, epoch, 1) for epoch in ("one", "another"))
    assert not minimums.has(before, wanted)
    asyncio.run(minimums.wait(before, wanted, 1.0))
    assert minimums.has(before, wanted)
    assert minimums.has(before, GtidPosition.parse("0-2-6"))
    assert not minimums.has(after, wanted)


def test_those_that_do_not_come_or_cannot(run: Run) -> None:
    async def test(service: Service) -> None:
        foreign = await service.http.get(STORY, headers={"Upquery-Min-Version": "0-1-7"})
        assert (foreign.status_code, foreign.json()["code"]) == (400, "bad_request")
        assert "PostgreSQL" in foreign.json()["detail"]
        as_mariadb(service)
        for method, path, body in (("GET", STORY, None), ("POST", "/v1/views/story/query", {"keys": [{"id": 7}]})):
            of_postgres = await service.http.request(method, path, json=body, headers={"Upquery-Min-Version": "0/1"})
            assert (of_postgres.status_code, of_postgres.json()["code"]) == (400, "bad_request")
        of_mysql = await service.http.get(STORY, headers={"Upquery-Min-Version": SET})
        assert (of_mysql.status_code, of_mysql.json()["code"]) == (400, "bad_request")
        service.engine.gate = asyncio.Event()
        headers = {"Upquery-Min-Version": "0-1-99", "Prefer": "wait=0.01"}
        late = await service.http.get(STORY, headers=headers)
        assert (late.status_code, late.json()["code"]) == (504, "version_timeout")
        late = await service.http.post(
            "/v1/read", json={"reads": [{"view": "story", "params": {"id": 7}}]}, headers=headers
        )
        assert (late.status_code, late.json()["code"]) == (504, "version_timeout")

    run(test)
