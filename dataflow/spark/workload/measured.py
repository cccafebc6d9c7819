"""A service's own figures, as far as a model needs them: bytes, keys, changes and lookups of each view.

It is the documents of the admin port (``/v1/stats``, ``/v1/catalog/views``, ``/v1/graph``), of a running service or
saved before.

*Theory*: bytes belong to keys or are fixed. Rows of a view are its own; a node's state belongs to all views above it,
as many keys as each has; what the documents give to nobody (pages of the leaf store that are half full, what the policy
holds) belongs to keys in proportion. Full materializations are fixed.

*Invariants*: fixed bytes and those of all keys add up to what is used.

Not here: fetching (`service.command.workload`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataflow.spark.problems import SparkProblem
from dataflow.spark.workload.inner import LEAST_COST, ROW_COST, InnerKeys
from dataflow.spark.workload.sample import Floats

#: Of a key of which nothing is known: what it takes besides its rows, and how much its rows take more than their JSON.
UNKNOWN_KEY_BYTES = 1300.0
UNKNOWN_ROWS_FACTOR = 1.5
#: What the engine holds when it holds nothing.
_EMPTY_BYTES = 50_000.0


@dataclass(frozen=True, slots=True)
class MeasuredView:
    """A view. `key_bytes`: what a key takes of the budget, on average; None: it is not known."""

    name: str
    tier: str | None
    whole: bool
    keys: int
    key_bytes: float | None
    #: The share of that in inner nodes, where other keys may need it too.
    inner_share: float
    #: Whether its rows are looked up themselves, not derived from inner nodes.
    looked_up: bool
    #: Since the engine began: reads, keys filled and forgotten for want of memory, changed rows, lookups.
    hits: int
    misses: int
    filled: int
    evicted_by_budget: int
    rows_applied: int
    rows_dropped: int
    lookups: int
    lookup_keys: int
    lookup_rows: int
    lookup_s: float

    def costs(self, rows: Floats) -> Floats:
        """Costs of filling keys, in lookups, as `dataflow.engine.ranking` counts. `rows`: each key's rows, relative to
        the view's mean."""
        if not self.filled or not self.lookups:
            return np.ones(len(rows))
        if self.looked_up:
            # Each key of a lookup is taken to need it.
            each, of_rows = 1 + ROW_COST, ROW_COST * self.lookup_rows / max(1, self.lookup_keys)
        else:
            # Lookups are of many keys at once only where reads are; what one key needs is at least its part of each.
            each = (self.lookups + ROW_COST * self.lookup_keys) / self.filled
            of_rows = ROW_COST * self.lookup_rows / self.filled
        return np.maximum(LEAST_COST, each + of_rows * rows)

    @property
    def lookup_s_per_fill(self) -> float:
        """Seconds of the upstream for a key."""
        return self.lookup_s / self.filled if self.filled else 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A service. `fixed_bytes` are used whatever keys are there."""

    budget_bytes: int
    used_bytes: int
    fixed_bytes: float
    policy_evicted: bool
    views: Mapping[str, MeasuredView]
    footprints: InnerKeys | None = None


def measured_of(documents: Mapping[str, Any]) -> Measured:
    """From the documents. Raises SparkProblem: they are something else."""
    try:
        return _measured(
            documents["stats"], documents["views"], documents.get("graph") or [], documents.get("footprints")
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise SparkProblem(
            "measured_foreign",
            f"This is not what a service says of itself: {type(error).__name__} {error}.",
            "It is the JSON that upquery workload report saves as measured.json.",
        ) from error


def _measured(
    stats: Mapping[str, Any],
    views: Sequence[Mapping[str, Any]],
    graph: Sequence[Mapping[str, Any]],
    footprints: Mapping[str, Any] | None,
) -> Measured:
    sizes = stats["sizes"]
    keys = {view["name"]: int(view["counters"]["covered_keys"]) for view in views}
    own = {view["name"]: float(view["counters"]["leaf_bytes"]) for view in views}
    whole = {view["name"] for view in views if view["materialization"] == "full"}
    fixed, inner = _inner_bytes(graph, keys, whole)
    _share_out_rest(sizes, own, fixed + sum(inner.values()), keys)
    by_view = {name: own[name] + inner.get(name, 0.0) for name in own}
    keyed = {name: bytes_ for name, bytes_ in by_view.items() if name not in whole and keys[name]}
    fixed += sum(by_view[name] for name in whole)
    used = float(sizes["used_bytes"])
    # What is left over is shared out as bytes are.
    left = max(0.0, used - _EMPTY_BYTES - fixed - sum(keyed.values()))
    known = fixed + sum(keyed.values())
    share = 1 + left / known if known else 1.0
    per_key = {name: share * bytes_ / keys[name] for name, bytes_ in keyed.items()}
    inner_share = {name: inner.get(name, 0.0) / bytes_ for name, bytes_ in keyed.items() if bytes_}
    looked_up = {name for node in graph if node["lookups"] for name in node["views"]}
    fixed_bytes = used - sum(per_key[name] * keys[name] for name in keyed)
    return Measured(
        budget_bytes=int(sizes["budget_bytes"]),
        used_bytes=int(used),
        fixed_bytes=max(0.0, fixed_bytes),
        policy_evicted=any(view["counters"]["evicted_by_budget"] for view in views),
        views={view["name"]: _view(view, per_key, inner_share, whole, looked_up) for view in views},
        footprints=None if footprints is None else InnerKeys.of(footprints),
    )


def _share_out_rest(sizes: Mapping[str, Any], own: dict[str, float], nodes: float, keys: Mapping[str, int]) -> None:
    """Adds to each view's own bytes its part of what the leaf store takes besides rows, by rows, and of what the
    engine takes besides nodes (the policy's memory, mostly), by keys."""
    rows, number = sum(own.values()), sum(keys.values())
    beside_rows = max(0.0, float(sizes.get("leaf_bytes", 0)) - rows)
    beside_nodes = max(0.0, float(sizes.get("engine_state_bytes", 0)) - nodes)
    for name in own:
        own[name] *= 1 + beside_rows / rows if rows else 1.0
        own[name] += beside_nodes * keys[name] / number if number else 0.0


def _view(
    view: Mapping[str, Any],
    per_key: Mapping[str, float],
    inner_share: Mapping[str, float],
    whole: set[str],
    looked_up: set[str],
) -> MeasuredView:
    counters = view["counters"]
    return MeasuredView(
        name=view["name"],
        tier=view["tier"],
        whole=view["name"] in whole,
        keys=int(counters["covered_keys"]),
        key_bytes=per_key.get(view["name"]),
        inner_share=inner_share.get(view["name"], 0.0),
        looked_up=view["name"] in looked_up,
        hits=int(counters["hits"]),
        misses=int(counters["misses"]),
        filled=int(counters["filled"]),
        evicted_by_budget=int(counters["evicted_by_budget"]),
        rows_applied=int(counters["rows_applied"]),
        rows_dropped=int(counters["rows_dropped"]),
        lookups=int(counters["lookups"]),
        lookup_keys=int(counters["lookup_keys"]),
        lookup_rows=int(counters["lookup_rows"]),
        lookup_s=float(counters["lookup_s"]),
    )


def _inner_bytes(
    graph: Sequence[Mapping[str, Any]], keys: Mapping[str, int], whole: set[str]
) -> tuple[float, dict[str, float]]:
    """Bytes of nodes: fixed ones, and by view."""
    above: dict[int, set[str]] = {}
    # Inputs come first.
    for node in reversed(graph):
        views = above.setdefault(int(node["id"]), set())
        views |= set(node["views"]) & keys.keys()
        for parent in node["inputs"]:
            above.setdefault(int(parent), set()).update(views)
    fixed, by_view = 0.0, dict.fromkeys(keys, 0.0)
    for node in graph:
        size, views = float(node["state_bytes"]), above[int(node["id"])]
        sharing = {name: keys[name] for name in views - whole if keys[name]}
        if node["coverage"] == ["full"] or not sharing:
            fixed += size
            continue
        total = sum(sharing.values())
        for name, number in sharing.items():
            by_view[name] += size * number / total
    return fixed, by_view
