"""A race too rare for random runs: a transaction inserts a row and its first child before the child's table joins the
publication, and commits after that. The stream brings the row without the child."""

from dataflow.engine.effects import Answer, LeafEvict
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Apply,
    InstallView,
    LookupDone,
    Read,
    StreamStarted,
    TableDelta,
    TableJoined,
    Transaction,
)
from dataflow.types import LookupId, ReadId, TransactionId, ViewId
from tests.simulation.schema import LATE_TABLE, SchemaVariant, build_catalog
from tests.simulation.views import VIEWS
from tests.simulation.visibility import SimulatedSnapshot

VIEW = ViewId(1)
ALL_FOREIGN_KEYS = 0b11111111


def test_a_new_parent_may_have_come_with_children_that_the_stream_lacks() -> None:
    engine = Engine(build_catalog(SchemaVariant(ALL_FOREIGN_KEYS, odd_numbers=False)))
    followers_by_name = next(view for view in VIEWS if view.name == "followed_by_3")
    newcomer = TransactionId(5)
    while_open = SimulatedSnapshot(7, [newcomer])
    engine.step(StreamStarted(10, SimulatedSnapshot(5, [])))
    engine.step(TableJoined(LATE_TABLE, while_open))
    engine.step(InstallView(VIEW, followers_by_name))
    engine.step(Read(ReadId(1), ((VIEW, ("zoe",), None),)))
    engine.step(LookupDone(LookupId(1), [], while_open, 10))
    assert engine.step(Read(ReadId(2), ((VIEW, ("zoe",), None),)))[-1] == Answer(ReadId(2))

    user = TableDelta([], [("5", "zoe", None)])
    effects = engine.step(Apply([Transaction(newcomer, 20, {"public.users": user})], 20))

    assert LeafEvict(VIEW, ("zoe",)) in effects
    engine.check()
