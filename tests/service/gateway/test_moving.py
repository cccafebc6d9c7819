"""Another number of shards: which slots move, when, and that answers are right meanwhile."""

import asyncio
from contextlib import suppress

import httpx
import pytest

from dataflow.engine.effects import LeafFillAll
from dataflow.types import ViewId
from service.gateway.homes import home_of
from service.gateway.moving import SlotHomes
from service.leaf_store.catalog import ELSEWHERE
from service.sharding.homes import SLOTS, homes_among
from tests.service.gateway.conftest import Run, Site, section_at, section_of, served_gateway
from tests.service.gateway.scripted import answering, response, scripted, until
from tests.service.gateway.test_batches import batch
from tests.service.leaf_store.sample_views import make_view
from tests.service.worker.shards.conftest import WHOLE


def homes(slots: SlotHomes) -> list[int]:
    return list(map(slots.home, range(SLOTS)))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (3, 2), (2, 64)])
def test_slots_move_one_by_one_to_where_they_belong(before: int, after: int) -> None:
    slots = SlotHomes(before)
    old, new = homes(slots), [homes_among(after).of_slot(slot) for slot in range(SLOTS)]
    slots.change(after, 100.0, 10.0)
    assert homes(slots) == old
    moving = sum(map(int.__ne__, old, new))
    for tenth in range(1, 10):
        assert not slots.move(100.0 + tenth)
        now = homes(slots)
        assert all(home in (was, will) for home, was, will in zip(now, old, new, strict=True))
        assert sum(map(int.__ne__, now, old)) == pytest.approx(moving * tenth / 10, abs=2)
    assert slots.move(110.0)
    assert homes(slots) == new
    assert slots.moved == moving
    assert not slots.is_moving


def test_a_change_of_mind_begins_where_things_are() -> None:
    slots = SlotHomes(2)
    slots.change(3, 0.0, 10.0)
    slots.move(5.0)
    between = homes(slots)
    assert 2 in between
    slots.change(2, 5.0, 10.0)
    assert homes(slots) == between
    slots.move(15.0)
    assert homes(slots) == homes(SlotHomes(2))


def test_a_change_may_be_made_at_once() -> None:
    slots = SlotHomes(2)
    slots.change(3, 5.0, 0.0)
    slots.move(5.0)
    assert homes(slots) == homes(SlotHomes(3))


async def read_all(site: Site, ids: range) -> None:
    """Every key is right, by itself and together."""
    for n in ids:
        answer = await site.http.get(f"/v1/views/story?id={n}")
        assert answer.status_code == 200, answer.text
        assert answer.json()["rows"][0]["title"] == f"Title {n}"
    together = await batch(site, *ids)
    assert [result["rows"][0]["title"] for result in together.json()["results"]] == [f"Title {n}" for n in ids]


async def whole(site: Site) -> list[str]:
    return [(await site.http.get(f"/v1/views/{name}")).json()["rows"][0]["title"] for name in WHOLE]


def test_one_shard_more(run: Run) -> None:
    async def test(site: Site) -> None:
        ids = range(1, 40)
        await read_all(site, ids)
        assert await whole(site) == ["of 0", "of 1"]
        new = await site.add()
        # Nothing moves to who is not there.
        await new.served.stop()
        site.gateway.topology.change(section_of(site.pods))
        await read_all(site, ids)
        assert site.gateway.topology.settled == 2
        assert not site.gateway.topology.homes.moved
        await new.served.start()
        while site.gateway.topology.settled == 2:
            await read_all(site, ids)
            assert await whole(site) == ["of 0", "of 1"]
        await read_all(site, ids)
        moved = [n for n in ids if home_of(3, "story", {"id": n}) == 2]
        assert sum(map(len, new.engine.reads)) >= len(moved) > 0
        assert await whole(site) == ["of 0", "of 1"]

    run(test)


def test_a_view_that_is_kept_whole_moves_when_its_new_home_has_it(run: Run) -> None:
    async def test(site: Site) -> None:
        new = await site.add()
        name = next(name for n in range(100) if homes_among(3).of_view(name := f"moving{n}") == 2)
        home, view = homes_among(2).of_view(name), ViewId(103)
        for number, engine in enumerate(site.engines):
            status = "ready" if number == home else "building" if number == 2 else ELSEWHERE
            engine.writer.register(view, make_view(name, {}), status=status)
            engine.commit()

        def fill(number: int, title: str) -> None:
            site.engines[number].commit(LeafFillAll(view, {(): [("1", title, "ann", "3")]}))

        async def title() -> str:
            return str((await site.http.get(f"/v1/views/{name}")).json()["rows"][0]["title"])

        fill(home, "of the old one")
        assert await title() == "of the old one"
        site.gateway.topology.change(section_of(site.pods))
        await until(lambda: site.gateway.topology.homes.is_moving)
        assert await title() == "of the old one"
        # The build takes longer than keys do; which views are kept whole is found out anew.
        await until(lambda: site.gateway.topology.settled == 3)
        together = {"reads": [{"view": "story", "params": {"id": 1}}, {"view": name, "params": {}}]}
        answer = await site.http.post("/v1/read", json=together)
        assert answer.json()["results"][1]["rows"][0]["title"] == "of the old one"
        assert await title() == "of the old one"
        new.engine.writer.set_status(view, "ready")
        fill(2, "of the new one")
        site.gateway.topology.change(section_of(site.pods))
        assert await title() == "of the new one"

    run(test)


def test_one_shard_less(run: Run) -> None:
    async def test(site: Site) -> None:
        ids = range(1, 40)
        await read_all(site, ids)
        site.gateway.topology.change(section_of(site.pods[:2]))
        while site.gateway.topology.settled == 3:
            await read_all(site, ids)
        # Who has chosen that shard a moment ago asks another one.
        assert site.gateway.topology.pods(2).number == 0
        await site.pods[2][0].served.stop()
        await read_all(site, ids)

    run(test, 3)


def test_a_shard_that_is_gone_before_its_keys_have_moved(run: Run) -> None:
    async def test(site: Site) -> None:
        await site.pods[2][0].served.stop()
        site.gateway.topology.change(section_of(site.pods[:2]))
        with suppress(httpx.HTTPError):
            await site.http.get("/v1/views/story?id=1")
        await until(lambda: site.gateway.topology.away or site.gateway.topology.settled == 2)
        await read_all(site, range(1, 40))

    run(test, 3)


def test_an_admin_port_that_moves_is_the_one_that_is_asked() -> None:
    wants_token = answering(*[response(b"{}", b"401 Unauthorized")] * 4)

    async def main() -> None:
        async with (
            scripted(wants_token) as pod,
            scripted(answering(response(b"{}", b"503 Service Unavailable"))) as before,
            scripted(answering(response(b"{}"))) as after,
            served_gateway(section_at(((pod.address,),), ((before.address,),))) as (gateway, _, _),
        ):
            replica = gateway.topology.pods(0).replicas[0]
            assert not await replica.is_ready()
            gateway.topology.change(section_at(((pod.address,),), ((after.address,),)))
            assert gateway.topology.pods(0).replicas[0] is replica, "it keeps its connections"
            assert await replica.is_ready()

    asyncio.run(main())


def test_other_addresses_of_as_many_shards(run: Run) -> None:
    async def test(site: Site) -> None:
        await read_all(site, range(1, 10))
        again = await site.add()
        site.pods = [site.pods[0], [again]]
        site.gateway.topology.change(section_of(site.pods))
        await read_all(site, range(1, 10))
        assert again.engine.reads
        assert not site.gateway.topology.homes.moved
        await asyncio.sleep(0)

    run(test)
