"""The simulated upstream keeps its own rules: keys are unique and references hold at every snapshot; snapshots grow."""

from random import Random

import pytest

from dataflow.types import Row
from tests.simulation.configuration import Configuration
from tests.simulation.runs import configure, draw
from tests.simulation.schema import SchemaVariant
from tests.simulation.simulation import Simulation
from tests.simulation.visibility import KINDS
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
        for foreign_key in world.foreign_keys[table.name]:
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
    earlier = world.visibility.landmark()
    for name, number in draw(configure(seed), 800):
        if name in WRITES:
            simulation.act(name, number)
            assert broken_rules(world, world.visible_tables()) == []
            assert broken_rules(world, {t: world.committed_rows(t) for t in world.catalog.tables}) == []
            now = world.visibility.landmark()
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
    assert not world.visibility.snapshot().sees(first.id, 0)
    assert world.visibility.start().sees(first.id, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_what_snapshots_say_is_right(seed: int, kind: str) -> None:
    """They see what is visible and nothing else, but for what they are unsure of; and that only brackets are."""
    simulation = Simulation(Configuration(seed, upstream=kind))
    world, rng, unsure = simulation.world, Random(seed), 0
    for name, number in draw(configure(seed), 800):
        if name in WRITES:
            snapshot, bound = world.visibility.snapshot(), world.visibility.bound(rng)
            visible = [c.streamed for c in world.log if c.streamed.end not in world.ends.values()]
            simulation.act(name, number)
            snapshot, bound = world.visibility.arrived(snapshot, bound, rng)
            for transaction in [c.streamed for c in world.log]:
                if snapshot.unsure(transaction.id, transaction.end):
                    unsure += 1
                else:
                    assert snapshot.sees(transaction.id, transaction.end) == (transaction in visible)
            assert all(transaction.end <= bound for transaction in visible)
    assert bool(unsure) == kind.startswith("mysql")


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_commits_become_visible_in_the_order_of_the_log(kind: str) -> None:
    simulation = Simulation(Configuration(3, upstream=kind))
    world = simulation.world
    for name, number in draw(configure(3), 800):
        if name in WRITES:
            simulation.act(name, number)
            assert world.seen_end <= min(world.ends.values(), default=world.wal)
