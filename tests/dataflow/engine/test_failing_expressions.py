"""An expression that fails on the upstream's data concerns who reads it, and nobody else."""

from dataflow.engine.effects import Answer, Effect, Forward, Lookup, ViewStatus
from dataflow.engine.engine import Engine
from dataflow.engine.events import Ahead, EvictSome, InstallView, LookupDone, Read, StreamStarted
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


def answer_lookups(engine: Engine, effects: list[Effect]) -> list[Effect]:
    """What is left when all lookups have been answered."""
    others: list[Effect] = []
    while effects:
        effect = effects.pop(0)
        if isinstance(effect, Lookup):
            keys = [key[0] for key in effect.keys] if effect.columns else list(ROWS)
            rows = [row for key in keys if key is not None for row in ROWS.get(key, [])]
            effects += engine.step(LookupDone(effect.id, rows, Everything(), 1))
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


def test_a_view_that_is_kept_whole_breaks_with_the_reason() -> None:
    engine, effects = engine_with(JOIN)
    statuses = [e for e in answer_lookups(engine, effects) if isinstance(e, ViewStatus)]
    assert statuses[-1].status == "broken"
    assert "out of range" in (statuses[-1].reason or "")


def test_a_part_of_a_key_goes_although_an_on_fails_for_a_row_beside_it() -> None:
    site = Site()
    first = site.install(
        1, "SELECT c.id, u.name FROM comments c LEFT JOIN users u ON u.id = c.author AND c.id / (u.id - 8) <> 0"
        " WHERE c.story_id = :story ORDER BY c.at, c.id",
    )  # fmt: skip
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
