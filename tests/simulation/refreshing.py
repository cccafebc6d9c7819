"""The refresh tier's side of a run: refreshed views' SQL on its way upstream and back, and what a key should hold.

A key is a text as a reader spells it: numbers may be spelled in several ways, and NULL equals nothing.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from dataflow.engine.effects import AnswerRefresh, CancelRefresh, Effect, Refresh
from dataflow.engine.events import Apply, Event, RefreshDone, RefreshFailed
from dataflow.plan.nodes import View
from dataflow.types import Key, RefreshId, Row, Value, ViewId
from tests.simulation.configuration import Asked
from tests.simulation.expectation import Bag, BaseTables, Expectations, KeyedRows
from tests.simulation.leaf_model import LeafModel
from tests.simulation.oracle import default_row, rows_of_key
from tests.simulation.oracle_values import ERROR, Normal, identity, normals_of
from tests.simulation.plans import tables_of
from tests.simulation.refreshed_views import REFRESHED, expires
from tests.simulation.report import describe, require
from tests.simulation.schema import NUMBERS
from tests.simulation.world import LookupResult, World


@dataclass(slots=True)
class Fetch:
    """A key of a refreshed view that the engine waits for."""

    refresh: Refresh
    cancelled: bool = False
    result: LookupResult | None = None


class Refreshing:
    """State of one engine's refreshed views. `views` are the installed ones, of every tier."""

    def __init__(self, world: World, views: dict[ViewId, View], counters: "Counter[str]") -> None:
        self.world = world
        self.views = views
        self.counters = counters
        self.fetches: list[Fetch] = []
        self.ids: set[RefreshId] = set()
        #: What came last for the keys of views that expire.
        self.brought: dict[tuple[ViewId, Key], Bag] = {}

    def is_refreshed(self, view_id: ViewId) -> bool:
        """Return whether the view is installed, and refreshed."""
        return view_id in self.views and self.views[view_id].name in REFRESHED

    # --- on its way --------------------------------------------------------------------------------------------------

    def perform(self, effect: Effect) -> None:
        """Begins or cancels a fetch."""
        if isinstance(effect, Refresh):
            require(self.is_refreshed(effect.view), effect, "of no refreshed view")
            require(effect.id not in self.ids, effect, "has an id that was used before")
            under_way = [f.refresh for f in self.fetches if not f.cancelled]
            require((effect.view, effect.key) not in [(r.view, r.key) for r in under_way], effect, "is under way")
            self.ids.add(effect.id)
            self.fetches.append(Fetch(effect))
        elif isinstance(effect, CancelRefresh):
            for fetch in self.fetches:
                fetch.cancelled |= fetch.refresh.id == effect.id

    def execute(self, fetch: Fetch, rng: Random) -> None:
        """The SQL runs now."""
        view = self.views.get(fetch.refresh.view)
        rows = [] if view is None else rows_of_text(view, fetch.refresh.key, self.world.visible_tables())
        rng.shuffle(rows)
        failed = any(ERROR in row for row in rows)
        fetch.result = self.world.brought(None if failed else rows, rng)

    def arrive(self, fetch: Fetch, rng: Random) -> RefreshDone | RefreshFailed:
        """Return the event of a fetch that ran."""
        self.fetches.remove(fetch)
        assert fetch.result is not None
        refresh, result = fetch.refresh, self.world.arrived(fetch.result, rng)
        if result.rows is None:
            return RefreshFailed(refresh.id, "integer out of range", False, code="query_failed")
        if not fetch.cancelled:
            self.brought[refresh.view, refresh.key] = Counter(result.rows)
        return RefreshDone(refresh.id, result.rows, result.snapshot, result.bound)

    def fail(self, fetch: Fetch, reason: str, retryable: bool, breaks: bool = False) -> RefreshFailed:
        """Return the event of a fetch that never ran."""
        self.fetches.remove(fetch)
        return RefreshFailed(fetch.refresh.id, reason, retryable, breaks, "upstream")

    # --- what is right -----------------------------------------------------------------------------------------------

    def expected(self, view_id: ViewId, key: Key, keyed: KeyedRows) -> Bag:
        """Expected rows of a covered key, or of an answer."""
        view = self.views[view_id]
        if expires(view):
            return Counter(map(keyed.comparable, self.brought[view_id, key].elements()))
        return bag_of_text(view, key, keyed)

    def compare_answer(self, answer: AnswerRefresh, keys: tuple[Asked, ...], base: BaseTables) -> None:
        """Rows that are not stored are those of the position that they are sent under, where `base` is."""
        require(len(keys) == 1, answer, "for a read of", keys)
        (asked,) = keys
        view = self.views[asked.view]
        keyed = Expectations(base).of(view.relation, view.key_columns)
        bag = Counter(map(keyed.comparable, answer.rows))
        expected = self.expected(asked.view, asked.key, keyed)
        require(bag == expected, f"{answer} of {view.name} {asked.key}: {describe(bag)}, not {describe(expected)}")
        self.counters["answered_once"] += 1

    @contextmanager
    def counting(self, event: Event, leaf: LeafModel) -> Iterator[None]:
        """Counts what a change of a view's tables leaves of the keys that are covered before it."""
        if not isinstance(event, Apply):
            yield
            return
        changed = {table for transaction in event.transactions for table in transaction.tables}
        concerned = [
            (view_id, set(known.rows))
            for view_id, known in leaf.views.items()
            if known.rows and self.is_refreshed(view_id) and tables_of(self.views[view_id].relation) & changed
        ]
        yield
        for view_id, before in concerned:
            left = before & leaf.views[view_id].rows.keys()
            self.counters["refreshed_kept"] += len(left)
            self.counters["refreshed_evicted_narrowly"] += bool(left) and left != before

    def respelled(self, view_id: ViewId, key: Key, rng: Random) -> Key:
        """The key as some reader may write it, with NULL at times."""
        if not self.is_refreshed(view_id) or not key:
            return key
        if rng.random() < 0.05:
            position = rng.randrange(len(key))
            return (*key[:position], None, *key[position + 1 :])
        normals = normals_of(self.views[view_id].relation, self.views[view_id].key_columns)
        return tuple(spelled(value, normal, rng) for value, normal in zip(key, normals, strict=True))


def rows_of_text(view: View, key: Key, tables: dict[str, list[Row]]) -> list[Row]:
    """Run a view's SQL for a key."""
    if None not in key:
        return rows_of_key(view.relation, view.key_columns, key, tables)
    row = default_row(view.relation, view.key_columns, key)
    return [] if row is None else [row]


def bag_of_text(view: View, key: Key, keyed: KeyedRows) -> Bag:
    """Return rows by key, in the form in which they are compared."""
    if None not in key and (found := keyed.by_key.get(normal_key(view, key))) is not None:
        return found
    row = default_row(view.relation, view.key_columns, key)
    return Counter() if row is None else Counter((keyed.comparable(row),))


def spelled(value: Value, normal: Normal, rng: Random) -> Value:
    """One of the texts of a value."""
    if normal is identity:
        return value
    return rng.choice([text for text in NUMBERS if normal(text) == normal(value)] or [value])


def normal_key(view: View, key: Key) -> Key:
    """The key as the oracle has it."""
    normals = normals_of(view.relation, view.key_columns)
    return tuple(normal(value) for normal, value in zip(normals, key, strict=True))
