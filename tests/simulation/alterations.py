"""Replica identities that are altered while the stream goes on.

Commits have the new identity from then on; the engine's catalog and plans have it once the catalog is checked, which
may be before the stream is there, or long after.
"""

from random import Random
from typing import TYPE_CHECKING

from dataflow.engine.events import SchemaChanged, TableJoined
from dataflow.types import ViewId
from tests.simulation.identities import ALTERED, with_identity
from tests.simulation.plans import tables_of
from tests.simulation.refreshed_views import expires
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


def alter_identity(world: World, rng: Random) -> None:
    """ALTER TABLE … REPLICA IDENTITY of some table: of some columns, or FULL."""
    table = rng.choice(sorted(ALTERED))
    world.identities.pop(table, None)
    if rng.random() < 0.8:
        world.identities[table] = rng.choice(ALTERED[table])


def check_identities(run: "Simulation") -> None:
    """Tables that have another identity than in the catalog are followed anew, and their views planned again."""
    for name, table in list(run.world.catalog.tables.items()):
        found = with_identity(table, run.world.identities)
        if found == table:
            continue
        run.step(SchemaChanged(name, "another replica identity"))
        views = {i: view for i, view in run.views.items() if name in tables_of(view.relation) and not expires(view)}
        for view_id in views:
            run.drop(view_id)
        run.world.catalog.tables[name] = found
        run.step(TableJoined(name, run.world.visibility.barrier()))
        for view_id, view in views.items():
            run.last_id += 1
            run.whole |= {ViewId(run.last_id)} if view_id in run.whole else set()
            run.plan(ViewId(run.last_id), view.name)
        run.counters["identity_found"] += 1
