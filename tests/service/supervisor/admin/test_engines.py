"""Several engines as one for the admin port: views are registered by all or by none."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from service.ground.errors import ApiError
from service.supervisor.admin.engines import Engines
from service.supervisor.admin.merge import ELSEWHERE, added, merged_health, merged_view


@dataclass
class Shard:
    """A `Control` that remembers views."""

    views: dict[str, dict[str, Any]] = field(default_factory=dict)
    fails_at: str | None = None
    failure: ApiError = field(default_factory=lambda: ApiError("too_large", "It does not fit here."))
    away: bool = False

    async def call(self, operation: str, **arguments: Any) -> Any:
        if self.away:
            raise ApiError("engine_unavailable", "It is starting.")
        if operation == self.fails_at:
            raise self.failure
        return getattr(self, f"_{operation}")(**arguments)

    def _views(self) -> list[dict[str, Any]]:
        return [view(name, **state) for name, state in self.views.items()]

    def _put(self, name: str, sql: str, options: dict[str, Any], create_only: bool) -> dict[str, Any]:  # noqa: ARG002
        created = name not in self.views
        self.views[name] = {"sql": sql}
        return {"name": name, "created": created, "building": False}

    def _drop(self, name: str) -> None:
        if self.views.pop(name, None) is None:
            raise ApiError("view_not_found", name)

    def _evict(self, view: str | None, keys: list[Any] | None, state_bytes: int | None) -> dict[str, int]:
        return {"views": 1, "keys": len(keys) if keys is not None else 3 if view else (state_bytes or 0)}


def view(name: str, status: str = "ready", sql: str = "", hits: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "sql": sql,
        "origin": "http",
        "status": status,
        "reason": None,
        "options": {},
        "replacing": False,
        "counters": {"hits": hits, "upquery_max_s": hits / 10},
    }


def put(engines: Engines, name: str, sql: str) -> Any:
    return asyncio.run(engines.call("put", name=name, sql=sql, options={}, create_only=False))


def test_a_view_is_put_at_all() -> None:
    shards = [Shard(), Shard(), Shard()]
    engines = Engines(shards)
    assert put(engines, "v", "SELECT 1") == {"name": "v", "created": True, "building": False}
    assert put(engines, "v", "SELECT 2")["created"] is False
    assert [shard.views for shard in shards] == [{"v": {"sql": "SELECT 2"}}] * 3
    asyncio.run(engines.call("drop", name="v"))
    assert [shard.views for shard in shards] == [{}] * 3


@pytest.mark.parametrize("before", [{}, {"v": {"sql": "SELECT 0"}}])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_what_one_refuses_none_has(before: dict[str, Any], failing: int) -> None:
    shards = [Shard(dict(before)) for _ in range(3)]
    shards[failing].fails_at = "put"
    with pytest.raises(ApiError, match="does not fit here"):
        put(Engines(shards), "v", "SELECT 1")
    assert [shard.views for shard in shards] == [before] * 3


def test_what_one_cannot_drop_all_keep() -> None:
    shards = [Shard({"v": {"sql": "SELECT 0"}}) for _ in range(2)]
    shards[1].fails_at, shards[1].failure = "drop", ApiError("view_in_use", "It is read.")
    with pytest.raises(ApiError, match="It is read"):
        asyncio.run(Engines(shards).call("drop", name="v"))
    assert [shard.views for shard in shards] == [{"v": {"sql": "SELECT 0"}}] * 2


def test_nothing_is_changed_while_one_is_away() -> None:
    shards = [Shard(), Shard(away=True)]
    with pytest.raises(ApiError) as refused:
        put(Engines(shards), "v", "SELECT 1")
    assert refused.value.code == "engine_unavailable"
    assert shards[0].views == {}
    assert asyncio.run(Engines(shards).call("views")) == []
    shards[0].away = True
    with pytest.raises(ApiError):
        asyncio.run(Engines(shards).call("views"))


def test_a_view_is_as_who_keeps_it_says() -> None:
    merged = merged_view([view("v", ELSEWHERE, hits=1), view("v", "building", hits=4)])
    assert merged["status"] == "building"
    assert merged["counters"] == {"hits": 5, "upquery_max_s": 0.4}
    assert merged_view([view("v"), view("v", "broken")])["status"] == "broken"
    assert merged_view([view("v", ELSEWHERE)])["status"] == "building"


def test_keys_are_evicted_wherever_they_are() -> None:
    engines = Engines([Shard({"v": {}}), Shard({"v": {}})])
    keys = [{"id": "1"}, {"id": "2"}]
    evict = {"view": "v", "keys": keys, "state_bytes": None}
    assert asyncio.run(engines.call("evict", **evict)) == {"views": 1, "keys": 2}
    assert asyncio.run(engines.call("evict", **(evict | {"keys": None}))) == {"views": 1, "keys": 6}
    whole = {"view": None, "keys": None, "state_bytes": 101}
    assert asyncio.run(engines.call("evict", **whole)) == {"views": 0, "keys": 102}


def test_all_are_well_or_none() -> None:
    memory = {"budget_bytes": 10, "used_bytes": 3, "over_budget": False}
    well = {
        "ready": True,
        "streaming": True,
        "age_ms": 3,
        "version": "a",
        "memory": memory,
        "building": ["x"],
        "quarantined": {"q": "too deep"},
        "broken": {},
    }
    ill = well | {"ready": False, "age_ms": 9, "version": "b", "memory": memory | {"over_budget": True}}
    merged = merged_health([well, ill])
    assert (merged["ready"], merged["age_ms"], merged["version"]) == (False, 9, "b")
    assert merged["memory"] == {"budget_bytes": 20, "used_bytes": 6, "over_budget": True}
    assert merged["building"] == ["x"]
    assert merged["quarantined"] == {"q": "too deep"}
    assert added([{"a": 1}, {"a": 2, "b": 3}]) == {"a": 3, "b": 3}
