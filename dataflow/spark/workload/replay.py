"""Simulation of a sampled log under the service's eviction policy, in a memory of some size.

*Theory*: one pass finds the curve of stack algorithms only; for other policies, a scaled-down simulation for each
size is as good (Waldspurger et al., *Cache modeling and optimization using miniature simulations*, USENIX ATC 2017).
Here a key of the sample counts as all keys that it stands for, with their bytes and cost together, so that the policy
decides as it would for them all.

As in the service: above the budget, keys are evicted until 95 % of it is used, and the policy's ghosts count; all reads
of a request are looked up before missing keys are filled; the policy is notified of hits once a second; a read of
several keys is a hit if all are in memory.

*Invariants*: only filled keys are hits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataflow.eviction.policy import GHOST_BYTES, Policy
from dataflow.eviction.s3_fifo import S3Fifo
from dataflow.spark.workload.inner import LEAST_COST, Holding, Inner
from dataflow.spark.workload.sample import ReadSample, SampleSizes

#: `service.engine.loop.memory_budget.TARGET`.
TARGET = 0.95
#: `service.engine.loop.memory_budget.ENOUGH_KEYS`.
ENOUGH_KEYS = 0.1
#: `dataflow.engine.upquery`: bytes beside each key that a waiting read has fetched.
_UNDER_WAY_BYTES = 700
#: Interval of the workers' reports of reads.
TOLD_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result: for each read, whether its key was in memory; for each key, whether it is at the end."""

    there: NDArray[np.bool_]
    held: NDArray[np.bool_]

    def line_hits(self, sample: ReadSample) -> NDArray[np.bool_]:
        """Return whether all keys of each read's line were in memory."""
        missing = np.zeros(int(sample.line.max(initial=-1)) + 1, dtype=bool)
        missing[sample.line[~self.there]] = True
        return ~missing[sample.line]


def replay(
    sample: ReadSample,
    sizes: SampleSizes,
    memory_bytes: float,
    lost: NDArray[np.bool_] | None = None,
    target: float = TARGET,
    told_us: int = TOLD_US,
    inner: Inner | None = None,
    policy: Policy[int] | None = None,
) -> Replayed:
    """Simulate the reads with a memory of that many bytes. `lost`: reads whose key was removed for another reason than
    memory. `told_us`: interval of the policy's notifications. `policy`: by default, the service's."""
    run = _Run(sample, sizes, memory_bytes, S3Fifo() if policy is None else policy, target, told_us, inner)
    there = np.zeros(len(sample), dtype=bool)
    gone = [False] * len(sample) if lost is None else lost.tolist()
    request = -1
    times = np.maximum(1, np.rint(sample.times)).astype(np.int64).tolist()
    reads = zip(
        sample.key.tolist(),
        sample.line.tolist(),
        sample.request.tolist(),
        sample.time_us.tolist(),
        times,
        gone,
        strict=True,
    )
    for place, (key, line, of_request, time_us, as_often, is_gone) in enumerate(reads):
        if of_request != request:
            request = of_request
            run.answer()
            run.tell(time_us)
        if is_gone:
            run.lose(key)
        there[place] = run.read(key, line, as_often)
    return Replayed(there, np.frombuffer(run.held, dtype=np.bool_))


class _Run:
    """*State*: `held` keys take `used` bytes; `missing` are filled when their request ends; `untold` were read since
    `told_us`."""

    def __init__(
        self,
        sample: ReadSample,
        sizes: SampleSizes,
        memory_bytes: float,
        policy: Policy[int],
        target: float,
        told_us: int,
        inner: Inner | None,
    ) -> None:
        self.policy = policy
        self.memory = memory_bytes
        self.target = memory_bytes * target
        self.used = 0.0
        scale = sample.keys.scale
        self.holding = None if inner is None else Holding(inner)
        self.weights: list[float] = ((sizes.memory_bytes if inner is None else inner.outside) * scale).tolist()
        self.policy_weights: list[int] = np.maximum(1, sizes.policy_bytes * scale).astype(np.int64).tolist()
        self.costs: list[float] = (sizes.cost * scale).tolist()
        #: Bytes for each byte that those weighed which the policy remembers.
        keys = float(scale.sum())
        self.ghost_share = GHOST_BYTES / max(1.0, float(sizes.policy_bytes @ scale) / keys) if keys else 0.0
        self.held = bytearray(len(sample.keys))
        self.scale: list[float] = scale.tolist()
        self.view: list[int] = sample.keys.view.tolist()
        self.keys_held = 0.0
        self.under_way = 0
        #: Of the request that is being read.
        self.found: list[tuple[int, int, int]] = []
        #: By line.
        self.missing: dict[int, dict[int, None]] = {}
        self.untold: dict[int, int] = {}
        self.every_us = told_us
        self.told_us = 0

    def read(self, key: int, line: int, times: int) -> bool:
        if self.held[key]:
            self.found.append((key, line, times))
            return True
        self.missing.setdefault(line, {})[key] = None
        return False

    def lose(self, key: int) -> None:
        if self.held[key]:
            self._let_go(key)
            self.policy.forget(key)

    def answer(self) -> None:
        """Fill the keys that the last request missed."""
        # Of a read that was no hit the policy does not hear, not even of the keys that were there.
        there = 0
        for key, line, times in self.found:
            if line in self.missing:
                there += 1
            else:
                self.untold[key] = self.untold.get(key, 0) + times
        missing = list(dict.fromkeys(key for keys in self.missing.values() for key in keys))
        for key, cost in zip(missing, self._costs_of(missing, there), strict=True):
            self.policy.fill(key, self.policy_weights[key], cost)
            self._hold(key)
            if self._in_use() > self.memory:
                self._evict()
        self.under_way = 0
        self.found.clear()
        self.missing.clear()

    def _costs_of(self, keys: Sequence[int], there: int) -> list[float]:
        """Costs of the keys that one request misses, `there` of whose keys are in memory. As `dataflow.engine.upquery`
        counts: a key that is looked up pays for that, the others share all lookups with all of the request's keys."""
        if self.holding is None or not keys:
            return [self.costs[key] for key in keys]
        lacks = [self.holding.lacks(key) for key in keys]
        own = [key for key, lack in zip(keys, lacks, strict=True) if lack is None]
        of_inner, number = self.holding.cost(keys)
        self.under_way = _UNDER_WAY_BYTES * (number + len(own))
        of_all = (
            of_inner + len({self.view[key] for key in own}) + sum(self.costs[key] / self.scale[key] - 1 for key in own)
        )
        each = max(LEAST_COST, of_all / (len(keys) + there))
        return [
            self.costs[key] if lack is None else (each if lack else LEAST_COST) * self.scale[key]
            for key, lack in zip(keys, lacks, strict=True)
        ]

    def tell(self, time_us: int) -> None:
        """Tells the policy what was read, if it is time to."""
        if time_us - self.told_us >= self.every_us:
            for key, times in self.untold.items():
                self.policy.touch(key, times)
            self.untold.clear()
            self.told_us = time_us

    def _in_use(self) -> float:
        churn = 0.0 if self.holding is None else self.holding.churn_bytes()
        return self.used + churn + self.under_way + self.ghost_share * self.policy.ghost_weight()

    def _evict(self) -> None:
        enough = ENOUGH_KEYS * self.keys_held
        before = self.keys_held
        while (used := self._in_use()) > self.target:
            if used <= self.memory and before - self.keys_held >= enough:
                return
            victim = self.policy.victim()
            if victim is None:
                return
            self._let_go(victim)

    def _hold(self, key: int) -> None:
        self.held[key] = 1
        self.keys_held += self.scale[key]
        self.used += self.weights[key]
        if self.holding is not None:
            self.used += self.holding.hold(key)

    def _let_go(self, key: int) -> None:
        self.held[key] = 0
        self.keys_held -= self.scale[key]
        self.used -= self.weights[key]
        if self.holding is not None:
            self.used -= self.holding.let_go(key)
