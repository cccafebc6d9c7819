"""Votes through the engine alone: `Engine.step` with transactions of 100 votes, and with the commits that follow.

The view is ``story_with_votes``, with all stories covered. Lookups are answered at once, by this file. Prints one JSON
object; run in a process of its own, so that it can be pinned and nothing else is in its heap.
"""

import json
import random as randomness
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from dataflow.engine.effects import Effect, LeafEffect
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Apply,
    InstallView,
    LookupDone,
    LookupsDone,
    Read,
    SnapshotTaken,
    StreamStarted,
    TableDelta,
    Transaction,
)
from dataflow.plan.nodes import Aggregate
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.types import Position, ReadId, Row, Snapshot, TransactionId, ViewId
from service.leaf_store.writer import LeafWriter

STORIES = 10_000
BATCH = 100
BATCHES = 1_000
ROUNDS = 5
#: The skew of the votes in the evaluation of Noria (Gjengset et al., OSDI 2018, §8): few stories get most of them.
SKEW = 1.08
VIEW = ViewId(1)
SQL = (
    "SELECT s.id, s.title, s.author, COUNT(v.user_id) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id"
    " WHERE s.id = :id GROUP BY s.id, s.title, s.author"
)
_INT8, _TEXT, _INT2 = SqlType("int8", "int8"), SqlType("text", "text"), SqlType("int2", "int2")
CATALOG = Catalog(
    {
        "public.stories": Table(
            "public.stories",
            (Column("id", _INT8, True), Column("title", _TEXT, True), Column("author", _TEXT, True)),
            keys=((0,),),
        ),
        "public.votes": Table(
            "public.votes",
            (Column("story_id", _INT8, True), Column("user_id", _TEXT, True), Column("value", _INT2, True)),
            keys=((0, 1),),
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Now(Snapshot):
    """A snapshot that sees all transactions up to one."""

    newest: int

    def sees(self, transaction: TransactionId, end: Position) -> bool:  # noqa: ARG002
        return transaction <= self.newest

    def covers(self, other: Snapshot) -> bool:
        return isinstance(other, Now) and self.newest >= other.newest

    def finished(self, other: Snapshot) -> bool:
        """Nothing is ever open here."""
        return self.covers(other)


class Bench:
    """An engine whose lookups are answered at once, over a site where each story has ten votes."""

    def __init__(self, leaf: LeafWriter | None) -> None:
        self.engine = Engine(CATALOG)
        self._leaf = leaf
        self._random = randomness.Random(1)
        self._transactions = 0
        view = plan_view("story_with_votes", SQL, CATALOG)
        if leaf:
            leaf.reset("bench")
            leaf.register(VIEW, view)
        self.perform(self.engine.step(StreamStarted(0, Now(0))))
        self.perform(self.engine.step(InstallView(VIEW, view)))
        for story in range(STORIES):
            self.perform(self.engine.step(Read(ReadId(story), ((VIEW, (str(story),), None),))))

    def perform(self, effects: list[Effect]) -> None:
        """Commit what is for the leaf, and answer the lookups."""
        if self._leaf:
            leaf_effects = [effect for effect in effects if isinstance(effect, LeafEffect)]
            self._leaf.commit(leaf_effects, self.engine.applied, 0)
        for effect in effects:
            if isinstance(effect, Lookup):
                now = Now(self._transactions)
                found = LookupDone(effect.id, list(_rows(effect)), now, self.engine.applied)
                self.perform(self.engine.step(LookupsDone([found])))

    def batches(self, alpha: float) -> list[Apply]:
        """Transactions of votes on random stories, made before the clock runs; `alpha` 0 is uniform."""
        weights = [1 / (rank + 1) ** alpha for rank in range(STORIES)]
        stories = iter(self._random.choices(range(STORIES), weights, k=BATCH * BATCHES))
        return [self._batch(stories) for _ in range(BATCHES)]

    def _batch(self, stories: Iterator[int]) -> Apply:
        self._transactions += 1
        number = self._transactions
        votes: list[Row] = [(str(next(stories)), f"user{number}-{vote}", "1") for vote in range(BATCH)]
        transaction = Transaction(TransactionId(number), number, {"public.votes": TableDelta([], votes)})
        return Apply([transaction], number)

    def changes_per_second(self, alpha: float) -> float:
        """Rate of one round, with votes of that skew."""
        batches = self.batches(alpha)
        started = perf_counter()
        for batch in batches:
            self.perform(self.engine.step(batch))
        elapsed = perf_counter() - started
        # The heartbeat's part, once a second in a service.
        self.engine.step(SnapshotTaken(Now(self._transactions)))
        return BATCH * BATCHES / elapsed


def _rows(lookup: Lookup) -> Iterator[Row]:
    for (story,) in lookup.keys:
        assert story is not None
        if isinstance(lookup.relation, Aggregate):
            # A state row: the group, COUNT(user_id), and the number of rows.
            yield (story, "10", "10")
        else:
            yield tuple(
                {"int8": story, "text": f"about {story}"}[column.type.name] for column in lookup.relation.columns
            )


def main() -> None:
    """All variants, in turns."""
    with tempfile.TemporaryDirectory(dir=memory()) as directory:
        leaf = LeafWriter(Path(directory))
        pure, committed = Bench(None), Bench(leaf)
        rates: dict[str, list[float]] = {"pure": [], "uniform": [], "committed": []}
        for _ in range(ROUNDS):
            rates["pure"].append(pure.changes_per_second(SKEW))
            rates["uniform"].append(pure.changes_per_second(0))
            rates["committed"].append(committed.changes_per_second(SKEW))
        leaf.close()
    json.dump(rates, sys.stdout)


def memory() -> str | None:
    """A memory file system, where the service keeps its leaf store too."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


if __name__ == "__main__":
    main()
