"""A label that an enum has got since the catalog was read: rows with it concern who reads them, and nobody else."""

import pytest

from dataflow.engine.effects import Answer, Effect, Forward
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Apply,
    EvictSome,
    InstallView,
    LookupDone,
    LookupsDone,
    Read,
    SnapshotTaken,
    StreamStarted,
    TableDelta,
    Transaction,
)
from dataflow.plan.nodes import Chain, passed_through
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.types import ReadId, Row, TransactionId, ViewId
from tests.dataflow.engine.site import Now

INT = SqlType("int4", "int4")
MOOD = SqlType("mood", "public.mood", "enum", labels=("sad", "glad"))
_COLUMNS = {
    "stories": (("id", INT), ("author", INT), ("mood", MOOD)),
    "users": (("id", INT), ("mood", MOOD), ("best", INT)),
    "comments": (("id", INT), ("author", INT)),
}
CATALOG = Catalog(
    {
        f"public.{name}": Table(f"public.{name}", tuple(Column(c, kind, True) for c, kind in columns), keys=((0,),))
        for name, columns in _COLUMNS.items()
    }
)
GLADDER = """
SELECT s.id, c.id AS comment FROM stories s JOIN users u ON u.id = s.author AND u.mood > s.mood
JOIN comments c ON c.id = u.best WHERE s.id = :id
"""
ROWS: dict[str, list[Row]] = {
    "public.stories": [("1", "7", "sad"), ("3", "8", "sad")],
    "public.users": [("7", "glad", "70"), ("8", "glad", "80")],
    "public.comments": [("70", "7"), ("80", "8")],
}
VIEW = ViewId(1)


def rows_of(lookup: Lookup) -> list[Row]:
    """Answer a lookup as the upstream does."""
    chain = lookup.relation
    assert isinstance(chain, Chain)
    found = [tuple([row[c] for c in passed_through(chain).values()]) for row in ROWS[chain.table]]
    return [row for row in found if tuple(row[c] for c in lookup.columns) in lookup.keys]


def step(engine: Engine, event: object) -> list[Effect]:
    """One event, and the lookups that come of it; the effects of all."""
    effects = engine.step(event)  # type: ignore[arg-type]
    for effect in list(effects):
        if isinstance(effect, Lookup):
            effects += step(engine, LookupsDone([LookupDone(effect.id, rows_of(effect), Now(), engine.applied)]))
    engine.check()
    return effects


def test_a_row_with_one_stops_no_eviction(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(CATALOG)
    step(engine, StreamStarted(0, Now()))
    step(engine, InstallView(VIEW, plan_view("gladder", GLADDER, CATALOG)))
    for number in ("1", "2"):
        assert Answer(ReadId(int(number))) in step(engine, Read(ReadId(int(number)), ((VIEW, (number,), None),)))
    monkeypatch.setitem(ROWS, "public.stories", [*ROWS["public.stories"], ("2", "7", "new")])
    delta = TableDelta([], [("2", "7", "new")])
    step(engine, Apply([Transaction(TransactionId(1), 1, {"public.stories": delta})], 1))
    step(engine, SnapshotTaken(Now()))
    assert any(isinstance(e, Forward) for e in step(engine, Read(ReadId(3), ((VIEW, ("2",), None),))))
    assert Answer(ReadId(4)) in step(engine, Read(ReadId(4), ((VIEW, ("1",), None),)))
    assert Answer(ReadId(5)) in step(engine, Read(ReadId(5), ((VIEW, ("3",), None),)))
    for left in (1, 0):
        step(engine, EvictSome(1))
        assert engine.evictable == left
