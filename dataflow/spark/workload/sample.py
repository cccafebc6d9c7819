"""A sample of a log's reads that fits into this process, and what it stands for.

*Theory*: SHARDS (Waldspurger et al., *Efficient MRC construction with SHARDS*, FAST 2015) takes all reads of a sample
of keys, chosen by their hash, and scales distances up. With skewed reads much of its error is whether the few hottest
keys are in the sample. Here keys are put in classes by how often they were read, and each class has a rate of its
own: all keys of small classes are in, few of large ones. A key then stands for `scale` keys, so its bytes count that
often. Of a key that is read all the time not each read is needed: a sampled one stands for `times`.

*Invariants*: the scales of a class add up to its keys, as far as the log is known. Reads are in order of their time.

Not here: how it is taken (`log`), what is made of it (`curves`, `replay`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of the sample. `view`: index into the names of views; `reads`: in the whole log; `rows_bytes`: of the
    largest answer; `scale`: of how many keys this is one; `hash`: of the name of the view and the
    key's texts, as Spark's ``xxhash64`` makes it."""

    view: Ints
    reads: Ints
    rows_bytes: Ints
    scale: Floats
    hash: Ints

    def __len__(self) -> int:
        return len(self.view)


@dataclass(frozen=True, slots=True)
class ReadSample:
    """Reads of `keys`, by time. `key`: index of the key; `time_us`; `request`: equal for reads of one request, `line`
    for keys of one read (a list asks for several); `computed`: the log says that it was not in memory; `times`: of
    how many reads this is one."""

    views: tuple[str, ...]
    keys: Keys
    key: Ints
    time_us: Ints
    request: Ints
    line: Ints
    computed: NDArray[np.bool_]
    times: Floats

    def __len__(self) -> int:
        return len(self.key)

    @property
    def weight(self) -> Floats:
        """Number of the log's reads that each read here stands for."""
        return self.times * self.keys.scale[self.key]

    def of_keys(self, chosen: NDArray[np.bool_], scale: Floats) -> "ReadSample":
        """Only these keys, with other scales (of all keys)."""
        number = np.cumsum(chosen) - 1
        kept = chosen[self.key]
        old = self.keys
        keys = Keys(old.view[chosen], old.reads[chosen], old.rows_bytes[chosen], scale[chosen], old.hash[chosen])
        return ReadSample(
            self.views,
            keys,
            number[self.key[kept]],
            self.time_us[kept],
            self.request[kept],
            self.line[kept],
            self.computed[kept],
            self.times[kept],
        )


@dataclass(frozen=True, slots=True)
class SampleSizes:
    """Sizes of keys: bytes of the memory budget, bytes for the eviction policy, and the cost of a fill (1.0: one
    lookup)."""

    memory_bytes: Floats
    policy_bytes: Floats
    cost: Floats

    def of_keys(self, chosen: NDArray[np.bool_]) -> "SampleSizes":
        return SampleSizes(self.memory_bytes[chosen], self.policy_bytes[chosen], self.cost[chosen])


def classes_of(view: Ints, reads: Ints) -> Ints:
    """The class of each key: its view, and how many digits the number of its reads has as a binary number."""
    return view * 64 + np.floor(np.log2(np.maximum(reads, 1))).astype(np.int64)


def rates(keys_of_class: Floats, lines_of_class: Floats, most_lines: float, most_keys: float) -> Floats:
    """The share of the keys of each class to take, so that there are about so many lines and keys at most: up to the
    same number of keys of each class, as large as possible."""
    low, high = 1.0, float(max(keys_of_class.max(initial=1.0), 1.0))
    for _ in range(60):
        middle = (low + high) / 2
        share = np.minimum(1.0, middle / keys_of_class)
        fits = (share @ lines_of_class) <= most_lines and (share @ keys_of_class) <= most_keys
        low, high = (middle, high) if fits else (low, middle)
    return np.minimum(1.0, high / keys_of_class)
