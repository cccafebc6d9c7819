"""The experiment about shards: what its report makes of turns, and one start of each of some sides, end to end."""

import pytest

from load.experiments import shard_scale
from load.experiments.shard_scale_model import Machines, parts_of
from load.experiments.shard_scale_report import (
    ALONE,
    APART,
    BATCHES,
    DATABASE,
    ENGINE,
    GATEWAY,
    ON_ONE_MACHINE,
    READER,
    SENDER,
    SHARDS,
    THINGS,
    WORKER,
    Rate,
    ShardSetup,
    Turn,
    costs_of,
    figures,
    mixes,
    model,
    table_of_costs,
    tables_of_turns,
)
from load.processes import RunConditions
from load.report.figures import Figure, Skipped

MIXES = mixes(1000, 0.02, 50, 0.05)


def turn(way: ShardSetup, faster: float = 1.0) -> Turn:
    """Costs as they would be if the model were exact: 60 µs a part and 5 a key, of a gateway 40 and 2."""
    shards = way.shards if way.gateway else 1
    batches = {
        keys: Rate(
            1000 * faster,
            {
                WORKER: 60 * parts_of(shards, keys) + 5 * keys,
                **({GATEWAY: 40 * parts_of(shards, keys) + 2 * keys} if way.gateway else {}),
            },
        )
        for keys in BATCHES
    }
    reader = {READER: 6} if way.shards > 1 and not way.gateway else {}
    return Turn(
        passed=Rate(40_000, {ENGINE: 10 * way.shards, SENDER: 2 * way.shards, **reader}),
        misses=Rate(1000, {ENGINE: 400, WORKER: 250, DATABASE: 100}),
        hits=Rate(10_000 * faster, {WORKER: 50, **({GATEWAY: 30} if way.gateway else {})}),
        batches=batches,
        held=Rate(20_000, {ENGINE: 10 * way.shards + 20, SENDER: 2 * way.shards}),
    )


TURNS = {way: [turn(way, 1.0), turn(way, 1.0 if way == ALONE else 1.5)] for way in (*shard_scale.WAYS, APART)}


def test_costs_are_those_that_were_measured() -> None:
    costs = costs_of(TURNS)
    assert (costs.hit_us, costs.miss_worker_us, costs.miss_engine_us, costs.miss_database_us) == (50, 200, 400, 100)
    assert (costs.passed_us, costs.held_us, costs.send_us) == (10, 30, 2)
    assert (costs.batch.part_us, costs.batch.key_us) == (pytest.approx(60), pytest.approx(5))
    assert costs.gateway is not None
    assert costs.gateway.read_us == 30
    assert (costs.gateway.batch.part_us, costs.gateway.batch.key_us) == (pytest.approx(40), pytest.approx(2))
    behind = costs.gateway.behind_batch
    assert (costs.gateway.behind_hit_us, behind.part_us, behind.key_us) == (50, pytest.approx(60), pytest.approx(5))


def test_ratios_are_of_sides_of_the_same_round() -> None:
    found = {figure.name: figure for figure in figures(TURNS) if isinstance(figure, Figure)}
    hits = found["hits: 2 shards, 2 workers / 1 shard, 1 worker"].value
    assert (hits.low, hits.high) == (1.0, 1.5)
    assert found["hits: 2 pods, 2 workers, gateway / 2 shards, 2 workers"].value.high == 1.0
    cpu = found["hits: CPU time of all that serves, 2 pods, 2 workers, gateway / 2 shards, 2 workers"]
    assert cpu.value.median == pytest.approx((50 + 30) / 50)
    assert len(found) == (len(TURNS) - 1) * len(THINGS) + 3


def test_without_a_gateway_what_it_costs_is_not_told() -> None:
    stacks = {way: its for way, its in TURNS.items() if way != APART}
    costs = costs_of(stacks)
    assert costs.gateway is None
    assert isinstance(figures(stacks)[-1], Skipped)
    reads, _ = model(costs, MIXES, Machines())[0]
    assert {row[5] for row in reads.rows} == {"0.0", "not measured"}
    assert [row[1] for row in table_of_costs(costs, stacks).rows].count("not measured") == 1


def test_every_side_and_every_number_of_shards_has_its_rows() -> None:
    (rates,) = tables_of_turns(TURNS)
    assert len(rates.rows) == len(THINGS) * len(TURNS)
    (reads, changes), (over_reads, over_changes) = model(costs_of(TURNS), MIXES, Machines())
    assert len(reads.rows) == len(MIXES) * len(SHARDS)
    assert [row[3] for row in changes.rows] == [str(shards) for shards in SHARDS]
    assert len(over_reads.lines) == len(MIXES) + 1
    assert over_changes.lines[0].x == list(SHARDS)
    # 64 x 2 µs of the database's eight cores are more than what a change costs an engine.
    assert [row[2] for row in changes.rows] == ["change stream"] * 6 + ["database"]
    costs = dict(table_of_costs(costs_of(TURNS), TURNS).rows)
    assert costs["two shards, a change: the stream's reader"] == "6"
    assert costs["two shards, a change that nothing is held of: each engine"] == "10"
    assert costs["two shards, a change that is held: each engine, computed"] == "20"
    assert costs["two shards, a change that is held: each engine"] == "20"


@pytest.mark.postgres
def test_sides_are_started_read_written_and_compared() -> None:
    told: list[str] = []
    sizes = shard_scale.Sizes(stories=1000, hottest=200, misses=100, changes=1000, seconds=0.1)
    ways = (ALONE, ShardSetup(2, 1), ON_ONE_MACHINE, APART)
    options = shard_scale.Options(sizes, 1, ways, MIXES, Machines())
    report = shard_scale.run(options, RunConditions(None, None), told.append)
    rates = {(row[0], row[1]): float(row[2].replace(",", "")) for row in report.tables[0].rows}
    assert set(rates) == {(thing, way.name) for thing in THINGS for way in ways}
    assert all(rate > 0 for rate in rates.values())
    assert len(report.plots) == 2


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        shard_scale.Sizes(stories=1000, hottest=900, misses=100)
