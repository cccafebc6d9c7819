"""Replies of several engines as one: sums of counters; each view as the engine that maintains it reports it.

Not here: requests to the engines (`engines`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from service.ground.logs import merged_errors
from service.protocol.admin_models import (
    Footprints,
    FootprintView,
    Health,
    MemoryState,
    Places,
    Prewarmed,
    ViewState,
    WarmingUp,
)
from service.protocol.counters import Counters, SubscriptionCounts, WorkerCounts, total
from service.protocol.stats import Stats

#: Fields of which the largest value counts, not the sum.
_LARGEST = frozenset({"upquery_max_s", "longest_eviction_s", "longest_load_slice_s", "over_budget"})
ELSEWHERE = "elsewhere"
#: The most severe status that a view's shards report comes first.
_STATUSES = ("broken", "building", "outdated", "quarantined", "ready", ELSEWHERE)
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for each in counts:
        for name, value in each.items():
            sums[name] = sums.get(name, 0) + value
    return sums


def summed(counts: Sequence[M]) -> M:
    """Sums of all fields, or their maxima (`_LARGEST`). `counts` is not empty."""
    kind = type(counts[0])
    values = {name: [getattr(each, name) for each in counts] for name in kind.model_fields}
    return kind(**{name: max(each) if name in _LARGEST else sum(each) for name, each in values.items()})


def merged_view(states: Sequence[ViewState]) -> ViewState:
    """One view, from the states that shards report. `states` is not empty."""
    there = [state for state in states if state.status != ELSEWHERE]
    counters = summed([state.counters for state in states])
    if not there:
        # Its home is away, or has not planned it yet.
        waiting = "The shard that keeps it is starting."
        return states[0].model_copy(update={"status": "building", "reason": waiting, "counters": counters})
    first = min(there, key=lambda state: _STATUSES.index(state.status))
    return first.model_copy(
        update={
            "replacing": any(state.replacing for state in there),
            "resting_tables": sorted({table for state in there for table in state.resting_tables}),
            "counters": counters,
        }
    )


def merged_views(of_shards: Iterable[Iterable[ViewState]]) -> list[ViewState]:
    """All views, by name."""
    by_name: dict[str, list[ViewState]] = {}
    for views in of_shards:
        for view in views:
            by_name.setdefault(view.name, []).append(view)
    return [merged_view(states) for _, states in sorted(by_name.items())]


def merged_stats(stats: Sequence[Stats]) -> Stats:
    """Counters of all engines together; those of each are in `shards`. A position is that of the engine furthest
    behind."""
    last = min(stats, key=lambda each: each.position)
    workers = _by_name((each.worker_processes for each in stats), _worker)
    return Stats(
        counters=total(Counters, (each.counters for each in stats)),
        engine=added(each.engine for each in stats),
        sizes=summed([each.sizes for each in stats]),
        views=_by_name((each.views for each in stats), summed),
        upqueries=_by_name((each.upqueries for each in stats), _added_lists),
        nodes=[node.model_copy(update={"shard": each.shard}) for each in stats for node in each.nodes],
        loads=[load for each in stats for load in each.loads],
        recent_errors=merged_errors(_distinct(error for each in stats for error in each.recent_errors)),
        log_left_out=sum(each.log_left_out for each in stats),
        pid=stats[0].pid,
        workers=len(workers),
        worker_processes=workers,
        subscriptions=total(SubscriptionCounts, (each.subscriptions for each in stats)),
        position=last.position,
        version=last.version,
        age_ms=max(each.age_ms for each in stats),
        streaming=all(each.streaming for each in stats),
        resting_tables=sorted({table for each in stats for table in each.resting_tables}),
        shards=list(stats),
    )


#: What engines report of schema changes: the weakest counts for all.
_WEAKEST = (None, "heartbeat", "exact")


def merged_health(health: Sequence[Health]) -> Health:
    """The health of all engines together."""
    last = max(health, key=lambda each: each.age_ms)
    return Health(
        ready=all(each.ready for each in health),
        streaming=all(each.streaming for each in health),
        age_ms=last.age_ms,
        version=last.version,
        memory=MemoryState(
            budget_bytes=sum(each.memory.budget_bytes for each in health),
            used_bytes=sum(each.memory.used_bytes for each in health),
            over_budget=any(each.memory.over_budget for each in health),
        ),
        warming_up=_merged_warming_up([each.warming_up for each in health if each.warming_up is not None]),
        held_up=next((each.held_up for each in health if each.held_up), None),
        schema_changes=min((each.schema_changes for each in health), key=_WEAKEST.index),
        building=sorted({name for each in health for name in each.building}),
        quarantined=_reasons(each.quarantined for each in reversed(health)),
        outdated=_reasons(each.outdated for each in reversed(health)),
        broken=_reasons(each.broken for each in reversed(health)),
    )


def _merged_warming_up(engines: Sequence[WarmingUp]) -> WarmingUp | None:
    if not engines:
        return None
    return WarmingUp(keys=sum(each.keys for each in engines), filled=sum(each.filled for each in engines))


def _reasons(reasons: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Reasons by view: the last engine's."""
    return {name: reason for each in reasons for name, reason in each.items()}


def merged_filling(begun: Sequence[Prewarmed]) -> Prewarmed:
    """One request to fill keys, of which several engines fill a part each."""
    return begun[0].model_copy(
        update={
            "keys": sum(each.keys for each in begun),
            "filled": sum(each.filled for each in begun),
            "refused": sum(each.refused for each in begun),
        }
    )


def _by_name(of_shards: Iterable[Mapping[str, T]], merge: Callable[[list[T]], T]) -> dict[str, T]:
    found: dict[str, list[T]] = {}
    for each in of_shards:
        for name, value in each.items():
            found.setdefault(name, []).append(value)
    return {name: merge(values) for name, values in found.items()}


def _added_lists(counts: list[list[int]]) -> list[int]:
    return [sum(each) for each in zip(*counts, strict=True)]


def _worker(reports: list[WorkerCounts]) -> WorkerCounts:
    """A worker reports its process's counters to each engine, and its requests to that engine."""
    newest = max(reports, key=lambda report: report.requests)
    return replace(newest, wire=added(report.wire for report in reports))


def _distinct(errors: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """A worker reports its errors to each engine."""
    return list({tuple(sorted(error.items())): error for error in errors}.values())


def merged_footprints(footprints: Sequence[Footprints]) -> Footprints:
    """Those of several engines, none of which shares state with another. Not validated: keys may be many."""
    merged = Footprints(nodes=[], inner=[], views={})
    for each in footprints:
        first_node, first = len(merged.nodes), len(merged.inner)
        merged.nodes += each.nodes
        merged.inner += [
            (first_node + node, size, _moved(reads, first), _moved(keeps, first))
            for node, size, reads, keeps in each.inner
        ]
        for name, view in each.views.items():
            whole = merged.views.setdefault(name, FootprintView(covered_keys=0, keys=[]))
            whole.covered_keys += view.covered_keys
            whole.keys += [
                (key, size, _moved(reads, first), _moved(keeps, first)) for key, size, reads, keeps in view.keys
            ]
    return merged


def _moved(places: Places, first: int) -> Places:
    return [first + place for place in places]
