"""Shared inner keys: taken over from a service, and replayed."""

from typing import Any

import numpy as np
import pytest

from dataflow.spark.problems import SparkProblem
from dataflow.spark.workload.inner import FootprintPlaces, Holding, InnerKeys, inner_of
from dataflow.spark.workload.measured import measured_of
from dataflow.spark.workload.replay import replay
from dataflow.spark.workload.sample import Floats, Keys, ReadSample, SampleSizes
from load.micro.lru import Lru
from tests.spark.workload.logs import sample_of
from tests.spark.workload.test_report import measured

#: Two keys of a view: each has read a row of its own, which has read one that they share; the second may need another.
NODES = [
    {"state_bytes": 400, "covered_keys": 4, "table_bytes": 40, "rows": 4, "looked_up": True},
    {"state_bytes": 1_000, "covered_keys": 1, "table_bytes": 100, "rows": 9, "looked_up": True},
]
SHARING: dict[str, Any] = {
    "nodes": NODES,
    "inner": [[1, 77, [], []], [0, 10, [0], []], [0, 30, [0], []], [0, 10, [], []], [0, 30, [], []]],
    "views": {
        "v": {
            "covered_keys": 3,
            "keys": [
                [["a"], 500, [1, 3], []],
                [["b"], 900, [2], [3]],
                [["c"], 100, [4], []],
            ],
        }
    },
}
A, B, C = 11, 12, 13


def keys_of(hashes: list[int], scale: float = 1.0) -> ReadSample:
    number = len(hashes)
    ones = np.ones(number, dtype=np.int64)
    keys = Keys(ones * 0, ones, ones * 100, np.full(number, scale), np.array(hashes))
    place = np.arange(number)
    return ReadSample(("v",), keys, place, place, place, place, ones == 0, np.ones(number))


def sharing(hashes: list[int], scale: float = 1.0, inside: float = 100.0) -> tuple[Holding, list[float], Floats]:
    found, sample = InnerKeys.of(SHARING), keys_of(hashes, scale)
    told = FootprintPlaces.of(found, np.array([A, B, C]), sample)
    number = np.ones(len(hashes))
    inner = inner_of(found, told, sample.keys.scale, 7 * number, inside * number)
    return Holding(inner), list(inner.sizes), inner.outside


def test_what_nodes_take_is_what_was_measured() -> None:
    found = InnerKeys.of(SHARING)
    assert found.sizes[0] == 1_000
    assert sum(found.sizes[1:]) == 400
    assert found.sizes[2] == 3 * found.sizes[1]
    # Of a node whose keys have a row each, by their size.
    assert found.costs == pytest.approx([0.1, 0.015, 0.025, 0.015, 0.025])


def test_keys_together_take_what_they_did() -> None:
    """And the last one that needs what several do takes it along."""
    holding, _, outside = sharing([A, B, C], inside=1_400 / 3)
    assert outside.tolist() == [7, 7, 7]
    assert [holding.hold(0), holding.hold(1), holding.hold(2)] == pytest.approx([1_100, 150, 150])
    assert holding.hold(0) == 0
    holding.let_go(0)
    # What the second may need stays, since the first has read it.
    assert holding.let_go(0) == pytest.approx(50)
    assert holding.let_go(1) == pytest.approx(1_000 + 150 + 50)
    assert holding.let_go(2) == pytest.approx(150)
    # Nothing reads it for the second alone.
    assert holding.hold(1) == pytest.approx(1_150)


def test_lookups_are_of_what_is_missing() -> None:
    holding, _, _ = sharing([A, B, C])
    assert holding.cost([0]) == pytest.approx((1 + 0.015 + 0.015 + 1 + 0.1, 3))
    # One of a node for both.
    assert holding.cost([0, 1, 2]) == pytest.approx((1 + 0.08 + 1 + 0.1, 5))
    holding.hold(0)
    assert holding.cost([1]) == pytest.approx((1 + 0.025, 1))
    assert holding.cost([0]) == (0, 0)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_keys_that_nothing_is_told_of_are_like_others(scale: float) -> None:
    """They share what those share, and have their own of what those have alone."""
    hashes = [A, B, C, *range(21, 36)]
    holding, sizes, _ = sharing(hashes, scale, inside=200.0)
    taken = [holding.hold(number) for number in range(len(hashes))]
    assert sum(taken) == pytest.approx(200 * scale * len(hashes))
    assert all(more > 0 for more in taken)
    shared = sizes[0]
    freed = [holding.let_go(number) for number in range(len(hashes))]
    assert sum(freed) == pytest.approx(sum(taken))
    assert max(freed) >= shared
    assert holding.churn_bytes() == pytest.approx(0, abs=1e-6)


def test_tables_of_what_comes_and_goes_are_twice_as_large() -> None:
    holding, _, _ = sharing([A, B, C], inside=1_400 / 3)
    holding.hold(0)
    assert holding.churn_bytes() == 0
    for _ in range(10):
        holding.hold(2)
        holding.let_go(2)
    assert holding.churn_bytes() == pytest.approx(0.1 * 1_100)


def test_a_view_that_nothing_is_told_of_shares_nothing() -> None:
    found, (sample, _) = InnerKeys.of({**SHARING, "views": {}}), sample_of(np.array([1, 2]))
    told = FootprintPlaces.of(found, np.zeros(0, dtype=np.int64), sample)
    inner = inner_of(found, told, sample.keys.scale, np.array([7.0, 8.0]), np.array([100.0, 200.0]))
    assert inner.outside.tolist() == [107, 208]
    holding = Holding(inner)
    assert holding.hold(0) == 0
    assert holding.lacks(0) is None
    assert holding.cost([0]) == (0, 0)


def test_a_memory_for_what_is_shared_has_room_for_all_who_do() -> None:
    """Three quarters of what keys take are one row that all have read."""
    number = 40
    document = {
        "nodes": [{"state_bytes": 30_000, "covered_keys": 1, "table_bytes": 0, "rows": 1, "looked_up": True}],
        "inner": [[0, 1, [], []]],
        "views": {"v": {"covered_keys": number, "keys": [[[str(n)], 100, [0], []] for n in range(number)]}},
    }
    sample, _ = sample_of(np.tile(np.arange(number), 5))
    each = np.ones(number)
    found = InnerKeys.of(document)
    inner = inner_of(found, FootprintPlaces.of(found, sample.keys.hash, sample), each, 250 * each, 750 * each)
    sizes = SampleSizes(1_000 * each, 1_000 * each, each)
    for memory, held in ((20e3, 0), (35e3, 20), (40e3, 40)):
        assert replay(sample, sizes, memory, target=1.0, inner=inner, policy=Lru()).held.sum() == held
    assert replay(sample, sizes, 20e3, target=1.0, policy=Lru()).held.sum() == 20


def test_what_is_no_footprint_is_refused() -> None:
    documents = measured(v={"covered_keys": 3})
    assert measured_of(documents).footprints is None
    assert measured_of({**documents, "footprints": SHARING}).footprints is not None
    for wrong in ([[0, 10, [5], []]], [[7, 10, [], []]], [[0]], ["no"]):
        with pytest.raises(SparkProblem, match="not what a service says"):
            measured_of({**documents, "footprints": {**SHARING, "inner": wrong}})


def test_what_filling_costs_follows_the_rows_of_a_key() -> None:
    counters = {"covered_keys": 3, "filled": 40, "lookups": 10, "lookup_keys": 40, "lookup_rows": 400}
    documents = measured(v=counters)
    derived = measured_of(documents).views["v"]
    assert derived.costs(np.array([0.0, 1.0, 10.0])) == pytest.approx([0.26, 0.36, 1.26])
    # Of a view whose rows are looked up themselves each key pays for a lookup, however many that was of.
    node = {"id": 1, "views": ["v"], "inputs": [], "lookups": ["SELECT …"], "state_bytes": 0, "coverage": ["id"]}
    looked_up = measured_of({**documents, "graph": [node]}).views["v"]
    assert looked_up.costs(np.array([0.0, 1.0, 10.0])) == pytest.approx([1.01, 1.11, 2.01])
    assert measured_of(measured(v={"covered_keys": 3})).views["v"].costs(np.ones(2)).tolist() == [1, 1]


def test_what_belongs_to_no_view_is_shared_out_by_what_it_is_of() -> None:
    """Pages of the leaf store by rows, what the policy holds by keys, and nothing of either by what is inside."""
    documents = measured(a={"covered_keys": 10, "leaf_bytes": 1_000}, b={"covered_keys": 30, "leaf_bytes": 3_000})
    node = {"id": 1, "views": ["b"], "inputs": [], "lookups": [], "state_bytes": 60_000, "coverage": ["id"]}
    documents["graph"] = [node]
    sizes = {"used_bytes": 120_000, "leaf_bytes": 6_000, "engine_state_bytes": 64_000}
    documents["stats"]["sizes"].update(sizes)
    found = measured_of(documents)
    assert found.fixed_bytes == pytest.approx(50_000)
    a, b = found.views["a"], found.views["b"]
    assert a.key_bytes == pytest.approx(1_500 / 10 + 100)
    assert b.key_bytes == pytest.approx(4_500 / 30 + 100 + 2_000)
    assert (a.inner_share, b.inner_share) == pytest.approx((0, 2_000 / 2_250))
