"""What several engines say, as one: numbers added up, views as whoever keeps them has them.

Not here: asking the engines (`engines`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from service.ground.logs import merged_errors

Said = dict[str, Any]
#: What is not added up.
_LARGEST = frozenset({"upquery_max_s", "longest_eviction_s", "over_budget", "age_ms"})
ELSEWHERE = "elsewhere"
#: The most that a view's home can have to say comes first.
_STATUSES = ("broken", "building", "quarantined", "ready", ELSEWHERE)


def added(counts: Iterable[Mapping[str, Any]]) -> Said:
    """Numbers by name, of all of them; what has a maximum has the largest."""
    sums: Said = {}
    for each in counts:
        for name, value in each.items():
            if name not in sums:
                sums[name] = value
            else:
                sums[name] = max(sums[name], value) if name in _LARGEST else sums[name] + value
    return sums


def merged_view(states: Sequence[Said]) -> Said:
    """One view, of which each shard has said what it has. `states` is not empty."""
    there = [state for state in states if state["status"] != ELSEWHERE]
    if not there:
        # Its home is away, or has not planned it yet.
        waiting = "The shard that keeps it is starting."
        return states[0] | {"status": "building", "reason": waiting, "counters": added(s["counters"] for s in states)}
    first = min(there, key=lambda state: _STATUSES.index(state["status"]))
    return first | {
        "replacing": any(state["replacing"] for state in there),
        "resting_tables": sorted({table for state in there for table in state.get("resting_tables", ())}),
        "counters": added(state["counters"] for state in states),
    }


def merged_views(of_shards: Iterable[Iterable[Said]]) -> list[Said]:
    """All views, by name."""
    by_name: dict[str, list[Said]] = {}
    for views in of_shards:
        for view in views:
            by_name.setdefault(view["name"], []).append(view)
    return [merged_view(states) for _, states in sorted(by_name.items())]


def merged_stats(stats: Sequence[Said]) -> Said:
    """Everything that is counted, of all engines; what each of them said is under ``shards``. A number that says where
    something is (a position) is that of the one furthest behind."""
    last = min(stats, key=lambda said: said["position"])
    workers = _by_name((said["worker_processes"] for said in stats), _worker)
    return {
        "counters": added(said["counters"] for said in stats),
        "engine": added(said["engine"] for said in stats),
        "sizes": added(said["sizes"] for said in stats),
        "views": _by_name((said["views"] for said in stats), added),
        "upqueries": _by_name((said["upqueries"] for said in stats), _added_lists),
        "nodes": [node | {"shard": said["shard"]} for said in stats for node in said["nodes"]],
        "loads": [load for said in stats for load in said["loads"]],
        "recent_errors": merged_errors(_distinct(error for said in stats for error in said["recent_errors"])),
        "log_left_out": sum(said["log_left_out"] for said in stats),
        "pid": stats[0]["pid"],
        "workers": len(workers),
        "worker_processes": workers,
        "subscriptions": added(said["subscriptions"] for said in stats),
        "position": last["position"],
        "version": last["version"],
        "age_ms": max(said["age_ms"] for said in stats),
        "streaming": all(said["streaming"] for said in stats),
        "resting_tables": sorted({table for said in stats for table in said.get("resting_tables", ())}),
        "shards": list(stats),
    }


#: Of what is said of several engines, what counts for all.
_WEAKEST = (None, "heartbeat", "exact")


def merged_health(health: Sequence[Said]) -> Said:
    """Whether all of them are well."""
    ages = [said["age_ms"] for said in health]
    memory = added(said["memory"] for said in health)
    return {
        "ready": all(said["ready"] for said in health),
        "streaming": all(said["streaming"] for said in health),
        "age_ms": max(ages),
        "version": health[ages.index(max(ages))]["version"],
        "memory": memory | {"over_budget": any(said["memory"]["over_budget"] for said in health)},
        "held_up": next((said["held_up"] for said in health if said.get("held_up")), None),
        "schema_changes": min((said.get("schema_changes") for said in health), key=_WEAKEST.index),
        "building": sorted({name for said in health for name in said["building"]}),
        "quarantined": _reasons(health, "quarantined"),
        "broken": _reasons(health, "broken"),
    }


def _reasons(health: Sequence[Said], kind: str) -> Said:
    """Why views are in a state, by name: the first engine's reason."""
    return {name: reason for said in reversed(health) for name, reason in said[kind].items()}


def merged_filling(begun: Sequence[Said]) -> Said:
    """One request to fill keys, of which several fill a part each."""
    return begun[0] | {name: sum(each[name] for each in begun) for name in ("keys", "filled", "refused")}


def _by_name(of_shards: Iterable[Mapping[str, Any]], merge: Callable[[list[Any]], Any]) -> Said:
    found: dict[str, list[Any]] = {}
    for each in of_shards:
        for name, value in each.items():
            found.setdefault(name, []).append(value)
    return {name: merge(values) for name, values in found.items()}


def _added_lists(counts: list[list[int]]) -> list[int]:
    return [sum(each) for each in zip(*counts, strict=True)]


def _worker(said: list[Said]) -> Said:
    """A worker tells each engine what its process has counted, and how often it has asked that one."""
    newest = max(said, key=lambda counted: counted["requests"])
    return newest | {"wire": added(counted["wire"] for counted in said)}


def _distinct(errors: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """A worker tells each engine."""
    return list({tuple(sorted(error.items())): error for error in errors}.values())


def merged_footprints(said: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Those of several engines, none of which shares anything with another."""
    nodes: list[Any] = []
    inner: list[Any] = []
    views: dict[str, Any] = {}
    for each in said:
        first_node, first = len(nodes), len(inner)
        nodes += each["nodes"]
        inner += [(first_node + node, size, *_moved(needs, first)) for node, size, *needs in each["inner"]]
        for name, view in each["views"].items():
            merged = views.setdefault(name, {"covered_keys": 0, "keys": []})
            merged["covered_keys"] += view["covered_keys"]
            merged["keys"] += [(key, size, *_moved(needs, first)) for key, size, *needs in view["keys"]]
    return {"nodes": nodes, "inner": inner, "views": views}


def _moved(needs: Sequence[Sequence[int]], first: int) -> list[list[int]]:
    return [[first + place for place in places] for places in needs]
