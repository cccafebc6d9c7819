"""The simulated upstream keeps its own rules: keys are unique and references hold at every snapshot; snapshots grow."""

from random import Random

import pytest

from dataflow.types import Row
from tests.simulation.configuration import Configuration
from tests.simulation.runs import configure, draw
from tests.simulation.schema import SchemaVariant
from tests.simulation.simulation import Simulation
from tests.simulation.world import World

WRITES = frozenset({"write", "transaction", "commit", "overflow", "roll_back", "truncate", "reveal"})
ALL_FOREIGN_KEYS = 0b11111111


def broken_rules(world: World, tables: dict[str, list[Row]]) -> list[str]:
    broken = []
    for table in world.catalog.tables.values():
        rows = tables[table.name]
        for key in table.keys:
            keys = [tuple(row[c] for c in key) for row in rows]
            if len(set(keys)) < len(keys):
                broken.append(f"{table.name} repeats a key: {rows}")
        for foreign_key in table.foreign_keys:
            parents = {tuple(row[c] for c in foreign_key.parent_columns) for row in tables[foreign_key.parent]}
            references = {tuple(row[c] for c in foreign_key.columns) for row in rows}
            dangling = {r for r in references if None not in r} - parents
            if dangling:
                broken.append(f"{table.name} references {dangling} of {foreign_key.parent}")
    return broken


@pytest.mark.parametrize("seed", range(20))
def test_constraints_hold_at_every_snapshot(seed: int) -> None:
    configuration = Configuration(seed, foreign_keys=ALL_FOREIGN_KEYS)
    simulation = Simulation(configuration)
    world = simulation.world
    earlier = world.snapshot()
    for name, number in draw(configure(seed), 800):
        if name in WRITES:
            simulation.act(name, number)
            assert broken_rules(world, world.visible_tables()) == []
            assert broken_rules(world, {t: world.committed_rows(t) for t in world.catalog.tables}) == []
            now = world.snapshot()
            assert now.covers(earlier)
            earlier = now


def test_the_log_brings_the_tables_forward() -> None:
    simulation = Simulation(Configuration(7, foreign_keys=ALL_FOREIGN_KEYS))
    world = simulation.world
    for name, number in draw(configure(7), 1500):
        if name in WRITES | {"apply"}:
            simulation.act(name, number)
    while simulation.next_entry < len(world.log):
        simulation.apply(3, Random(1))
    for table in world.catalog.tables:
        assert sorted(simulation.base.rows[table], key=repr) == sorted(world.committed_rows(table), key=repr)


def test_snapshots_are_not_prefixes_of_the_stream() -> None:
    world = World(SchemaVariant(0, odd_numbers=False), Random(3))
    first, second = world.begin(), world.begin()
    users, tags = world.catalog.tables["public.users"], world.catalog.tables["public.tags"]
    world.insert(first, users, ("9", "a", None))
    world.insert(second, tags, ("9", "p"))
    world.commit(first, Random(1), limbo=True)
    world.commit(second, Random(1))
    assert [c.streamed.id for c in world.log[-2:]] == [first.id, second.id]
    assert ("9", "a", None) not in world.visible_rows("public.users")
    assert ("9", "p") in world.visible_rows("public.tags")
    assert not world.snapshot().sees(first.id, 0)
    assert world.start_snapshot().sees(first.id, 0)
