"""The miss-ratio curve of least recently used, for all sizes of memory at once.

*Theory*: under LRU a read is a hit if all keys that were read since the last read of its key fit into memory beside it
(Mattson et al., *Evaluation techniques for storage hierarchies*, IBM Systems Journal 1970). Bytes are added up instead
of keys, and of a sampled log (`sample`) each key's bytes as often as it stands for.

*Invariants*: of a log that is not sampled the curve is exact, for items that all fit.

Not here: other policies (`replay`).
"""

from dataclasses import dataclass

import numpy as np

from dataflow.spark.workload.sample import Floats, ReadSample


@dataclass(frozen=True, slots=True)
class Curve:
    """Reads by the memory that they need to be hits: ascending, with what each stands for. `all_reads`: also those that
    are no hits in any memory."""

    needed_bytes: Floats
    hits: Floats
    all_reads: float

    def hit_rate(self, memory_bytes: float) -> float:
        """The share of reads that are hits."""
        if not self.all_reads:
            return 0.0
        at = int(np.searchsorted(self.needed_bytes, memory_bytes, side="right"))
        return float(self.hits[at - 1]) / self.all_reads if at else 0.0

    def memory_for(self, hit_rate: float) -> float | None:
        """The least memory for that share; None: there is none."""
        at = int(np.searchsorted(self.hits, hit_rate * self.all_reads, side="left"))
        return None if at >= len(self.hits) else float(self.needed_bytes[at])


def distances(sample: ReadSample, memory_bytes: Floats) -> Floats:
    """Computes the bytes that must fit for each read to be a hit; infinite for the first read of a key."""
    scaled = memory_bytes * sample.keys.scale
    # A tree of sums (Fenwick) over the reads: at the last read of each key, its bytes.
    n = len(sample)
    tree = [0.0] * (n + 1)
    last = [0] * len(sample.keys)
    weights: list[float] = scaled.tolist()
    total = 0.0
    found = np.full(n, np.inf)
    for place, key in enumerate(sample.key.tolist(), start=1):
        weight, before = weights[key], last[key]
        if before:
            at, until = before, 0.0
            while at:
                until += tree[at]
                at &= at - 1
            # Sums of differences: rounding must not make less than the key itself of it.
            found[place - 1] = max(weight, total - until + weight)
            at = before
            while at <= n:
                tree[at] -= weight
                at += at & -at
        else:
            total += weight
        at = place
        while at <= n:
            tree[at] += weight
            at += at & -at
        last[key] = place
    return found


def curve_of(sample: ReadSample, needed: Floats, counted: "np.typing.NDArray[np.bool_]") -> Curve:
    """The curve of the reads that are `counted`."""
    weight = np.where(counted, sample.weight, 0.0)
    hits = np.isfinite(needed) & counted
    order = np.argsort(needed[hits], kind="stable")
    return Curve(needed[hits][order], np.cumsum(weight[hits][order]), float(weight.sum()))
