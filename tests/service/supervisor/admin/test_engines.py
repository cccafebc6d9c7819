"""Several engines as one for the admin port: views are registered by all or by none."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from service.ground.errors import ApiError
from service.protocol.admin_models import Evicted, EvictKeys, Health, MemoryState, ViewCounters, ViewState
from service.protocol.admin_operations import Evict, ListViews, Operation, PutResult, RegisterView, RemoveView
from service.protocol.stats import EngineSizes
from service.settings.view_options import OptionFields
from service.supervisor.admin.engines import Engines
from service.supervisor.admin.merge import ELSEWHERE, added, merged_health, merged_view, summed

NO_OPTIONS = OptionFields()


@dataclass
class Shard:
    """A `Control` that remembers views."""

    views: dict[str, dict[str, Any]] = field(default_factory=dict)
    fails_at: type[Operation[Any]] | None = None
    failure: ApiError = field(default_factory=lambda: ApiError("too_large", "It does not fit here."))
    away: bool = False

    async def call(self, operation: Operation[Any]) -> Any:
        if self.away:
            raise ApiError("engine_unavailable", "It is starting.")
        if self.fails_at is not None and isinstance(operation, self.fails_at):
            raise self.failure
        match operation:
            case ListViews():
                return [view(name, sql=state["sql"], options=state["options"]) for name, state in self.views.items()]
            case RegisterView(name, sql, options):
                created = name not in self.views
                self.views[name] = {"sql": sql, "options": options}
                return PutResult(created, building=False)
            case RemoveView(name):
                if self.views.pop(name, None) is None:
                    raise ApiError("view_not_found", name)
                return None
            case Evict(wanted):
                keys = len(wanted.keys) if wanted.keys is not None else 3 if wanted.view else wanted.state_bytes or 0
                return Evicted(views=1, keys=keys)
        raise NotImplementedError(operation)


def view(
    name: str, status: Any = "ready", sql: str = "", hits: int = 0, options: OptionFields = NO_OPTIONS
) -> ViewState:
    return ViewState(
        name=name,
        sql=sql,
        origin="http",
        tier=None,
        materialization=None,
        status=status,
        options=options,
        parameters=[],
        columns=[],
        counters=ViewCounters(hits=hits, upquery_max_s=hits / 10),
    )


def put(engines: Engines, name: str, sql: str) -> Any:
    return asyncio.run(engines.call(RegisterView(name, sql)))


def there(sql: str, options: OptionFields = NO_OPTIONS) -> dict[str, Any]:
    return {"v": {"sql": sql, "options": options}}


def test_a_view_is_put_at_all() -> None:
    shards = [Shard(), Shard(), Shard()]
    engines = Engines(shards)
    assert put(engines, "v", "SELECT 1") == PutResult(created=True, building=False)
    assert put(engines, "v", "SELECT 2").created is False
    assert [shard.views for shard in shards] == [there("SELECT 2")] * 3
    asyncio.run(engines.call(RemoveView("v")))
    assert [shard.views for shard in shards] == [{}] * 3


@pytest.mark.parametrize("before", [{}, there("SELECT 0"), there("SELECT 0", OptionFields(tier="ttl", ttl=5))])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_what_one_refuses_none_has(before: dict[str, Any], failing: int) -> None:
    shards = [Shard(dict(before)) for _ in range(3)]
    shards[failing].fails_at = RegisterView
    with pytest.raises(ApiError, match="does not fit here"):
        put(Engines(shards), "v", "SELECT 1")
    assert [shard.views for shard in shards] == [before] * 3


def test_what_one_cannot_drop_all_keep() -> None:
    shards = [Shard(there("SELECT 0")) for _ in range(2)]
    shards[1].fails_at, shards[1].failure = RemoveView, ApiError("view_in_use", "It is read.")
    with pytest.raises(ApiError, match="It is read"):
        asyncio.run(Engines(shards).call(RemoveView("v")))
    assert [shard.views for shard in shards] == [there("SELECT 0")] * 2


def test_nothing_is_changed_while_one_is_away() -> None:
    shards = [Shard(), Shard(away=True)]
    with pytest.raises(ApiError) as refused:
        put(Engines(shards), "v", "SELECT 1")
    assert refused.value.code == "engine_unavailable"
    assert shards[0].views == {}
    assert asyncio.run(Engines(shards).call(ListViews())) == []
    shards[0].away = True
    with pytest.raises(ApiError):
        asyncio.run(Engines(shards).call(ListViews()))


def test_a_view_is_as_who_keeps_it_says() -> None:
    merged = merged_view([view("v", ELSEWHERE, hits=1), view("v", "building", hits=4)])
    assert merged.status == "building"
    assert merged.counters == ViewCounters(hits=5, upquery_max_s=0.4)
    assert merged_view([view("v"), view("v", "broken")]).status == "broken"
    assert merged_view([view("v", ELSEWHERE)]).status == "building"


def test_keys_are_evicted_wherever_they_are() -> None:
    engines = Engines([Shard(there("SELECT 0")), Shard(there("SELECT 0"))])
    keys = [{"id": "1"}, {"id": "2"}]

    def evicted(**wanted: Any) -> Evicted:
        return asyncio.run(engines.call(Evict(EvictKeys(**wanted))))

    assert evicted(view="v", keys=keys) == Evicted(views=1, keys=2)
    assert evicted(view="v") == Evicted(views=1, keys=6)
    assert evicted(state_bytes=101) == Evicted(views=0, keys=102)


def test_all_are_well_or_none() -> None:
    memory = MemoryState(budget_bytes=10, used_bytes=3, over_budget=False)
    well = Health(
        ready=True,
        streaming=True,
        age_ms=3,
        version="a",
        memory=memory,
        building=["x"],
        quarantined={"q": "too deep"},
    )
    full = memory.model_copy(update={"over_budget": True})
    ill = well.model_copy(update={"ready": False, "age_ms": 9, "version": "b", "memory": full})
    merged = merged_health([well, ill])
    assert (merged.ready, merged.age_ms, merged.version) == (False, 9, "b")
    assert merged.memory == MemoryState(budget_bytes=20, used_bytes=6, over_budget=True)
    assert merged.building == ["x"]
    assert merged.quarantined == {"q": "too deep"}
    assert added([{"a": 1}, {"a": 2, "b": 3}]) == {"a": 3, "b": 3}


def test_a_longest_time_of_several_engines_is_no_sum() -> None:
    """Every field whose name is that of a maximum is merged as one."""
    for kind in (EngineSizes, ViewCounters):
        maxima = [name for name in kind.model_fields if name.startswith("longest_") or name.endswith("_max_s")]
        numbers = dict.fromkeys(kind.model_fields, 0)
        several = [kind(**numbers | dict.fromkeys(maxima, n)) for n in (1, 3, 2)]
        assert {name: getattr(summed(several), name) for name in maxima} == dict.fromkeys(maxima, 3)
