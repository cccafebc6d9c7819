"""Skew, curves and replays against what they stand for."""

import numpy as np
import pytest

from dataflow.eviction.policy import GHOST_BYTES, Policy
from dataflow.eviction.s3_fifo import S3Fifo
from dataflow.spark.workload.curves import curve_of, distances
from dataflow.spark.workload.replay import replay
from dataflow.spark.workload.sample import ReadSample, SampleSizes, classes_of, rates
from dataflow.spark.workload.zipf import fit, spectrum_of
from load.micro.lru import Lru
from tests.spark.workload.logs import drawn, sample_of


@pytest.mark.parametrize(
    ("alpha", "keys", "reads"), [(0.6, 10_000, 100_000), (0.8, 100_000, 1_000_000), (1.1, 1_000_000, 100_000)]
)
def test_the_skew_is_within_its_interval(alpha: float, keys: int, reads: int) -> None:
    """Seeds are fixed, so the misses of a 95 % interval do not happen to fail."""
    means = np.arange(1, keys + 1, dtype=np.float64) ** -alpha
    means *= reads / means.sum()
    within = 0
    for seed in (11, 12, 13):
        found = fit(spectrum_of(np.random.default_rng(seed).poisson(means)), replicates=12)
        assert found is not None
        assert abs(found.alpha - alpha) < 0.02
        assert found.high - found.low < 0.05
        assert keys / 1.5 < found.keys < 1.5 * keys
        within += found.low <= alpha <= found.high
    assert within >= 2


def test_what_does_not_follow_the_law_is_seen_not_to() -> None:
    random = np.random.default_rng(3)
    two_kinds = np.concatenate([random.poisson(3.0, 5000), random.poisson(400.0, 500)])
    found = fit(spectrum_of(two_kinds), replicates=12)
    assert found is not None
    assert found.distance > 0.05


def test_too_little_says_nothing() -> None:
    assert fit(spectrum_of(np.ones(10))) is None
    assert fit(spectrum_of(np.ones(10_000))) is None
    assert fit(spectrum_of(np.zeros(0))) is None


def every(sample: ReadSample) -> "np.typing.NDArray[np.bool_]":
    return np.ones(len(sample), dtype=bool)


def part_of(sample: ReadSample, sizes: SampleSizes, reads: int) -> tuple[ReadSample, SampleSizes]:
    """A sample of a sample, as `log` takes it."""
    classes, place = np.unique(classes_of(sample.keys.view, sample.keys.reads), return_inverse=True)
    number = np.bincount(place).astype(float)
    share = rates(number, np.bincount(place, weights=sample.keys.reads), reads, reads)
    chosen = np.random.default_rng(5).random(len(sample.keys)) < share[place]
    taken = np.bincount(place[chosen], minlength=len(classes))
    return sample.of_keys(chosen, (number / np.maximum(1, taken))[place]), sizes.of_keys(chosen)


def test_curves_and_samples_against_exact_simulation() -> None:
    sample, sizes = sample_of(drawn(8_000, 40_000, 0.9, seed=2))
    total = float(sizes.memory_bytes.sum())
    curve = curve_of(sample, distances(sample, sizes.memory_bytes), every(sample))
    part, part_sizes = part_of(sample, sizes, 15_000)
    assert len(part) < 0.5 * len(sample)
    assert (part.weight.sum() / len(sample)) == pytest.approx(1, abs=0.02)
    sampled = curve_of(part, distances(part, part_sizes.memory_bytes), every(part))
    for share in (0.1, 0.25, 0.5, 0.8):
        exact = replay(sample, sizes, share * total, target=1.0, told_us=0, policy=Lru()).there.mean()
        assert curve.hit_rate(share * total) == pytest.approx(exact, abs=0.01)
        assert sampled.hit_rate(share * total) == pytest.approx(exact, abs=0.02)
        whole = replay(sample, sizes, share * total).there.mean()
        there = replay(part, part_sizes, share * total).there
        assert (there @ part.weight) / part.weight.sum() == pytest.approx(whole, abs=0.02)
    most = curve.hit_rate(2 * total)
    assert curve.memory_for(most) is not None
    assert curve.memory_for(most + 0.01) is None


def test_reads_of_one_request_do_not_find_what_the_others_fill() -> None:
    sample, sizes = sample_of(np.array([7, 7, 7]))
    together = ReadSample(
        sample.views,
        sample.keys,
        sample.key,
        sample.time_us,
        np.array([0, 0, 1]),
        sample.line,
        sample.computed,
        sample.times,
    )
    assert replay(together, sizes, 1e9).there.tolist() == [False, False, True]
    lost = replay(together, sizes, 1e9, np.array([False, False, True]))
    assert lost.there.tolist() == [False, False, False]


def test_the_policy_hears_only_of_reads_whose_keys_were_all_there() -> None:
    """A read of two keys, of which one is there, is none of that one."""
    sample, _ = sample_of(np.array([0, 1, 0, 2, 3, 1]))
    line = np.array([0, 1, 2, 2, 3, 4])
    listed = ReadSample(
        sample.views, sample.keys, sample.key, sample.time_us, line, line, sample.computed, sample.times
    )
    even = SampleSizes(np.ones(4), np.ones(4), np.ones(4))
    # The fourth key takes the place of the first.
    there = replay(listed, even, 3.0, target=1.0, told_us=0, policy=Lru()).there
    assert there.tolist() == [False, False, True, False, False, True]


def test_what_the_policy_remembers_takes_room() -> None:
    """S3-FIFO remembers as many bytes of keys that are read once each as there are in memory."""
    sample, _ = sample_of(np.arange(4_000))
    weight = np.full(4_000, 1_500.0)
    sizes = SampleSizes(weight, weight, np.ones(4_000))
    policies: tuple[Policy[int], Policy[int]] = (Lru(), S3Fifo())
    lru, s3_fifo = (int(replay(sample, sizes, 750_000, target=1.0, policy=policy).held.sum()) for policy in policies)
    assert lru == 500
    assert s3_fifo == pytest.approx(750_000 / (1_500 + GHOST_BYTES), abs=2)
