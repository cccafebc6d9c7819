"""A view that is being built is not answered from what the leaf store has of it so far, whichever way it is asked."""

from dataflow.engine.effects import LeafChange, LeafFillAll, LeafLoaded
from service.leaf_store.writer import LeafWriter
from service.worker.reads.followed_leaf import look
from service.worker.reads.reads import WantedRead
from tests.service.worker.conftest import BUILDING_ID, Run, Service

ROW = ("7", "Seven", "ann", "3")


def _commit_half(writer: LeafWriter) -> None:
    writer.commit([LeafFillAll(BUILDING_ID, {}), LeafChange(BUILDING_ID, {("7",): ([], [ROW])})], 20, 0)


def test_nothing_of_it_is_answered_before_it_is_loaded(run: Run) -> None:
    async def statuses(service: Service) -> list[int]:
        batch = {"reads": [{"view": "building", "params": {"id": 7}}, {"view": "building", "params": {"id": 8}}]}
        return [
            (await service.http.get("/v1/views/building?id=7")).status_code,
            (await service.http.get("/v1/views/building?id=8")).status_code,
            (await service.http.post("/v1/views/building/query", json={"keys": [{"id": 7}]})).status_code,
            (await service.http.post("/v1/read", json=batch)).status_code,
        ]

    async def test(service: Service) -> None:
        writer = service.engine.writer
        _commit_half(writer)
        assert await statuses(service) == [503, 503, 503, 503]
        wanted = _wanted(service)
        assert look(service.app.reads, wanted)[1][0].answer is None

        writer.set_status(BUILDING_ID, "ready")
        writer.commit([LeafLoaded(BUILDING_ID)], 30, 0)
        assert await statuses(service) == [200, 200, 200, 200]
        (found,) = look(service.app.reads, wanted)[1]
        # The row was written at 20, when nobody could have read it: it is known to be exact from 30 on.
        assert found.answer is not None
        assert found.since == 30

        writer.commit([LeafChange(BUILDING_ID, {("7",): ([ROW], [("7", "7", "ann", "3")])})], 40, 0)
        assert look(service.app.reads, wanted)[1][0].since == 40
        assert not service.engine.reads

    def _wanted(service: Service) -> list[WantedRead]:
        service.app.reads.refresh()
        return [WantedRead(service.app.reads.routes["building"], ("7",))]

    run(test)
