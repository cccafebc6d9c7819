"""The pods behind a gateway, over the routes of their admin ports: looked after, also while they become others."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx
import pytest

from service.ground.errors import ApiError
from service.protocol.admin_operations import GetHealth, RegisterView, SettleView
from service.settings.gateway import GatewaySection, GatewaySettings
from service.supervisor.admin.app import admin_app
from service.supervisor.fleet.fleet import Fleet
from tests.service.supervisor.fleet.services import Service

PODS = 3


@dataclass
class Worker:
    name: str = "worker-0"
    restarts: int = 0
    hangs: int = 0
    alive: bool = True
    silent: bool = False


class NoChildren:
    def children(self) -> list[Any]:
        return []

    def served_before(self) -> bool:
        return False


@dataclass
class OneWorker:
    fleet: Fleet

    def children(self) -> list[Any]:
        return [Worker()]

    def served_before(self) -> bool:
        return self.fleet.was_ready


def settings(*shards: list[int]) -> GatewaySettings:
    """Return settings with these pods, by their numbers, as the shards' replicas."""
    addresses = tuple(tuple(f"http://pod{n}" for n in replicas) for replicas in shards)
    gateway = GatewaySection(shards=len(shards), addresses=addresses, admin_addresses=addresses)
    return GatewaySettings(gateway=gateway)


def later() -> Callable[[], float]:
    """A clock: whoever looks at it finds that it is time for everything."""
    return map(float, count(0, 100)).__next__


def looked_after(
    scenario: Callable[[Fleet, list[Service]], Coroutine[Any, Any, None]],
    *shards: list[int],
    clock: Callable[[], float] | None = None,
) -> None:
    async def run() -> None:
        services = [Service() for _ in range(PODS)]
        mounts = {
            f"http://pod{n}": httpx.ASGITransport(admin_app(service, NoChildren()))
            for n, service in enumerate(services)
        }
        async with httpx.AsyncClient(mounts=mounts) as client:
            await scenario(Fleet(settings(*shards), client, clock or later()), services)

    asyncio.run(run())


async def round_of(fleet: Fleet) -> None:
    await fleet.look()
    await fleet.tell()


async def put(fleet: Fleet, name: str) -> None:
    await fleet.engines.call(RegisterView(name, "SELECT 1"))


def names(services: list[Service]) -> list[list[str]]:
    return [[name for name, change in service.kept.items() if "sql" in change] for service in services]


def test_who_was_away_is_told_and_others_are_left_alone() -> None:
    async def scenario(fleet: Fleet, services: list[Service]) -> None:
        await round_of(fleet)
        services[2].away = True
        await put(fleet, "v")
        await round_of(fleet)
        assert names(services) == [["v"], ["v"], []]
        services[2].away = False
        await round_of(fleet)
        assert names(services) == [["v"]] * 3
        for service in services:
            service.asked.clear()
        await round_of(fleet)
        assert [service.asked for service in services] == [[]] * 3
        # One that is not there is looked for all the time.
        fleet.pods[2].health = None
        await round_of(fleet)
        assert [service.asked for service in services] == [[], [], [GetHealth]]

    looked_after(scenario, [0], [1, 2], clock=lambda: 1.0)


def test_a_pod_that_missed_something_between_two_looks_is_told() -> None:
    async def scenario(fleet: Fleet, services: list[Service]) -> None:
        await round_of(fleet)
        services[0].away = True
        await put(fleet, "v")
        services[0].away = False
        await round_of(fleet)
        assert names(services) == [["v"]] * 3

    looked_after(scenario, [0, 1], [2])


def test_shards_that_are_new_get_the_views_and_those_that_stay_are_the_same() -> None:
    async def scenario(fleet: Fleet, services: list[Service]) -> None:
        await round_of(fleet)
        await put(fleet, "v")
        assert names(services) == [["v"], ["v"], []]
        before = fleet.pods
        fleet.follow(settings([0], [1], [2]))
        assert fleet.pods[:2] == before
        assert fleet.pods[0] is before[0]
        await round_of(fleet)
        assert names(services) == [["v"]] * 3
        fleet.follow(settings([0]))
        await put(fleet, "w")
        assert names(services) == [["v", "w"], ["v"], ["v"]]

    looked_after(scenario, [0], [1])


def test_one_that_takes_long_keeps_nobody_from_looking() -> None:
    async def scenario(fleet: Fleet, services: list[Service]) -> None:
        await put(fleet, "v")
        services[1].kept.clear()
        services[1].settling = asyncio.Event()
        running = asyncio.create_task(fleet.run())
        try:
            async with asyncio.timeout(10):
                while SettleView not in services[1].asked:
                    await asyncio.sleep(0)
                services[2].away = True
                while fleet.pods[2].is_there:
                    await asyncio.sleep(0)
            assert names(services)[1] == []
            services[1].settling.set()
            async with asyncio.timeout(10):
                while names(services)[1] != ["v"]:
                    await asyncio.sleep(0)
        finally:
            running.cancel()

    looked_after(scenario, [0], [1], [2])


def test_it_was_ready_when_each_shard_was() -> None:
    async def scenario(fleet: Fleet, services: list[Service]) -> None:
        services[0].starting = services[1].away = True
        await round_of(fleet)
        fleet.follow(settings([1], [0]))
        with pytest.raises(ApiError, match="No pod of shard 0"):
            await fleet.engines.call(GetHealth())
        fleet.follow(settings([0, 1], [2]))
        await round_of(fleet)
        assert not (await fleet.engines.call(GetHealth())).ready
        assert not fleet.was_ready
        services[1].away = False
        await round_of(fleet)
        assert (await fleet.engines.call(GetHealth())).ready
        services[1].away = services[0].away = True
        await round_of(fleet)
        assert fleet.was_ready
        up = {sample.labels: sample.value for sample in fleet.samples() if sample.name == "upquery_gateway_pod_up"}
        assert list(up.values()) == [0.0, 0.0, 1.0]

    looked_after(scenario, [0, 1], [2])


def test_once_ready_no_shard_that_starts_takes_the_gateway_away() -> None:
    async def scenario(fleet: Fleet, services: list[Service]) -> None:
        transport = httpx.ASGITransport(admin_app(fleet.engines, OneWorker(fleet)))

        async def ready() -> tuple[int, int]:
            await round_of(fleet)
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
                return (await client.get("/readyz")).status_code, (await client.get("/readyz?strict=1")).status_code

        services[1].starting = True
        assert await ready() == (503, 503)
        services[1].starting = False
        assert await ready() == (200, 200)
        services[1].away = True
        assert await ready() == (200, 503)
        services[1].away, services[1].starting = False, True
        assert await ready() == (200, 503)
        services[1].starting, services[2].starting = False, True
        assert await ready() == (200, 200)
        fleet.follow(settings([0], [1], [2]))
        assert await ready() == (200, 503)
        services[2].starting = False
        assert await ready() == (200, 200)

    looked_after(scenario, [0], [1])
