"""Pods that have missed changes of the views get them; the latest change counts, whoever was away."""

import asyncio
import itertools
import random
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from service.ground.errors import ApiError
from service.protocol.admin_models import EvictKeys
from service.protocol.admin_operations import (
    Evict,
    ListChanges,
    ListViews,
    Operation,
    RegisterView,
    RemoveView,
    SettleView,
    ViewChange,
)
from service.supervisor.admin.engines import Engines
from service.supervisor.admin.latest_change import latest
from service.supervisor.admin.registration import Registering
from service.supervisor.fleet.pods import Pod
from service.supervisor.fleet.reconcile import Reconciler
from tests.service.supervisor.fleet.services import Service


@dataclass
class Site:
    """Pods behind one gateway. *State*: `now_ms`, its clock."""

    services: list[Service]
    now_ms: int = 1000

    def __post_init__(self) -> None:
        self.pods = [Pod(f"http://{n}", service, n, 0) for n, service in enumerate(self.services)]
        self.engines = Engines(self.pods, self.pods, Registering(self._tick))
        self.reconciler = Reconciler(lambda: self.now_ms / 1000)

    def _tick(self) -> int:
        self.now_ms += 1
        return self.now_ms

    def put(self, name: str, sql: str = "SELECT 1", *, create_only: bool = False) -> Any:
        return asyncio.run(self.putting(name, sql, create_only=create_only))

    def drop(self, name: str) -> None:
        asyncio.run(self.dropping(name))

    def round(self) -> int:
        return asyncio.run(self.looking())

    async def putting(self, name: str, sql: str, *, create_only: bool = False) -> Any:
        return await self.engines.call(RegisterView(name, sql, create_only=create_only))

    async def dropping(self, name: str) -> Any:
        await self.engines.call(RemoveView(name))

    async def looking(self) -> int:
        await asyncio.gather(*(pod.look() for pod in self.pods))
        return await self.reconciler.round([pod for pod in self.pods if pod.is_ready])

    def views(self) -> list[dict[str, str]]:
        return [{n: change["sql"] for n, change in each.kept.items() if "sql" in change} for each in self.services]


def test_who_was_away_gets_what_it_missed() -> None:
    site = Site([Service(), Service(), Service()])
    site.put("old")
    site.put("changed", "SELECT 1")
    site.services[1].away = True
    assert site.put("new").created
    site.put("changed", "SELECT 2")
    site.drop("old")
    assert site.round() == 0
    site.services[1].away = False
    assert site.round() == 3
    assert site.views() == [{"changed": "SELECT 2", "new": "SELECT 1"}] * 3
    assert site.round() == 0


def test_the_first_one_may_be_away() -> None:
    site = Site([Service(away=True), Service()])
    site.put("v")
    site.services[0].away = False
    site.round()
    assert site.views() == [{"v": "SELECT 1"}] * 2


def test_with_nobody_there_nothing_is_done() -> None:
    site = Site([Service(away=True), Service(away=True)])
    with pytest.raises(ApiError, match="engine_unavailable"):
        site.put("v")


def test_who_is_starting_is_told_when_it_has() -> None:
    site = Site([Service(starting=True), Service()])
    site.put("v")
    site.round()
    assert site.views() == [{}, {"v": "SELECT 1"}]
    site.services[0].starting = False
    site.round()
    assert site.views() == [{"v": "SELECT 1"}] * 2
    for service in site.services:
        service.starting = True
    with pytest.raises(ApiError, match="upstream_unavailable"):
        site.put("w")


def test_who_says_nothing_is_waited_for_once_and_hinders_nothing() -> None:
    site = Site([Service(), Service(hangs=True), Service()])
    hanging = site.services[1]
    assert site.put("v").created
    assert hanging.asked == [ListChanges]
    assert [view.name for view in asyncio.run(site.engines.call(ListViews()))] == ["v"]
    # Somebody looks at it.
    site.round()
    hanging.asked.clear()
    site.put("w")
    site.drop("v")
    assert [view.name for view in asyncio.run(site.engines.call(ListViews()))] == ["w"]
    assert hanging.asked == []
    hanging.hangs = False
    site.round()
    assert site.views() == [{"w": "SELECT 1"}] * 3


def test_what_some_engines_of_a_pod_have_missed_they_are_told() -> None:
    pods = [[Service(), Service()], [Service(), Service()]]
    site = Site([Engines(engines) for engines in pods])  # type: ignore[misc]
    for kept in (version("OLD", 1), {}):
        for change in (version("NEW", 50), {"v": {"at_ms": 50}}):
            pods[0][0].kept, pods[0][1].kept = dict(change), dict(kept)
            for engine in pods[1]:
                engine.kept = dict(change)
            while site.round():
                pass
            assert [engine.kept for pod in pods for engine in pod] == [change] * 4


@pytest.mark.parametrize("wanted", [{"state_bytes": 1}, {"view": "v", "keys": [{"id": "1"}]}])
def test_with_nobody_there_nothing_is_evicted(wanted: dict[str, Any]) -> None:
    site = Site([Service(version("SELECT 1", 1)), Service(version("SELECT 1", 1))])
    site.round()
    for service in site.services:
        service.evicts = False
    with pytest.raises(ApiError, match="engine_unavailable"):
        asyncio.run(site.engines.call(Evict(EvictKeys(**wanted))))


class Silent(Service):
    async def call(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, ListChanges | ListViews):
            await asyncio.Event().wait()
        return await super().call(operation)


def test_who_has_just_begun_to_say_nothing_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.supervisor.fleet.pods._LOOK_S", 0.01)
    site = Site([Silent(), Service(), Service()])
    site.put("v")
    site.services[2].kept.clear()
    site.round()
    assert site.views() == [{}, {"v": "SELECT 1"}, {"v": "SELECT 1"}]
    assert [view.name for view in asyncio.run(site.engines.call(ListViews()))] == ["v"]


def test_who_is_starting_is_not_asked_to_change_anything() -> None:
    site = Site([Service(starting=True), Service()])
    site.round()
    site.put("v")
    assert not {RegisterView, SettleView} & set(site.services[0].asked)


def test_what_was_dropped_does_not_come_back_with_a_pod_or_another_gateway() -> None:
    site = Site([Service(), Service()])
    site.put("v")
    site.services[1].away = True
    site.drop("v")
    site.services[1].away = False
    other = Site(site.services)
    other.round()
    assert other.views() == [{}, {}]


def test_a_pod_that_lost_its_state_gets_all() -> None:
    site = Site([Service(), Service()])
    site.put("v")
    site.services[0].kept.clear()
    site.round()
    assert site.views() == [{"v": "SELECT 1"}] * 2


def test_what_a_pod_refuses_nobody_has() -> None:
    site = Site([Service(), Service(refuses={"v"}), Service()])
    with pytest.raises(ApiError, match="does not fit"):
        site.put("v")
    site.round()
    assert site.views() == [{}] * 3


def version(sql: str, at_ms: int) -> dict[str, dict[str, Any]]:
    return {"v": {"at_ms": at_ms, "sql": sql, "options": {}}}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_what_is_refused_brings_nothing_old_back(order: tuple[int, ...]) -> None:
    kept = [version("OLD", 1), version("NEW", 50), version("NEW", 50)]
    refuses: list[set[str]] = [set(), set(), {"v"}]
    site = Site([Service(kept[n], refuses=refuses[n]) for n in order])
    with pytest.raises(ApiError, match="does not fit"):
        site.put("v", "NEWER")
    while site.round():
        pass
    assert site.views() == [{"v": "NEW"}] * 3


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_what_is_refused_nobody_gets_whose_connection_broke(order: tuple[int, ...]) -> None:
    for kept, views in (({}, {}), (version("OLD", 1), {"v": "OLD"})):
        services = [Service(dict(kept), breaks=True), Service(dict(kept), refuses={"v"}), Service(dict(kept))]
        site = Site([services[n] for n in order])
        with pytest.raises(ApiError, match="does not fit"):
            site.put("v", "REFUSED")
        for service in services:
            service.refuses, service.breaks = set(), False
        site.now_ms += 60_000
        while site.round():
            pass
        assert site.views() == [views] * 3


@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
def test_only_what_is_there_hinders_who_wants_it_new(order: tuple[int, ...]) -> None:
    kept = [version("OLD", 1), {"v": {"at_ms": 50}}]
    site = Site([Service(kept[n]) for n in order])
    assert site.put("v", "NEW", create_only=True).created
    assert site.views() == [{"v": "NEW"}] * 2
    with pytest.raises(ApiError, match="view_exists"):
        site.put("v", "NEWER", create_only=True)


def test_what_is_refused_and_was_done_by_nobody_leaves_nothing() -> None:
    site = Site([Service(refuses={"v"}), Service(refuses={"v"}), Service(away=True)])
    with pytest.raises(ApiError, match="does not fit"):
        site.put("v")
    with pytest.raises(ApiError, match="view_not_found"):
        site.drop("v")
    assert [service.kept for service in site.services] == [{}] * 3


def test_what_is_refused_later_is_tried_again_after_a_while() -> None:
    site = Site([Service(), Service(away=True, refuses={"v"})])
    site.put("v")
    site.services[1].away = False
    for _ in range(3):
        site.round()
    assert site.services[1].settles == ["v"]
    site.now_ms += 60_000
    site.services[1].refuses.clear()
    site.round()
    assert site.views() == [{"v": "SELECT 1"}] * 2


def test_views_of_before_are_given_to_those_that_lack_them() -> None:
    site = Site([Service({"v": {"at_ms": 0, "sql": "SELECT 1", "options": {}}}), Service()])
    site.round()
    assert site.views() == [{"v": "SELECT 1"}] * 2


def test_of_two_changes_at_one_time_all_take_the_same() -> None:
    one, other = {"at_ms": 5, "sql": "SELECT 1", "options": {}}, {"at_ms": 5, "sql": "SELECT 2", "options": {}}
    for kept in itertools.permutations([{"v": one}, {"v": other}, {}]):
        site = Site([Service(dict(each)) for each in kept])
        while site.round():
            pass
        assert site.views() == [{"v": "SELECT 2"}] * 3


def test_who_lost_its_state_gets_views_that_read_others_at_once() -> None:
    site = Site([Service(), Service(reads={"a": "b", "b": "c"})])
    for name in "cba":
        site.put(name)
    # Only when it was put is another time.
    for name in "bc":
        site.put(name)
    site.services[1].kept.clear()
    site.round()
    assert site.views() == [dict.fromkeys("cba", "SELECT 1")] * 2


def test_who_takes_too_long_to_settle_is_not_told_more_in_that_round() -> None:
    site = Site([Service(), Service(hangs_when_settling=True)])
    for name in "abc":
        site.put(name)
    site.services[1].kept.clear()
    site.services[1].asked.clear()
    site.round()
    assert site.services[1].asked.count(SettleView) == 1


def test_what_others_read_comes_first() -> None:
    kept = {"a": ViewChange(9, "SELECT 1 FROM b"), "b": ViewChange(3, "SELECT 1")}
    assert list(latest([kept])) == ["b", "a"]


def something(rng: random.Random, site: Site) -> Coroutine[Any, Any, Any]:
    """Return a random action at a gateway."""
    name = rng.choice("abc")
    match rng.randrange(3):
        case 0:
            return site.looking()
        case 1:
            return site.putting(name, f"SELECT {rng.randrange(100)}")
        case _:
            return site.dropping(name)


CODES = {"engine_unavailable", "read_timeout", "view_not_found", "too_large"}


def troubled(rng: random.Random, services: list[Service]) -> None:
    """One of them is away, hangs, loses connections, or is well."""
    service = rng.choice(services)
    trouble = rng.random()
    service.away, service.breaks, service.hangs = trouble < 0.3, 0.3 < trouble < 0.4, 0.4 < trouble < 0.5


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_all_agree_in_the_end(seed: int) -> None:
    rng = random.Random(seed)
    services = [Service(slow=lambda: rng.randrange(4)) for _ in range(4)]
    gateways = [Site(services, now_ms=1000 + rng.randrange(50)) for _ in range(2)]
    refuser = services[rng.randrange(4)]

    async def step() -> list[Any]:
        return await asyncio.gather(*(something(rng, site) for site in gateways), return_exceptions=True)

    for _ in range(60):
        troubled(rng, services)
        refuser.refuses = {"a"} if rng.random() < 0.3 else set()
        failed = [each for each in asyncio.run(step()) if isinstance(each, BaseException)]
        assert {error.code for error in failed} <= CODES
    for service in services:
        service.away = service.breaks = service.hangs = False
    refuser.refuses = set()
    gateways[0].now_ms += 60_000
    while gateways[0].round():
        pass
    found = gateways[1].views()
    assert found == [found[0]] * 4


@pytest.mark.parametrize("seed", range(40))
def test_what_was_refused_never_was(seed: int) -> None:
    """At one gateway, with one pod that is always there."""
    rng = random.Random(seed)
    steady = Service()
    others = [Service() for _ in range(3)]
    site = Site(sorted([steady, *others], key=lambda _: rng.random()))
    views: dict[str, str] = {}
    for number in range(60):
        troubled(rng, others)
        for service in others:
            service.refuses = {"a", "b"} if rng.random() < 0.2 else set()
        name, sql = rng.choice("abc"), f"SELECT {number}"
        with suppress(ApiError):
            if rng.random() < 0.6:
                site.put(name, sql)
                views[name] = sql
            else:
                site.drop(name)
                del views[name]
        if rng.random() < 0.3:
            site.round()
    for service in others:
        service.away = service.breaks = service.hangs = False
        service.refuses = set()
    site.now_ms += 60_000
    while site.round():
        pass
    assert site.views() == [views] * 4
