"""An expression that fails on the upstream's data concerns who reads it, and nobody else."""

from dataflow.engine.effects import Answer, Effect, Forward, ViewStatus
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Ahead,
    Apply,
    EvictSome,
    InstallView,
    LookupDone,
    LookupFailed,
    LookupsDone,
    Read,
    SnapshotTaken,
    StreamStarted,
    TableDelta,
    Transaction,
)
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.types import Position, ReadId, Row, Snapshot, TransactionId, ViewId
from tests.dataflow.engine.site import Site

INT = SqlType("int4", "int4")
CATALOG = Catalog(
    {
        name: Table(name, (Column("id", INT, True), Column("n", INT, True)), keys=((0,),))
        for name in ("public.left_table", "public.right_table")
    }
)
JOIN = "SELECT l.id, l.n + r.n AS total FROM left_table l JOIN right_table r ON r.id = l.id"
ROWS: dict[str, list[Row]] = {"1": [("1", "5")], "2": [("2", "2147483647")]}


class Everything(Snapshot):
    """A snapshot that sees all there is."""

    def sees(self, transaction: TransactionId, end: Position) -> bool:
        return transaction <= end

    def covers(self, other: Snapshot) -> bool:
        return other is not None

    def finished(self, other: Snapshot) -> bool:
        return other is not None


def engine_with(sql: str) -> tuple[Engine, list[Effect]]:
    engine = Engine(CATALOG)
    engine.step(StreamStarted(1, Everything()))
    return engine, engine.step(InstallView(ViewId(1), plan_view("sums", sql, CATALOG)))


def answer_lookups(engine: Engine, effects: list[Effect], rows_by_id: dict[str, list[Row]] = ROWS) -> list[Effect]:
    """Answer all lookups; return the other effects."""
    others: list[Effect] = []
    while effects:
        effect = effects.pop(0)
        if isinstance(effect, Lookup):
            keys = [key[0] for key in effect.keys] if effect.columns else list(rows_by_id)
            rows = [row for key in keys if key is not None for row in rows_by_id.get(key, [])]
            effects += engine.step(LookupsDone([LookupDone(effect.id, rows, Everything(), 1)]))
            engine.check()
        else:
            others.append(effect)
    return others


def test_the_read_is_forwarded_and_others_are_answered() -> None:
    engine, _ = engine_with(f"{JOIN} WHERE l.id = :id")
    fails = answer_lookups(engine, engine.step(Read(ReadId(1), ((ViewId(1), ("2",), None),))))
    assert [type(effect) for effect in fails] == [Forward]
    works = answer_lookups(engine, engine.step(Read(ReadId(2), ((ViewId(1), ("1",), None),))))
    assert works[-1] == Answer(ReadId(2))


def test_a_lookup_that_fails_upstream_concerns_its_own_reads() -> None:
    engine, _ = engine_with("SELECT id, n FROM left_table WHERE id = :id")
    (lookup,) = engine.step(Read(ReadId(1), ((ViewId(1), ("2",), None),)))
    assert isinstance(lookup, Lookup)
    effects = engine.step(LookupFailed(lookup.id, "division by zero", retryable=True, evaluation=True))
    assert [type(effect) for effect in effects] == [Forward]
    works = answer_lookups(engine, engine.step(Read(ReadId(2), ((ViewId(1), ("1",), None),))))
    assert works[-1] == Answer(ReadId(2))


def read_all(number: int) -> Read:
    return Read(ReadId(number), ((ViewId(1), (), None),))


def quarantined(effects: list[Effect]) -> list[str]:
    statuses = [e for e in effects if isinstance(e, ViewStatus)]
    assert {s.status for s in statuses if "out of range" in (s.reason or "")} <= {"quarantined"}
    return [s.status for s in statuses]


def test_a_view_that_is_kept_whole_is_answered_upstream_until_it_is_loaded() -> None:
    engine, effects = engine_with("SELECT id, 10 / n AS share FROM left_table")
    for heartbeats in (1, 2):
        (lookup,) = [e for e in effects if isinstance(e, Lookup)]
        # It is tried again, and fails again.
        failed = engine.step(LookupFailed(lookup.id, "out of range", retryable=True, evaluation=True))
        assert quarantined(failed) == ["quarantined"]
        assert [type(e) for e in engine.step(read_all(heartbeats))] == [Forward]
        effects = [e for _ in range(heartbeats) for e in engine.step(SnapshotTaken(Everything()))]
        # It is being loaded.
        assert quarantined(effects) == []
        assert [type(e) for e in engine.step(read_all(10 * heartbeats))] == [Forward]
        engine.check()
    assert quarantined(answer_lookups(engine, effects, {"1": [("1", "5")]})) == ["ready"]
    assert engine.step(read_all(30)) == [Answer(ReadId(30))]


def test_what_is_joined_is_answered_upstream_as_well() -> None:
    engine, effects = engine_with(JOIN)
    assert quarantined(answer_lookups(engine, effects))[-1] == "quarantined"
    assert [type(e) for e in engine.step(read_all(1))] == [Forward]
    engine.check()


def test_a_row_that_comes_later_has_a_view_that_is_kept_whole_answered_upstream() -> None:
    engine, effects = engine_with("SELECT id, 10 / n AS share FROM left_table")
    assert quarantined(answer_lookups(engine, effects, {"1": [("1", "5")]}))[-1] == "ready"
    delta = TableDelta([], [("3", "0")])
    effects = engine.step(Apply([Transaction(TransactionId(2), 2, {"public.left_table": delta})], 2))
    assert quarantined(effects)[-1] == "quarantined"
    assert [type(e) for e in engine.step(read_all(1))] == [Forward]
    engine.check()


def test_a_part_of_a_key_goes_although_an_on_fails_for_a_row_beside_it() -> None:
    site = Site()
    first = site.install(
        1,
        "SELECT c.id, u.name FROM comments c LEFT JOIN users u ON u.id = c.author AND c.id / (u.id - 8) <> 0"
        " WHERE c.story_id = :story ORDER BY c.at, c.id",
    )
    every = site.install(
        2, "SELECT c.id, c.at, u.name FROM comments c LEFT JOIN users u ON u.id = c.author WHERE c.story_id = :story"
    )
    # The last of its comments is of user 8.
    site.read(first, ("5",), Ahead(2))
    site.read(every, ("5",))
    assert site.covered == {(first, ("5",)), (every, ("5",))}
    site.step(EvictSome(1))
    site.step(EvictSome(1))
    assert site.covered == set()
    site.engine.check()
