"""A policy by itself on a trace: how many of the reads find their key in a memory of some size.

A miss fills the key; the policy then evicts keys until the rest fits. Reads are reported to the policy at once, or,
as the service's workers do, in samples some time later.
"""

from dataclasses import dataclass

from load.micro.policies import DEFAULT, POLICIES, by_name
from load.traces.trace import Trace

__all__ = ["DEFAULT", "POLICIES", "PolicyReplay", "replay"]


@dataclass(frozen=True, slots=True)
class PolicyReplay:
    """Hits and saved cost with a memory of one size."""

    reads: int
    hits: int
    #: Cost of all reads, had none been a hit, and of the hits.
    cost: float
    saved: float

    @property
    def hit_rate(self) -> float:
        return self.hits / self.reads

    @property
    def saved_rate(self) -> float:
        return self.saved / self.cost


def replay(policy_name: str, trace: Trace, share: float, *, weighted: bool, sample: int = 0) -> PolicyReplay:
    """The trace in a memory that holds `share` of its keys, all alike; or `weighted`: of its bytes, each key with its
    weight and cost. `sample`: so many hits are reported at a time; 0: each at once."""
    policy = by_name(policy_name)
    weights = [key.weight_bytes if weighted else 1 for key in trace.keys]
    costs = [key.cost if weighted else 1.0 for key in trace.keys]
    room = share * sum(weights)
    held = bytearray(len(weights))
    untold: list[int] = []
    hits, saved = 0, 0.0
    for key in trace.reads:
        if held[key]:
            hits += 1
            saved += costs[key]
            untold.append(key)
            if len(untold) > sample:
                for read in untold:
                    policy.touch(read)
                untold.clear()
            continue
        policy.fill(key, weights[key], costs[key])
        held[key] = 1
        room -= weights[key]
        while room < 0:
            victim: int | None = policy.victim()
            assert victim is not None
            held[victim] = 0
            room += weights[victim]
    return PolicyReplay(len(trace.reads), hits, sum(costs[key] for key in trace.reads), saved)
