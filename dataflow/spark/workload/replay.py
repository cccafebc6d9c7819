"""A sampled log through the service's own eviction policy, in a memory of some size.

*Theory*: policies that are no stack algorithms have no curve that one pass finds; a scaled-down simulation for each
size is as good (Waldspurger et al., *Cache modeling and optimization using miniature simulations*, USENIX ATC 2017).
Here a key of the sample counts as all keys that it stands for: its bytes and its cost that often, so that what the
policy makes of both is what it would make of them all.

As in the service: keys go until 95 % of the budget is used, once more than all of it is, and what the policy remembers
of them counts; all reads of a request are
looked up before what is missing is filled; the policy hears of hits once a second; a read of several keys is a hit if
all are there.

*Invariants*: nothing that was not filled is a hit.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataflow.eviction.policies import by_name
from dataflow.eviction.policy import GHOST_BYTES, Policy
from dataflow.spark.workload.sample import KeySizes, Sample

#: `service.runtime.budget.TARGET`.
TARGET = 0.95
#: How often workers report what was read.
TOLD_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Replayed:
    """For each read, whether its key was there; for each key, whether it is at the end."""

    there: NDArray[np.bool_]
    held: NDArray[np.bool_]

    def line_hits(self, sample: Sample) -> NDArray[np.bool_]:
        """For each read, whether all keys of its line were there."""
        missing = np.zeros(int(sample.line.max(initial=-1)) + 1, dtype=bool)
        missing[sample.line[~self.there]] = True
        return ~missing[sample.line]


def replay(
    sample: Sample,
    sizes: KeySizes,
    memory_bytes: float,
    policy: str,
    lost: NDArray[np.bool_] | None = None,
    target: float = TARGET,
    told_us: int = TOLD_US,
) -> Replayed:
    """The reads in a memory of that many bytes. `told_us`: how often the policy hears of hits. `lost`: reads whose
    key had gone for another reason than memory."""
    run = _Run(sample, sizes, memory_bytes, policy, target, told_us)
    there = np.zeros(len(sample), dtype=bool)
    gone = [False] * len(sample) if lost is None else lost.tolist()
    request = -1
    times = np.maximum(1, np.rint(sample.times)).astype(np.int64).tolist()
    reads = zip(sample.key.tolist(), sample.request.tolist(), sample.time_us.tolist(), times, gone, strict=True)
    for place, (key, of_request, time_us, as_often, is_gone) in enumerate(reads):
        if of_request != request:
            request = of_request
            run.fill_missing()
            run.tell(time_us)
        if is_gone:
            run.lose(key)
        there[place] = run.read(key, as_often)
    return Replayed(there, np.frombuffer(run.held, dtype=np.bool_))


class _Run:
    """*State*: `held` keys take `used` bytes; `missing` are filled when their request ends; `untold` were read since
    `told_us`."""

    def __init__(
        self, sample: Sample, sizes: KeySizes, memory_bytes: float, policy: str, target: float, told_us: int
    ) -> None:
        self.policy: Policy[int] = by_name(policy)
        self.memory = memory_bytes
        self.target = memory_bytes * target
        self.used = 0.0
        scale = sample.keys.scale
        self.weights: list[float] = (sizes.memory_bytes * scale).tolist()
        self.policy_weights: list[int] = np.maximum(1, sizes.policy_bytes * scale).astype(np.int64).tolist()
        self.costs: list[float] = (sizes.cost * scale).tolist()
        #: Bytes for each byte that those weighed which the policy remembers.
        keys = float(scale.sum())
        self.ghost_share = GHOST_BYTES / max(1.0, float(sizes.policy_bytes @ scale) / keys) if keys else 0.0
        self.held = bytearray(len(sample.keys))
        self.missing: list[int] = []
        self.untold: dict[int, int] = {}
        self.every_us = told_us
        self.told_us = 0

    def read(self, key: int, times: int) -> bool:
        """Whether it is there."""
        if self.held[key]:
            self.untold[key] = self.untold.get(key, 0) + times
            return True
        self.missing.append(key)
        return False

    def lose(self, key: int) -> None:
        """The key has gone."""
        if self.held[key]:
            self.held[key] = 0
            self.used -= self.weights[key]
            self.policy.forget(key)

    def fill_missing(self) -> None:
        """What the last request asked for is there now."""
        for key in self.missing:
            if not self.held[key]:
                self.policy.fill(key, self.policy_weights[key], self.costs[key])
                self.held[key] = 1
                self.used += self.weights[key]
                if self._in_use() > self.memory:
                    self._evict()
        self.missing.clear()

    def tell(self, time_us: int) -> None:
        """Tells the policy what was read, if it is time to."""
        if time_us - self.told_us >= self.every_us:
            for key, times in self.untold.items():
                self.policy.touch(key, times)
            self.untold.clear()
            self.told_us = time_us

    def _in_use(self) -> float:
        return self.used + self.ghost_share * self.policy.ghost_weight()

    def _evict(self) -> None:
        while self._in_use() > self.target:
            victim = self.policy.victim()
            if victim is None:
                return
            self.held[victim] = 0
            self.used -= self.weights[victim]
