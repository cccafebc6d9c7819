"""Model of many shards from the cost of single operations: limits that can be computed by hand."""

from dataclasses import replace

import pytest

from load.experiments.shard_scale_model import (
    DATABASE,
    ENGINE,
    STREAM,
    WHOLE,
    WORKERS,
    BatchCost,
    BatchSample,
    Costs,
    GatewayCost,
    Machines,
    Traffic,
    parts_of,
    point,
    points,
    stops_at,
)

COSTS = Costs(
    hit_us=100,
    batch=BatchCost(part_us=80, key_us=10),
    miss_worker_us=100,
    miss_engine_us=500,
    miss_database_us=200,
    passed_us=10,
    held_us=30,
    send_us=5,
    gateway=GatewayCost(50, BatchCost(60, 5), 100, BatchCost(80, 10)),
)
QUIET = Traffic(changes_per_s=0)
MACHINES = Machines(workers=2, database_cores=4, connections=8)
DOUBLING = (1, 2, 4, 8, 16, 32, 64)


def test_hits_of_single_keys_scale_with_pods() -> None:
    found = points(DOUBLING, COSTS, QUIET, MACHINES)
    assert [each.reads_per_s for each in found] == pytest.approx([20_000 * n for n in DOUBLING])
    assert {each.binds for each in found} == {WORKERS}
    assert stops_at(found) is None


def test_each_replica_reads_as_much_again() -> None:
    assert point(2, COSTS, QUIET, replace(MACHINES, replicas=3)).reads_per_s == pytest.approx(120_000)


def test_every_shard_decodes_the_whole_stream() -> None:
    found = points(DOUBLING, COSTS, QUIET, MACHINES)
    # One alone holds all: 30 µs. With ever more of them it goes towards what passing a change over costs, 10 µs.
    assert found[0].changes_per_s == pytest.approx(1e6 / 30)
    assert found[1].changes_per_s == pytest.approx(1e6 / 20)
    assert all(each.changes_per_s < 1e6 / 10 for each in found)
    assert found[0].changes_bind == STREAM
    # And the database sends it to each: 64 x 5 µs of four cores.
    assert (found[-1].changes_bind, found[-1].changes_per_s) == (DATABASE, pytest.approx(4e6 / 320))


def test_a_stream_that_is_too_fast_leaves_nothing_for_reads() -> None:
    too_fast = Traffic(changes_per_s=100_001, miss_share=0.1)
    found = point(64, COSTS, too_fast, replace(MACHINES, database_cores=1000))
    assert (found.reads_per_s, found.binds) == (0.0, STREAM)


def test_misses_are_bound_by_engines_and_then_by_the_database() -> None:
    cold = Traffic(changes_per_s=0, miss_share=1.0)
    # Workers: 2 x 1e6 / 200 each; engines 1e6 / 500 each; the database 4e6 / 200 for all.
    found = points(DOUBLING, COSTS, cold, MACHINES)
    assert [(each.reads_per_s, each.binds) for each in found[:4]] == [
        (pytest.approx(2_000), ENGINE),
        (pytest.approx(4_000), ENGINE),
        (pytest.approx(8_000), ENGINE),
        (pytest.approx(16_000), ENGINE),
    ]
    assert (found[4].reads_per_s, found[4].binds) == (pytest.approx(20_000), DATABASE)
    assert stops_at(found) == found[3]


def test_the_stream_of_each_pod_takes_from_the_database_what_misses_need() -> None:
    busy = Traffic(changes_per_s=10_000, miss_share=1.0)
    found = point(64, COSTS, busy, MACHINES)
    assert found.sending_cores == pytest.approx(10_000 * 64 * 5 / 1e6)
    assert (found.binds, found.reads_per_s) == (DATABASE, pytest.approx((4e6 - 3.2e6) / 200))


def test_a_view_that_is_kept_whole_is_one_pods() -> None:
    found = points(DOUBLING, COSTS, replace(QUIET, whole_share=0.1), MACHINES)
    assert [each.binds for each in found[:3]] == [WORKERS] * 3
    assert found[-1].binds == WHOLE
    assert found[-1].reads_per_s < 200_000
    assert found[-1].reads_per_s == pytest.approx(2e6 / (100 * (0.1 + 0.9 / 64)))


def test_parts_of_batches() -> None:
    assert parts_of(1, 50) == 1
    assert parts_of(2, 1) == 1
    assert parts_of(2, 2) == pytest.approx(1.5)
    assert parts_of(64, 10) == pytest.approx(64 * (1 - (63 / 64) ** 10))
    assert parts_of(64, 1000) == pytest.approx(64, rel=1e-3)


def test_batches_lose_what_they_share_as_they_cross_more_shards() -> None:
    found = points(DOUBLING, COSTS, replace(QUIET, keys=10), MACHINES)
    assert found[0].reads_per_s == pytest.approx(2e6 / (80 / 10 + 10))
    a_pod = [each.reads_per_s / each.shards for each in found]
    assert a_pod == sorted(a_pod, reverse=True)
    # Each key a part of its own: no more than that can be lost.
    assert a_pod[-1] > 2e6 / (80 + 10)
    assert found[1].reads_per_s == pytest.approx(2 * 2e6 / (80 * parts_of(2, 10) / 10 + 10))


def test_gateways_are_as_many_as_are_needed() -> None:
    one, two, *_, many = points(DOUBLING, COSTS, QUIET, MACHINES)
    assert one.gateway_cores == 0
    assert two.gateway_cores == pytest.approx(40_000 * 50 / 1e6)
    assert many.gateway_cores == pytest.approx(64)
    batches = point(2, COSTS, replace(QUIET, keys=10), MACHINES)
    assert batches.gateway_cores == pytest.approx(batches.reads_per_s * (60 * batches.parts / 10 + 5) / 1e6)
    unknown = point(2, replace(COSTS, gateway=None), QUIET, MACHINES)
    assert (unknown.gateway_cores, unknown.cores) == (None, None)


def test_all_cores_are_counted() -> None:
    one, two, *_ = points(DOUBLING, COSTS, QUIET, MACHINES)
    # An engine and two workers; twice, and the gateway's.
    assert one.cores == 3
    assert two.cores == pytest.approx(6 + 2)


def test_workers_behind_a_gateway_have_costs_of_their_own() -> None:
    assert COSTS.gateway is not None
    dearer = replace(COSTS, gateway=replace(COSTS.gateway, behind_hit_us=200, behind_batch=BatchCost(160, 20)))
    for traffic in (QUIET, replace(QUIET, keys=10)):
        now, then = (point(2, costs, traffic, MACHINES).reads_per_s for costs in (COSTS, dearer))
        assert then == pytest.approx(now / 2)
        assert point(1, dearer, traffic, MACHINES) == point(1, COSTS, traffic, MACHINES)


def test_what_the_database_must_have_for_each_pod() -> None:
    found = point(16, COSTS, QUIET, replace(MACHINES, replicas=2))
    assert (found.slots, found.connections) == (32, 256)


def test_costs_of_batches_are_those_that_explain_two_of_them() -> None:
    cost = BatchCost(60, 5)
    few, many = (BatchSample(parts_of(2, keys), keys, 60 * parts_of(2, keys) + 5 * keys) for keys in (2, 100))
    found = BatchCost.through(few, many)
    assert (found.part_us, found.key_us) == (pytest.approx(cost.part_us), pytest.approx(cost.key_us))
    # A measurement that is off by more than there is.
    assert BatchCost.through(BatchSample(1, 10, 10), BatchSample(1, 100, 200)).part_us == 0
