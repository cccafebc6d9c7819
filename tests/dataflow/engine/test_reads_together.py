"""Reads that arrive together: fewer lookups than one by one, and the same answers."""

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest

from dataflow.engine.effects import Answer, Effect, LeafFill
from dataflow.engine.events import CancelRead, LookupDone, LookupsDone, Read, ReadBatch
from dataflow.plan.parts import Lookup
from dataflow.types import ReadId
from tests.dataflow.engine.site import Now, Site, rows_of
from tests.fixtures.seeds import day_seed

VIEWS = (
    "SELECT id, title FROM stories WHERE id = :id",
    "SELECT s.id, s.title, u.name FROM stories s JOIN users u ON u.id = s.author WHERE s.id = :id",
    "SELECT story_id, COUNT(*) AS n FROM votes WHERE story_id = :id GROUP BY story_id",
    "SELECT c.id, c.text, u.name FROM comments c JOIN users u ON u.id = c.author WHERE c.story_id = :id",
)


def read(number: int, *wanted: tuple[int, int]) -> Read:
    """A read of keys of views, by their places in `VIEWS`."""
    return Read(ReadId(number), tuple((view, (str(key),), None) for view, key in wanted))  # type: ignore[misc]


def site_of_all() -> Site:
    site = Site()
    for number, sql in enumerate(VIEWS):
        site.install(number, sql)
    return site


def filled(effects: Iterable[Effect]) -> Counter[object]:
    """The keys that are filled, with their rows in no order."""
    return Counter((e.view, e.key, *sorted(map(repr, e.rows))) for e in effects if isinstance(e, LeafFill))


def test_what_several_reads_miss_of_a_table_is_one_lookup() -> None:
    engine = site_of_all().engine
    effects = engine.step(ReadBatch([read(1, (0, 7)), read(2, (0, 8), (2, 8)), read(3, (0, 7)), read(4, (0, 9))]))
    assert all(isinstance(effect, Lookup) for effect in effects)
    assert sorted(effect.keys for effect in effects if isinstance(effect, Lookup)) == [
        (("7",), ("8",), ("9",)),
        (("8",),),
    ]
    # One that leaves takes nothing from the others.
    assert engine.step(CancelRead(ReadId(1))) == []
    lookups = [effect for effect in effects if isinstance(effect, Lookup)]
    done = engine.step(LookupsDone([LookupDone(each.id, rows_of(each), Now(), engine.applied) for each in lookups]))
    assert {effect.read for effect in done if isinstance(effect, Answer)} == {2, 3, 4}
    engine.check()


@pytest.mark.parametrize("number", range(20))
def test_together_and_one_by_one_give_the_same_rows(number: int) -> None:
    random = Random(day_seed(f"reads together {number}"))
    reads = [
        read(n, *{(random.randrange(len(VIEWS)), random.randrange(30)) for _ in range(random.randint(1, 4))})
        for n in range(1, 40)
    ]
    alone, together = site_of_all(), site_of_all()
    effects = [effect for each in reads for effect in alone.step(each)]
    of_batches = []
    while reads:
        n = random.randint(1, 8)
        batch, reads = reads[:n], reads[n:]
        of_batches += together.step(ReadBatch(batch))
        together.engine.check()
    assert filled(effects) == filled(of_batches)
    assert Counter(e for e in effects if isinstance(e, Answer)) == Counter(
        e for e in of_batches if isinstance(e, Answer)
    )
    assert alone.covered == together.covered
