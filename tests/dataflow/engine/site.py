"""A site made up on the spot: stories, comments, votes and users of any number, and an engine over them whose lookups
are answered at once. Every text is an object of its own, as those that come from a driver are."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from dataflow.engine.effects import Effect, LeafEvict, LeafExtend, LeafFill
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Apply,
    Extent,
    InstallView,
    LookupDone,
    LookupsDone,
    Read,
    SnapshotTaken,
    StreamStarted,
    TableDelta,
    Transaction,
)
from dataflow.engine.limits import Limits
from dataflow.engine.ranking import LeafKey
from dataflow.eviction.policy import Policy
from dataflow.plan.nodes import Aggregate, Chain, column_types
from dataflow.plan.parts import Lookup, Part
from dataflow.plan.routes import parent_columns
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.state.ordering import Ordering
from dataflow.types import Key, Position, ReadId, Row, Snapshot, TransactionId, Value, ViewId
from tests.simulation.oracle import compiled
from tests.simulation.state_rows import state_rows

INT8, TEXT, TIME = SqlType("int8", "int8"), SqlType("text", "text"), SqlType("timestamptz", "timestamp with time zone")
#: A story has so many votes and comments; an author so many stories.
VOTES, COMMENTS, STORIES = 6, 4, 5
_AUTHORS = 10_000
_COLUMNS = {
    "stories": (("id", INT8), ("author", INT8), ("title", TEXT), ("body", TEXT), ("at", TIME)),
    "users": (("id", INT8), ("name", TEXT)),
    "votes": (("story_id", INT8), ("user_id", INT8), ("value", INT8)),
    "comments": (("id", INT8), ("story_id", INT8), ("author", INT8), ("text", TEXT), ("at", TIME)),
}
_KEYS = {"votes": (0, 1)}


def _table(name: str) -> Table:
    columns = tuple(Column(column, kind, True) for column, kind in _COLUMNS[name])
    return Table(f"public.{name}", columns, keys=(_KEYS.get(name, (0,)),))


CATALOG = Catalog({f"public.{name}": _table(name) for name in _COLUMNS})


def story(number: int) -> Row:
    """One row of stories."""
    return (str(number), str(number % _AUTHORS), f"Title of {number}", f"about {number} " * (number % 7), _at(number))


def _at(number: int) -> str:
    return f"2026-01-{1 + number % 28:02} {number % 24:02}:{number % 60:02}:00+00"


def _votes_of(number: int) -> Iterator[Row]:
    for i in range(VOTES):
        yield str(number), str(number + i), str(i % 2)


def comments_of(number: int) -> list[Row]:
    """The comments on a story."""
    return list(_comments_of(number))


def _comments_of(number: int) -> Iterator[Row]:
    for i in range(COMMENTS):
        own = number * COMMENTS + i
        yield str(own), str(number), str((number + i) % _AUTHORS), f"comment {own} on {number}", _at(own)


def _stories_of(author: int) -> Iterator[Row]:
    return (story(author + i * _AUTHORS) for i in range(STORIES))


#: By table and column: the rows with a value there.
_ROWS: dict[tuple[str, int], Callable[[int], Iterable[Row]]] = {
    ("public.stories", 0): lambda number: [story(number)],
    ("public.stories", 1): _stories_of,
    ("public.users", 0): lambda number: [(str(number), f"user {number}")],
    ("public.votes", 0): _votes_of,
    ("public.comments", 1): _comments_of,
}


@dataclass(frozen=True, slots=True)
class Now(Snapshot):
    """A snapshot that sees everything."""

    def sees(self, transaction: TransactionId, end: Position) -> bool:
        del transaction, end
        return True

    def covers(self, other: Snapshot) -> bool:
        return isinstance(other, Now)

    def finished(self, other: Snapshot) -> bool:
        return isinstance(other, Now)


class Site:
    """An engine over the site, with what its effects leave in the leaf store."""

    def __init__(self, limits: Limits | None = None, policy: Policy[LeafKey] | None = None) -> None:
        self.engine = Engine(CATALOG, limits, policy)
        self.reads = 0
        self.covered: set[LeafKey] = set()
        self.step(StreamStarted(0, Now()))

    def step(self, event: object) -> list[Effect]:
        """One event, and the lookups that come of it; the effects of all."""
        effects = self.engine.step(event)  # type: ignore[arg-type]
        for effect in list(effects):
            if isinstance(effect, LeafFill | LeafExtend):
                self.covered.add((effect.view, effect.key))
            elif isinstance(effect, LeafEvict):
                self.covered.discard((effect.view, effect.key))
            elif isinstance(effect, Lookup):
                effects += self.step(LookupsDone([LookupDone(effect.id, rows_of(effect), Now(), self.engine.applied)]))
        return effects

    def install(self, number: int, sql: str) -> ViewId:
        """A view."""
        self.step(InstallView(ViewId(number), plan_view(f"v{number}", sql, CATALOG)))
        return ViewId(number)

    def read(self, view: ViewId, key: Key, extent: Extent = None) -> list[Effect]:
        """A read that missed."""
        self.reads += 1
        return self.step(Read(ReadId(self.reads), ((view, key, extent),)))

    def commit(self, table: str, removed: Iterable[Row] = (), added: Iterable[Row] = ()) -> list[Effect]:
        """A transaction on one table."""
        end = self.engine.applied + 10
        delta = TableDelta(list(removed), list(added))
        effects = self.step(Apply([Transaction(TransactionId(end), end, {f"public.{table}": delta})], end))
        return effects + self.step(SnapshotTaken(Now()))


def rows_of(lookup: Lookup) -> list[Row]:
    """Answer a lookup as the upstream does."""
    chain = lookup.relation.input if isinstance(lookup.relation, Aggregate) else lookup.relation
    assert isinstance(chain, Chain)
    columns = lookup.columns
    if isinstance(lookup.relation, Aggregate):
        columns = tuple(lookup.relation.group[c] for c in columns)
    base = parent_columns(chain, columns)
    assert base is not None
    found = [row for key in lookup.keys for row in _ROWS[chain.table, base[0]](int(key[0] or 0))]
    if isinstance(lookup.relation, Aggregate):
        return [tuple(map(_own, row)) for row in state_rows(lookup.relation, lambda _: found, Random(1))]
    rows = list(compiled(chain).evaluate(lambda _: found))
    return rows if lookup.part is None else _first(rows, lookup.part, column_types(chain))


def _own(value: Value) -> Value:
    """A text as an object of its own."""
    return value if value is None else value.encode().decode()


def _first(rows: list[Row], part: Part, types: Sequence[SqlType]) -> list[Row]:
    """The rows of a part; no two tie."""
    ordering = Ordering(part.order, types)
    start, end = ordering.place(part.start), ordering.place(part.end)
    placed = sorted((ordering.place_of_row(row), row) for row in rows)
    within = [row for place, row in placed if start is not None and start <= place and (end is None or place < end)]
    return within[: part.limit_rows]
