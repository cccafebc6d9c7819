"""The model, from a log and a service's figures.

*Theory*: there is one budget for all views, so its hit rate comes from simulating the service's policy (`replay`) on
the sample of all views, at several sizes. A view's own curve, with memory for it alone, is LRU's. Sizes of keys come
from the service's figures: the mean of the view, distributed over keys by the bytes of their answers.

*Invariants*: misses of keys that were read before, in a service that had evicted nothing, stay misses in every memory:
their reason was not memory.

Not here: conclusions (`advice`, `drift`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dataflow.spark.workload.advice import advice_of
from dataflow.spark.workload.curves import Curve, curve_of, distances
from dataflow.spark.workload.drift import drift_of
from dataflow.spark.workload.hot_keys import pinned, prewarmed
from dataflow.spark.workload.inner import FootprintPlaces, Inner, inner_of
from dataflow.spark.workload.log import LogSummary
from dataflow.spark.workload.measured import (
    UNKNOWN_KEY_BYTES,
    UNKNOWN_ROWS_FACTOR,
    Measured,
    MeasuredView,
)
from dataflow.spark.workload.model import Check, LogModel, Point, ViewModel
from dataflow.spark.workload.replay import replay
from dataflow.spark.workload.sample import Floats, Ints, ReadSample, SampleSizes
from dataflow.spark.workload.zipf import fit

#: Sizes of memory, as shares of what all keys take.
SHARES = (0.01, 0.02, 0.04, 0.07, 0.10, 0.15, 0.25, 0.35, 0.50, 0.65, 0.80, 0.90, 1.0)
#: More than all keys take: the budget is never reached.
_AMPLE = 1.05
PERCENTS = (90, 95, 99)
#: A budget is enough if it has this share of the highest possible hits.
_ENOUGH = 0.99
_KEY_BYTES = 600.0
_POLICY_ROWS = 2.0
#: Points of a view's curve, and of the check.
_VIEW_POINTS = 40
_CHECKED = (0.05, 0.2, 0.5, 0.8)
_HOTTEST = 100


@dataclass(frozen=True, slots=True)
class ModelInput:
    """Input of a model besides the log. `shares` of memory to simulate; `hashes` of the keys with measured
    footprints."""

    measured: Measured | None = None
    last: LogModel | None = None
    budget_bytes: int | None = None
    shares: Sequence[float] = SHARES
    hashes: Ints | None = None


def assemble(log: LogSummary, asked: ModelInput) -> LogModel:
    measured = asked.measured
    found = _Found.of(log, measured, asked.hashes)
    fixed = 0.0 if measured is None else measured.fixed_bytes
    points = [found.point(share, fixed) for share in (*asked.shares, _AMPLE)]
    enough = _ENOUGH * points[-1].warm_hit_rate
    advised = next(point for point in points if point.warm_hit_rate >= enough)
    budget = asked.budget_bytes or (advised.budget_bytes if measured is None else measured.budget_bytes)
    at = _at(points, budget)
    keyed = {name: found.curve(number) for number, name in enumerate(found.sample.views)}
    views = {name: _view(found, asked, name, keyed[name], at, budget) for name in log.views}
    model = LogModel(
        lines=log.lines,
        unread_lines=log.unread,
        from_us=log.from_us,
        to_us=log.to_us,
        sample_rate=log.sample_rate,
        requests_per_s=sum(view.requests_per_s for view in views.values()),
        fixed_bytes=int(fixed),
        keys_bytes=int(found.keys_bytes),
        budget_bytes=int(budget),
        advised_bytes=advised.budget_bytes,
        memory_for={str(percent): _memory_for(points, percent / 100) for percent in PERCENTS},
        curve=points,
        check=found.check(),
        sampled={"keys": len(found.sample.keys), "reads": len(found.sample)},
        views=views,
        unread_views=[] if measured is None else sorted(measured.views.keys() - log.views.keys()),
        drift=[],
        notes=_notes(log, measured),
    )
    return model if asked.last is None else replace(model, drift=drift_of(asked.last, model))


def _at(points: Sequence[Point], budget: float) -> Point:
    """The largest point that the budget has room for."""
    fitting = [point for point in points if point.budget_bytes <= budget]
    return fitting[-1] if fitting else points[0]


def _memory_for(points: Sequence[Point], share: float) -> int | None:
    return next((point.budget_bytes for point in points if point.warm_hit_rate >= share), None)


def _notes(log: LogSummary, measured: Measured | None) -> list[str]:
    notes = []
    if measured is None:
        notes.append("Without figures of a service, sizes of keys are a guess, and changes and lookups are unknown.")
    elif measured.policy_evicted:
        notes.append(
            "The service had evicted keys to free memory: misses for other reasons (changes of refreshed views, say)"
            " cannot be distinguished from those of evicted keys, and are not in the model."
        )
    if log.sample_rate < 1:
        notes.append(f"The log has {log.sample_rate:.2%} of keys; figures are scaled to all of them.")
    if log.unread:
        notes.append(f"{log.unread:,} unreadable lines are left out.")
    return notes


@dataclass(frozen=True, slots=True)
class _Found:
    """The sample with sizes, without fully materialized views: their reads are so many, and so many hits (`whole`).
    `warm`: reads of the second half; `needed`: LRU's distances among all keys."""

    log: LogSummary
    measured: Measured | None
    sample: ReadSample
    sizes: SampleSizes
    inner: Inner | None
    lost: NDArray[np.bool_]
    warm: NDArray[np.bool_]
    needed: Floats
    scale: float
    whole: tuple[float, float]

    @classmethod
    def of(cls, log: LogSummary, measured: Measured | None, hashes: Ints | None) -> "_Found":
        sample, whole = _without_whole(log.sample, measured)
        footprints = None if measured is None or hashes is None else measured.footprints
        places = None if footprints is None or hashes is None else FootprintPlaces.of(footprints, hashes, sample)
        sizes = _sizes(sample, measured, places)
        lost = _lost(sample, measured)
        warm = np.arange(len(sample)) >= len(sample) // 2
        needed = distances(sample, sizes.memory_bytes)
        needed[lost] = np.inf
        inner = None if measured is None or places is None else _inner(sample, sizes, measured, places)
        return cls(log, measured, sample, sizes, inner, lost, warm, needed, 1 / log.sample_rate, whole)

    @property
    def keys_bytes(self) -> float:
        """Bytes of all keys of the log."""
        return float(self.sizes.memory_bytes @ self.sample.keys.scale) * self.scale

    def point(self, share: float, fixed: float) -> Point:
        """Hit rates of a memory for that share of the keys' bytes."""
        of_sample = share * self.keys_bytes / self.scale
        replayed = replay(self.sample, self.sizes, of_sample, self.lost, inner=self.inner)
        there, weight = replayed.line_hits(self.sample), self._line_weight()
        lru = curve_of(self.sample, self.needed, np.ones(len(self.sample), dtype=bool)).hit_rate(of_sample)
        held = np.bincount(
            self.sample.keys.view,
            weights=replayed.held * self.sizes.memory_bytes * self.sample.keys.scale,
            minlength=len(self.sample.views),
        )
        return Point(
            budget_bytes=int(fixed + share * self.keys_bytes),
            share=share,
            hit_rate=self._with_whole(there, weight, 1.0),
            warm_hit_rate=self._with_whole(there, weight * self.warm, 0.5),
            lru_hit_rate=lru,
            views=self._by_view(there, weight * self.warm),
            held_bytes={name: int(held[n] * self.scale) for n, name in enumerate(self.sample.views)},
        )

    def _with_whole(self, there: NDArray[np.bool_], weight: Floats, part: float) -> float:
        """The hit rate of these reads and of that part of the reads of fully materialized views."""
        reads, hits = self.whole
        total = float(weight.sum()) + part * reads
        return (float(weight @ there) + part * hits) / total if total else 0.0

    def _line_weight(self) -> Floats:
        """Reads of several keys count once."""
        of_line = np.bincount(self.sample.line)
        weight: Floats = self.sample.weight / of_line[self.sample.line]
        return weight

    def _by_view(self, there: NDArray[np.bool_], weight: Floats) -> dict[str, float]:
        view = self.sample.keys.view[self.sample.key]
        names = self.sample.views
        reads = np.bincount(view, weights=weight, minlength=len(names))
        hits = np.bincount(view, weights=weight * there, minlength=len(names))
        return {name: float(hits[n] / reads[n]) if reads[n] else 0.0 for n, name in enumerate(names)}

    def curve(self, view: int) -> Curve:
        """LRU's curve of one view, with memory for it alone."""
        chosen = self.sample.keys.view == view
        part = self.sample.of_keys(chosen, self.sample.keys.scale)
        of_view = chosen[self.sample.key]
        needed = distances(part, self.sizes.of_keys(chosen).memory_bytes)
        needed[self.lost[of_view]] = np.inf
        counted = self.warm[of_view]
        return curve_of(part, needed, counted if counted.any() else np.ones(len(part), dtype=bool))

    def check(self) -> list[Check]:
        """The curve of a part of the sample's keys against LRU itself on all of them."""
        random = np.random.default_rng(7)
        chosen = random.random(len(self.sample.keys)) < np.where(
            self.sample.keys.reads > np.median(self.sample.keys.reads), 1.0, 0.25
        )
        often = self.sample.keys.reads > np.median(self.sample.keys.reads)
        rare_scale = (~often).sum() / max(1, (chosen & ~often).sum())
        scale = self.sample.keys.scale * np.where(often, 1.0, rare_scale)
        part, sizes = self.sample.of_keys(chosen, scale), self.sizes.of_keys(chosen)
        needed = distances(part, sizes.memory_bytes)
        sampled = curve_of(part, needed, np.ones(len(part), dtype=bool))
        total = self.keys_bytes / self.scale
        exact = curve_of(
            self.sample, distances(self.sample, self.sizes.memory_bytes), np.ones(len(self.sample), dtype=bool)
        )
        return [
            Check(int(share * self.keys_bytes), exact.hit_rate(share * total), sampled.hit_rate(share * total))
            for share in _CHECKED
        ]


def _without_whole(sample: ReadSample, measured: Measured | None) -> tuple[ReadSample, tuple[float, float]]:
    names = set() if measured is None else {name for name, view in measured.views.items() if view.whole}
    if names.isdisjoint(sample.views):
        return sample, (0.0, 0.0)
    whole = np.array([name in names for name in sample.views])[sample.keys.view]
    of_whole = whole[sample.key]
    weight = sample.weight[of_whole]
    hits = float(weight @ ~sample.computed[of_whole])
    return sample.of_keys(~whole, sample.keys.scale), (float(weight.sum()), hits)


def _sizes(sample: ReadSample, measured: Measured | None, places: FootprintPlaces | None) -> SampleSizes:
    keys = sample.keys
    memory, cost = np.zeros(len(keys)), np.ones(len(keys))
    rows = _rows_bytes(sample, measured, places)
    for number, name in enumerate(sample.views):
        of_view = keys.view == number
        view = None if measured is None else measured.views.get(name)
        memory[of_view] = _key_bytes(view, rows[of_view], keys.scale[of_view])
        if view is not None and of_view.any():
            mean = float(rows[of_view] @ keys.scale[of_view] / keys.scale[of_view].sum())
            cost[of_view] = view.costs(rows[of_view] / mean if mean else np.ones(int(of_view.sum())))
    return SampleSizes(memory, _KEY_BYTES + rows, cost)


def _rows_bytes(sample: ReadSample, measured: Measured | None, places: FootprintPlaces | None) -> Floats:
    """Bytes of each key's rows: an answer may have few of them."""
    rows = _POLICY_ROWS * sample.keys.rows_bytes.astype(np.float64)
    if measured is not None and measured.footprints is not None and places is not None:
        known = places.place >= 0
        rows[known] = measured.footprints.key_bytes[places.place[known]]
    return rows


def _key_bytes(view: MeasuredView | None, rows: Floats, scale: Floats) -> Floats:
    if view is not None and view.whole:
        return np.zeros(len(rows))
    if view is None or view.key_bytes is None:
        return UNKNOWN_KEY_BYTES + UNKNOWN_ROWS_FACTOR / _POLICY_ROWS * rows
    mean = float(rows @ scale / scale.sum()) if len(rows) else 0.0
    base = min(_KEY_BYTES, view.key_bytes / 2)
    return np.full(len(rows), view.key_bytes) if not mean else base + (view.key_bytes - base) * rows / mean


def _inner(sample: ReadSample, sizes: SampleSizes, measured: Measured, places: FootprintPlaces) -> Inner | None:
    if measured.footprints is None:
        return None
    views = [measured.views.get(name) for name in sample.views]
    shared = np.array([0.0 if view is None else view.inner_share for view in views])
    inside = sizes.memory_bytes * shared[sample.keys.view]
    return inner_of(measured.footprints, places, sample.keys.scale, sizes.memory_bytes - inside, inside)


def _lost(sample: ReadSample, measured: Measured | None) -> NDArray[np.bool_]:
    """Reads whose key had gone though there was room."""
    lost = np.zeros(len(sample), dtype=bool)
    if measured is None or measured.policy_evicted:
        return lost
    # Whether the key was read by an earlier request.
    order = np.lexsort((np.arange(len(sample)), sample.key))
    key, request = sample.key[order], sample.request[order]
    same = np.concatenate([[False], (np.diff(key) == 0)])
    first = np.maximum.accumulate(np.where(~same, np.arange(len(order)), 0))
    before = np.empty(len(sample), dtype=bool)
    before[order] = request > request[first] if len(order) else False
    # Of a read of several keys a new one is why it was computed; if there is none, one of them had gone.
    lines = int(sample.line.max(initial=-1)) + 1
    has_new = np.zeros(lines, dtype=bool)
    has_new[sample.line[~before]] = True
    leads = np.concatenate([[True], np.diff(sample.line) != 0]) if len(sample) else lost
    found: NDArray[np.bool_] = sample.computed & ~has_new[sample.line] & leads
    return found


def _view(found: _Found, asked: ModelInput, name: str, curve: Curve, at: Point, budget: float) -> ViewModel:
    log, measured = found.log, asked.measured
    of_log = log.views[name]
    view = None if measured is None else measured.views.get(name)
    number = found.sample.views.index(name)
    of_view = found.sample.keys.view == number
    scale = found.sample.keys.scale[of_view]
    key_bytes = float(found.sizes.memory_bytes[of_view] @ scale / scale.sum()) if of_view.any() else 0.0
    hit_rate = at.views[name]
    if view is not None and view.whole:
        hit_rate = of_log.outcomes.get("hit", 0) / of_log.requests
    per_s = of_log.requests * found.scale / log.seconds
    upqueries = per_s * (1 - hit_rate)
    applied = None if view is None else view.rows_applied
    hits = 0 if view is None else view.hits
    hot = [key for key in log.hot if key.view == name]
    model = ViewModel(
        requests=int(of_log.requests * found.scale),
        requests_per_s=per_s,
        keys=int(of_log.keys * found.scale),
        one_hit_share=of_log.one_hit / of_log.keys,
        outcomes=of_log.outcomes,
        skew=fit(of_log.spectrum),
        key_bytes=key_bytes,
        tier=None if view is None else view.tier,
        hit_rate=hit_rate,
        curve=_thinned(curve, found.scale),
        memory_for={str(p): _scaled(curve.memory_for(p / 100), found.scale) for p in PERCENTS},
        upqueries_per_s=upqueries,
        upstream_s_per_s=None if view is None or not view.lookups else upqueries * view.lookup_s_per_fill,
        rows_applied=applied,
        rows_dropped=None if view is None else view.rows_dropped,
        deltas_per_read_saved=None if applied is None or not hits else applied / hits,
        budget_bytes=at.held_bytes[name],
        advice=[],
        prewarm=prewarmed(hot, at.held_bytes[name], key_bytes),
        pin=pinned(hot, of_log.requests, log.seconds, key_bytes, budget),
        hottest=[key.texts for key in hot[:_HOTTEST]],
    )
    model.advice.extend(advice_of(model, view))
    return model


def _scaled(size: float | None, scale: float) -> int | None:
    return None if size is None else int(size * scale)


def _thinned(curve: Curve, scale: float) -> list[tuple[int, float]]:
    """Points of it, evenly over hits."""
    if not len(curve.hits) or not curve.all_reads:
        return []
    wanted = np.linspace(0, curve.hits[-1], _VIEW_POINTS + 1)[1:]
    at = np.minimum(np.searchsorted(curve.hits, wanted), len(curve.hits) - 1)
    return [(int(curve.needed_bytes[i] * scale), float(curve.hits[i]) / curve.all_reads) for i in np.unique(at)]
