"""Engines with one rule broken each. A simulation that does not catch them proves nothing.

Each mutant is a context manager that replaces one function of the engine, which has no hooks of its own.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from cdc.mysql.bracket import BracketSnapshot
from cdc.mysql.position import BinlogSnapshot
from dataflow.engine import budget, engine, evictions, graph, incongruence, nodes, ring, uncertain_visibility, upquery
from dataflow.engine.derivations import BlockSupply, Derivations, UnionSupply
from dataflow.engine.events import TableDelta, Transaction
from dataflow.engine.evictions import Evictions
from dataflow.engine.flights import Flights
from dataflow.engine.installation import Installation, chain_of, redo_deltas
from dataflow.engine.invalidation import Invalidator
from dataflow.engine.loads import Load, Loads
from dataflow.engine.nodes import UnionNode
from dataflow.engine.propagation import Propagation
from dataflow.engine.publication_barrier import PublicationBarrier
from dataflow.engine.ranking import Ranking
from dataflow.engine.redo_log import MemoryLog
from dataflow.engine.refills import Refills
from dataflow.engine.refreshed_views import RefreshedViews, RefreshLeaf
from dataflow.engine.staging import StagedLeaf
from dataflow.engine.uncertain_visibility import UncertainVisibility, Verdict
from dataflow.engine.upquery import Demand
from dataflow.ops.aggregate import Group
from dataflow.ops.block import BlockJoin
from dataflow.ops.partitioned import Partitioned
from dataflow.types import Delta, Row
from tests.simulation.abandonment_mutants import ABANDONMENT_MUTANTS
from tests.simulation.fault_mutants import FAULT_MUTANTS, half_of_what_is_too_large
from tests.simulation.foreign_key_mutants import new_rows_without_children
from tests.simulation.ordered import RowOrder
from tests.simulation.runs import Focus
from tests.simulation.visibility import SimulatedSnapshot

Mutant = Callable[[], AbstractContextManager[Any]]


def no_redo() -> AbstractContextManager[Any]:
    """A lookup's rows are installed as its snapshot saw them."""
    original = Installation.install
    return patch.object(Installation, "install", lambda self, sent, result, _: original(self, sent, result, []))


def no_eviction_on_a_forward_hole() -> AbstractContextManager[Any]:
    """An added row whose route goes on through a hole is left standing."""
    return patch.object(incongruence.Incongruence, "targets", lambda *_: [])


def no_eviction_of_what_looked_a_key_up() -> AbstractContextManager[Any]:
    """A later step's lookup key is evicted alone."""
    return patch.object(evictions, "keys_looking_up", lambda *_: [])


def no_eviction_of_what_a_key_drives() -> AbstractContextManager[Any]:
    """A driving key is evicted alone."""
    original = evictions._target_keys

    def target_keys(dependent: Any, columns: Any, *rest: Any) -> Any:
        return () if columns and dependent.position == 0 else original(dependent, columns, *rest)

    return patch.object(evictions, "_target_keys", target_keys)


def new_state_on_all_sides() -> AbstractContextManager[Any]:
    """A block joins a change with the new state of every other input."""
    return patch.object(BlockJoin, "_old_state", lambda *_: None)


@contextmanager
def padding_dropped_going_backwards() -> Iterator[None]:
    """Completing an added row backwards, a left input without a match ends the combination."""
    backwards = False
    complete, bind = incongruence.Incongruence._complete_backwards, BlockJoin.bind

    def mutant_complete(self: Any, *arguments: Any) -> Any:
        nonlocal backwards
        backwards = True
        try:
            return complete(self, *arguments)
        finally:
            backwards = False

    def mutant_bind(self: Any, step: Any, *arguments: Any) -> Any:
        return bind(self, replace(step, pads=step.pads and not backwards), *arguments)

    with (
        patch.object(incongruence.Incongruence, "_complete_backwards", mutant_complete),
        patch.object(BlockJoin, "bind", mutant_bind),
    ):
        yield


@contextmanager
def subsumption_without_own_coverage() -> Iterator[None]:
    """A key whose part is covered counts as covered, but is not."""

    def subsumed(node: Any, columns: Any, key: Any, _: Any) -> bool:
        chain = isinstance(node.source, incongruence.ChainNode)
        return node.covered(columns, key) or (chain and node.materialization.subsumed(columns, key))

    with (
        patch.object(incongruence, "covered_or_subsumed", subsumed),
        patch.object(upquery, "covered_or_subsumed", subsumed),
    ):
        yield


def install_before_the_bound() -> AbstractContextManager[Any]:
    """A result is installed although the stream has not brought all that it sees."""
    return patch.object(engine, "reached", lambda *_: True)


def ring_trimmed_too_early() -> AbstractContextManager[Any]:
    """A snapshot trims the ring although a lookup in flight may be older."""
    return patch.object(ring, "may_trim_by", lambda *_: True)


def truncate_ignored() -> AbstractContextManager[Any]:
    """TRUNCATE leaves the known rows."""
    apply = Propagation.apply

    def without(transaction: Transaction) -> Transaction:
        tables = {table: replace_truncated(delta) for table, delta in transaction.tables.items()}
        return Transaction(transaction.id, transaction.end, tables)

    def mutant(self: Any, transactions: list[Transaction], *joining: Any) -> None:
        apply(self, [without(t) for t in transactions], *joining)

    return patch.object(Propagation, "apply", mutant)


def truncate_marker_ignored() -> AbstractContextManager[Any]:
    """A lookup that did not see a TRUNCATE is installed all the same."""
    unseen = Installation.unseen
    return patch.object(Installation, "unseen", lambda *arguments: [replace_truncated(d) for d in unseen(*arguments)])


def replace_truncated(delta: TableDelta) -> TableDelta:
    """The delta without its TRUNCATE."""
    return TableDelta(delta.removed, delta.added, False, delta.overflow)


def overflow_ignored() -> AbstractContextManager[Any]:
    """A transaction that is too large to be carried leaves what it touched."""
    return patch.object(Propagation, "_forget_table", lambda *_: None)


def a_later_transaction_ignored_in_a_forwarded_read() -> AbstractContextManager[Any]:
    """A forwarded read is said to be exact where the engine is."""
    exact = ring.Ring.exact_position

    def mutant(self: Any, tables: Any, snapshot: Any, applied: int, *concerns: Any) -> Any:
        return exact(self, tables, snapshot, applied, *concerns) if concerns else applied

    return patch.object(ring.Ring, "exact_position", mutant)


def start_snapshot_ignored() -> AbstractContextManager[Any]:
    """A lookup is installed that misses a commit from before the stream."""
    return patch.object(PublicationBarrier, "covers_start", lambda *_: True)


def publication_barrier_ignored() -> AbstractContextManager[Any]:
    """A lookup of a table that has just joined the publication is installed at once."""
    return patch.object(engine.Engine, "_admissible", lambda self, _, snapshot: self._barrier.covers_start(snapshot))


@contextmanager
def forwarded_while_a_table_joins() -> Iterator[None]:
    """A forwarded read is answered although it misses what was open when a table joined; lookups wait."""
    sees_enough = PublicationBarrier.sees_enough

    def admissible(self: Any, sent: Any, snapshot: Any) -> bool:
        return sees_enough(self._barrier, snapshot, self.graph.tables_of(sent.node))

    def mutant(self: Any, snapshot: Any, tables: Any) -> bool:
        return sees_enough(self, snapshot, tables - self.joining.keys())

    barrier = patch.object(PublicationBarrier, "sees_enough", mutant)
    with patch.object(engine.Engine, "_admissible", admissible), barrier:
        yield


def refreshed_while_a_table_joins() -> AbstractContextManager[Any]:
    """The same of refreshed views."""
    return forwarded_while_a_table_joins()


def a_group_keeps_its_first_text() -> AbstractContextManager[Any]:
    """A group of 1.0 and 1.00 goes on as 1.0 when that row is gone."""
    return patch.object(Group, "count_text", lambda *_: None)


def nth_row_taken_after_redo() -> AbstractContextManager[Any]:
    """A part is covered as far as its rows go once they are current, not as far as the lookup saw."""
    original = Installation._install_part

    def mutant(self: Any, node: Any, sent: Any, part: Any, rows: list[Row], redo: list[Delta]) -> None:
        bag = Counter(rows)
        for removed, added in redo:
            bag.subtract(removed)
            bag.update(added)
        original(self, node, sent, part, sorted(bag.elements(), key=RowOrder(part.order, node.types).key), [])

    return patch.object(Installation, "_install_part", mutant)


def rows_behind_an_interval_kept() -> AbstractContextManager[Any]:
    """A change goes to the leaf although it lies outside the intervals that are covered."""
    return patch.object(nodes, "_held", lambda _coverage, _key, change: change)


def padding_by_key() -> AbstractContextManager[Any]:
    """A left input is padded where nothing has the key, whatever the rest of its ON says."""

    def matching(self: Any, keeps: Any, rows: Any, now: Any) -> Any:
        gone, come = ([row for row in side if keeps(row)] for side in rows)
        return self._with_padding((gone, come), now) if gone or come else (gone, come)

    return patch.object(BlockJoin, "_matching", matching)


def rest_of_on_forgotten_going_up() -> AbstractContextManager[Any]:
    """What a left input hangs off is taken for a match although the rest of its own ON is not TRUE."""
    return patch.object(BlockJoin, "where_matches", lambda _self, _lefts, combinations: combinations)


def rest_of_on_not_relevant() -> AbstractContextManager[Any]:
    """A row whose change makes the rest of an ON TRUE counts as one that was there before."""
    relevant = graph.relevant_columns

    def mutant(block: Any, *arguments: Any) -> Any:
        return relevant(replace(block, inputs=tuple(replace(item, on=None) for item in block.inputs)), *arguments)

    return patch.object(graph, "relevant_columns", mutant)


def padding_leads_nowhere() -> AbstractContextManager[Any]:
    """A removed row needs nothing, also where its padding makes the rest of another ON TRUE."""
    return patch.object(graph, "paddings_read", lambda *_: frozenset())


def condition_not_relevant() -> AbstractContextManager[Any]:
    """A row whose change makes a condition TRUE counts as one that was there before."""
    relevant = graph.relevant_columns
    return patch.object(graph, "relevant_columns", lambda block, *a: relevant(replace(block, predicate=None), *a))


def padding_makes_no_condition_true() -> AbstractContextManager[Any]:
    """A removed row needs nothing, also where its padding makes a condition TRUE."""
    paddings = graph.paddings_read
    return patch.object(graph, "paddings_read", lambda block, *a: paddings(replace(block, predicate=None), *a))


def no_eviction_of_what_is_joined_with_everything() -> AbstractContextManager[Any]:
    """An input of a cross join is evicted alone."""
    original = evictions._target_keys

    def target_keys(dependent: Any, columns: Any, *rest: Any) -> Any:
        steps = dependent.use.route.steps
        crossed = dependent.position and not steps[dependent.position - 1].columns
        return () if crossed else original(dependent, columns, *rest)

    return patch.object(evictions, "_target_keys", target_keys)


def branch_forgotten_in_the_cascade() -> AbstractContextManager[Any]:
    """A key of a union's input is evicted alone."""
    original = evictions.dependent_keys

    def dependent_keys(*arguments: Any) -> Any:
        return [target for target in original(*arguments) if not target[0].merges]

    return patch.object(evictions, "dependent_keys", dependent_keys)


def equal_branches_count_once() -> AbstractContextManager[Any]:
    """A union's input that is there twice changes the union once."""
    original = UnionNode.delta

    def delta(self: Any, deltas: Any) -> Any:
        once = UnionNode(self.id, self.relation, list(dict.fromkeys(self.inputs)))
        return original(once, deltas)

    return patch.object(UnionNode, "delta", delta)


def rows_of_other_keys() -> AbstractContextManager[Any]:
    """What a part of a key brings is taken for what the key brings."""
    return patch.object(upquery, "_filtered", lambda _use, _key, rows: rows)


def partition_of_what_is_known() -> AbstractContextManager[Any]:
    """A row of a partition that nobody covers makes one of the rows that come by."""
    known = Partitioned._known_partition

    def mutant(self: Any, key: Any, row: Any) -> Any:
        return known(self, key, row) or self.partitions.setdefault(key, self._new())

    return patch.object(Partitioned, "_known_partition", mutant)


def stale_answer_kept() -> AbstractContextManager[Any]:
    """A change leaves the refreshed keys that it touches."""
    return patch.object(RefreshedViews, "apply", lambda *_: None)


def invalidating(keys: Callable[[Invalidator, TableDelta, Any], Any]) -> AbstractContextManager[Any]:
    """Another judgement of which keys a change of rows concerns."""
    return patch.object(Invalidator, "keys", lambda self, delta, among: keys(self, delta, among))


def only_the_new_row_is_filtered() -> AbstractContextManager[Any]:
    """An update counts only if the row passes the view's filter after it."""
    original = Invalidator.keys

    def keys(self: Invalidator, delta: TableDelta, among: Any) -> Any:
        passes = not delta.added or any(map(self._may_pass, delta.added))
        return original(self, delta, among) if passes else ()

    return invalidating(keys)


def only_the_new_row_has_a_key() -> AbstractContextManager[Any]:
    """An update concerns the keys that the row has after it."""
    original = Invalidator.keys

    def keys(self: Invalidator, delta: TableDelta, among: Any) -> Any:
        found = original(self, delta, among)
        if not delta.added or not self._key_columns:
            return found
        return [key for key in found if key in set(original(self, replace(delta, removed=[]), among))]

    return invalidating(keys)


def an_unread_column_too_many() -> AbstractContextManager[Any]:
    """A column that the view reads counts as one that it does not."""
    original = Invalidator._changed

    def changed(self: Invalidator, delta: TableDelta) -> Any:
        columns, self._columns = self._columns, self._columns[:-1]
        try:
            return original(self, delta)
        finally:
            self._columns = columns

    return patch.object(Invalidator, "_changed", changed)


def one_read_of_a_table() -> AbstractContextManager[Any]:
    """A view that reads a table twice is touched as it reads it the first time."""
    original = RefreshLeaf.invalidated

    def invalidated(self: RefreshLeaf, table: str, *arguments: Any) -> Any:
        self.invalidators = {name: reads[:1] for name, reads in self.invalidators.items()}
        return original(self, table, *arguments)

    return patch.object(RefreshLeaf, "invalidated", invalidated)


def unseen_transaction_of_a_refresh() -> AbstractContextManager[Any]:
    """Rows are stored although a transaction was applied that they do not see."""
    return patch.object(RefreshedViews, "_exact", lambda self, *_: self._applied)


def refresh_before_the_bound() -> AbstractContextManager[Any]:
    """Rows are stored although the stream has not brought all that they see."""
    done = RefreshedViews.done
    return patch.object(RefreshedViews, "done", lambda self, event, *at: done(self, replace(event, bound=0), *at))


def refresh_the_ring_forgets() -> AbstractContextManager[Any]:
    """The ring lets go what a refresh under way may not see."""
    return patch.object(RefreshedViews, "oldest_issue", lambda _: None)


def truncate_touches_nothing() -> AbstractContextManager[Any]:
    """TRUNCATE touches refreshed keys only by the rows that came afterwards."""
    original = Invalidator.keys
    return invalidating(lambda invalidator, delta, among: original(invalidator, replace_truncated(delta), among))


def overflow_touches_nothing() -> AbstractContextManager[Any]:
    """A transaction that is too large to be carried touches no refreshed key."""
    original = Invalidator.keys
    return invalidating(lambda invalidator, delta, among: original(invalidator, replace(delta, overflow=False), among))


def answers_from_before_the_question() -> AbstractContextManager[Any]:
    """A read gets rows that are exact only before what was applied when it was asked."""
    return patch.object(engine, "Demand", lambda wants, read=None, _=0: Demand(wants, read, 0))


def pinned_key_chosen() -> AbstractContextManager[Any]:
    """A subscription does not keep its key from being chosen."""
    return patch.object(Ranking, "pinned", lambda *_: None)


def unpinned_key_never_chosen() -> AbstractContextManager[Any]:
    """A key whose subscription has ended stays for ever."""
    return patch.object(Ranking, "unpinned", lambda *_: None)


def forgotten_key_ranked() -> AbstractContextManager[Any]:
    """The policy goes on with keys that have gone."""
    return patch.object(Ranking, "lost", lambda *_: False)


def dropped_view_ranked() -> AbstractContextManager[Any]:
    """The policy goes on with the keys of a view that has gone."""
    return patch.object(Ranking, "dropped", lambda *_: None)


def needed_key_released() -> AbstractContextManager[Any]:
    """An inner key goes with a leaf's key although another one needs it."""
    return patch.object(Evictions, "has_dependents", lambda *_: False)


def needed_key_forgotten_alone() -> AbstractContextManager[Any]:
    """Where memory is short, an inner key goes without what depends on it."""
    release = budget.Budget._release_if_unused

    def mutant(self: Any, node: Any, columns: Any, key: Any) -> Any:
        if release(self, node, columns, key) or not node.holds(columns, key):
            return True
        node.forget(columns, key)
        return True

    return patch.object(budget.Budget, "_release_if_unused", mutant)


def evicted_key_filled_again() -> AbstractContextManager[Any]:
    """A hot key that was evicted on purpose is looked up again."""
    return patch.object(Refills, "forget_hot", lambda _: None)


def refill_of_a_dropped_view() -> AbstractContextManager[Any]:
    """A hot key is still wanted when its view has gone."""
    fail = engine.Engine._fail

    def mutant(self: Any, demand: Any, reason: str, retryable: bool) -> None:
        if not demand.hot or "dropped" not in reason:
            fail(self, demand, reason, retryable)

    return patch.object(engine.Engine, "_fail", mutant)


def judging(verdict: Callable[..., Verdict]) -> AbstractContextManager[Any]:
    """Another judgement of rows whose snapshot is unsure."""
    judge = UncertainVisibility.judge

    def mutant(self: Any, sent: Any, result: Any, unseen: Any) -> Verdict:
        exact = result.snapshot.exact
        return judge(self, sent, result, unseen) if exact else verdict(self, sent, result.snapshot, unseen)

    return patch.object(UncertainVisibility, "judge", mutant)


def unsure_taken_as_seen() -> AbstractContextManager[Any]:
    """What a lookup may have seen is not added to its rows."""

    def verdict(self: Any, sent: Any, snapshot: Any, _: Any) -> Verdict:
        chain = chain_of(sent)
        entries = [
            t for t in self._ring._entries if not snapshot.sees(t.id, t.end) and not snapshot.unsure(t.id, t.end)
        ]
        return Verdict(redo_deltas(chain, [t.tables[chain.table] for t in entries if chain.table in t.tables]))

    return judging(verdict)


def unsure_taken_as_unseen() -> AbstractContextManager[Any]:
    """What a lookup may have seen is added to its rows."""
    return judging(lambda _, sent, __, unseen: Verdict(redo_deltas(chain_of(sent), unseen)))


def unsure_truncate_ignored() -> AbstractContextManager[Any]:
    """Rows are brought up to date although a TRUNCATE, or more than the stream carries, may be missing."""
    return patch.object(uncertain_visibility, "_hides_rows", lambda _: False)


def unsure_ones_only() -> AbstractContextManager[Any]:
    """Rows are replaced by their last images in transactions that are not seen for sure, whatever came after these."""
    return patch.object(ring.Ring, "since_unseen", ring.Ring.unseen)


def rows_that_an_unsure_one_removed_stay() -> AbstractContextManager[Any]:
    """Rows are replaced by their last images only where they have some."""
    original = uncertain_visibility.last_images

    def images(rows: list[Row], deltas: list[Delta], unique: Any) -> Delta:
        removed, added = original(rows, deltas, unique)
        left = {tuple(row[c] for c in unique) for row in added}
        return [row for row in removed if tuple(row[c] for c in unique) in left], added

    return patch.object(uncertain_visibility, "last_images", images)


def trimmed_though_unsure() -> AbstractContextManager[Any]:
    """The ring lets go what a snapshot may have seen."""
    trim = ring.Ring.trim

    def mutant(self: Any, oldest_issue: int | None) -> int:
        with patch.object(BracketSnapshot, "sees", lambda snapshot, _, end: end <= snapshot.position):
            return trim(self, oldest_issue)

    return patch.object(ring.Ring, "trim", mutant)


def unsure_crosses_nothing() -> AbstractContextManager[Any]:
    """Whole-view rows are said to be exact where what they may have seen counts as seen."""
    exact = ring.Ring.exact_position

    def mutant(self: Any, *arguments: Any) -> Any:
        with (
            patch.object(BracketSnapshot, "sees", lambda snapshot, _, end: end <= snapshot.position),
            patch.object(BracketSnapshot, "unsure", lambda *_: False),
        ):
            return exact(self, *arguments)

    return patch.object(ring.Ring, "exact_position", mutant)


def start_covered_by_what_is_executed() -> AbstractContextManager[Any]:
    """A lookup is installed that may miss a commit from before the stream."""
    return patch.object(BracketSnapshot, "covers", lambda snapshot, other: other.seen <= snapshot.seen)


def no_redo_for_loads() -> AbstractContextManager[Any]:
    """A load's rows are installed as its snapshot saw them."""
    return patch.object(MemoryLog, "append", lambda *_: None)


def load_without_the_rings_part() -> AbstractContextManager[Any]:
    """A load's log begins with what is applied after the load began."""
    begin = Loads.begin

    def mutant(self: Any, sent: Any, event: Any, unseen: list[TableDelta]) -> bool:
        return begin(self, sent, event, [delta for delta in unseen if delta.truncated or delta.overflow])

    return patch.object(Loads, "begin", mutant)


def seen_logged_too() -> AbstractContextManager[Any]:
    """A load's log has what is applied after it began although its snapshot saw it."""
    applied = Loads.applied

    def mutant(self: Any, transactions: Any) -> Any:
        sees = patch.object(SimulatedSnapshot, "sees", lambda *_: False)
        with sees, patch.object(BinlogSnapshot, "sees", lambda *_: False):
            return applied(self, transactions)

    return patch.object(Loads, "applied", mutant)


def truncate_ignored_while_loading() -> AbstractContextManager[Any]:
    """A load goes on although its table was emptied, or changed in ways that the stream does not carry."""
    note = Load.note

    def mutant(self: Load, deltas: Any) -> bool:
        return note(self, [replace(delta, truncated=False, overflow=False) for delta in deltas])

    return patch.object(Load, "note", mutant)


def load_before_the_bound() -> AbstractContextManager[Any]:
    """A load's rows are installed although the stream has not brought all that they have."""
    return patch.object(Load, "is_ready", lambda self, _: self.complete)


def load_that_goes_on_with_a_new_stream() -> AbstractContextManager[Any]:
    """What was read before continuity was lost is installed after it."""
    every = Flights.every
    return patch.object(Flights, "every", lambda self: [s for s in every(self) if s.id not in self.loading])


def half_a_view_is_left() -> AbstractContextManager[Any]:
    """What was written of a view stays in the leaf store when its load comes to nothing."""
    return patch.object(StagedLeaf, "abandon", lambda _: None)


def pending_rows_count() -> AbstractContextManager[Any]:
    """A change counts for what is being derived, whether or not its driving row was derived yet."""
    return patch.object(BlockSupply, "counts", lambda *_: True)


def pending_rows_of_a_union_count() -> AbstractContextManager[Any]:
    """The same of a union."""
    return patch.object(UnionSupply, "changed", lambda _self, rows, _pending: list(rows))


def gone_but_pending() -> AbstractContextManager[Any]:
    """A driving row that goes stays pending."""
    return patch.object(BlockSupply, "forget", lambda *_: None)


def derived_from_what_was_lost() -> AbstractContextManager[Any]:
    """What is derived goes on although an input was evicted."""
    return patch.object(Derivations, "lost", lambda *_: None)


UNBROKEN = {"restart": 0, "rejoin": 0, "crash": 0, "fault": 0}
#: A table joins soon, what is open then commits late and is visible later still, and much is read meanwhile.
JOINING = UNBROKEN | {
    "join_table": 20, "install": 25, "drop": 0, "write": 4, "transaction": 6, "commit": 4, "reveal": 0.5, "overflow": 0,
    "truncate": 0, "read": 60, "execute_forward": 30, "forward_done": 20, "apply": 40, "change_schema": 0, "break": 0,
}  # fmt: skip
MYSQL = ("mysql", "mysql_unordered")
#: Much is kept whole, loaded and derived, slowly.
LOADING = Focus(
    weights={"install": 5, "drop": 2, "work": 12, "evict_key": 4, "evict_inner": 8}, upstreams=("postgres", "mariadb"),
    whole=True,
)  # fmt: skip
#: Where a mutant shows only in rare shapes, the runs are narrowed to them.
MUTANTS: dict[Mutant, Focus | None] = {
    no_redo: None,
    no_eviction_on_a_forward_hole: None,
    no_eviction_of_what_looked_a_key_up: None,
    no_eviction_of_what_a_key_drives: None,
    new_state_on_all_sides: None,
    padding_dropped_going_backwards: Focus(("story_votes_comment_user", "story_tags_comment_user")),
    subsumption_without_own_coverage: None,
    install_before_the_bound: None,
    ring_trimmed_too_early: None,
    truncate_ignored: None,
    truncate_marker_ignored: Focus(("stories", "story_user", "votes_of"), {"truncate": 5}),
    overflow_ignored: None,
    a_later_transaction_ignored_in_a_forwarded_read: None,
    start_snapshot_ignored: None,
    publication_barrier_ignored: Focus(("follow",), {"join_table": 6, "install": 4}),
    forwarded_while_a_table_joins: Focus(("follow",), JOINING),
    refreshed_while_a_table_joins: Focus(("refreshed_follow",), JOINING),
    new_rows_without_children: None,
    a_group_keeps_its_first_text: Focus(("users_by_karma",)),
    padding_by_key: Focus(("on_",)),
    rest_of_on_forgotten_going_up: Focus(("on_",)),
    rest_of_on_not_relevant: Focus(("on_title",)),
    padding_leads_nowhere: Focus(("on_answered",), UNBROKEN),
    condition_not_relevant: Focus(("conditioned",)),
    padding_makes_no_condition_true: Focus(("conditioned_nameless",), UNBROKEN),
    no_eviction_of_what_is_joined_with_everything: Focus(("users_tags", "between", "across")),
    branch_forgotten_in_the_cascade: Focus(("people", "active", "activity")),
    equal_branches_count_once: Focus(("twice",)),
    rows_of_other_keys: Focus(("comment_story", "story_user", "window_ranks")),
    partition_of_what_is_known: Focus(("window", "top")),
    nth_row_taken_after_redo: Focus(("ordered",)),
    rows_behind_an_interval_kept: Focus(("ordered",)),
    stale_answer_kept: Focus(("refreshed",)),
    only_the_new_row_is_filtered: Focus(("refreshed_titles", "refreshed_good", "refreshed_sums")),
    only_the_new_row_has_a_key: Focus(("refreshed_story", "refreshed_good", "refreshed_sums")),
    an_unread_column_too_many: Focus(("refreshed",)),
    one_read_of_a_table: Focus(("refreshed_replies", "refreshed_disputed")),
    unseen_transaction_of_a_refresh: Focus(("refreshed",)),
    refresh_before_the_bound: Focus(("refreshed",)),
    refresh_the_ring_forgets: Focus(("refreshed",)),
    truncate_touches_nothing: Focus(("refreshed",), {"truncate": 5}),
    overflow_touches_nothing: Focus(("refreshed",), {"overflow": 3}),
    answers_from_before_the_question: Focus(("refreshed",)),
    pinned_key_chosen: None,
    unpinned_key_never_chosen: None,
    forgotten_key_ranked: None,
    dropped_view_ranked: None,
    needed_key_released: Focus(("story", "comment"), {"evict_some": 8}),
    needed_key_forgotten_alone: Focus(("story", "comment"), {"evict_some": 8}),
    evicted_key_filled_again: Focus(("story", "comment", "ordered"), {"evict_some": 4, "touch": 20}),
    refill_of_a_dropped_view: Focus(("story", "comment"), {"drop": 6, "touch": 20}),
    unsure_taken_as_seen: Focus(upstreams=MYSQL),
    unsure_taken_as_unseen: Focus(upstreams=MYSQL),
    unsure_truncate_ignored: Focus(("stories", "story_user", "votes_of"), {"truncate": 5, "overflow": 2}, MYSQL),
    unsure_ones_only: Focus(("users", "stories", "story"), upstreams=("mysql_unordered",)),
    rows_that_an_unsure_one_removed_stay: Focus(upstreams=MYSQL),
    trimmed_though_unsure: Focus(upstreams=MYSQL),
    unsure_crosses_nothing: Focus(upstreams=MYSQL),
    start_covered_by_what_is_executed: Focus(upstreams=MYSQL),
    no_redo_for_loads: LOADING,
    load_without_the_rings_part: LOADING,
    seen_logged_too: LOADING,
    truncate_ignored_while_loading: replace(LOADING, weights=LOADING.weights | {"truncate": 4, "overflow": 2}),
    load_before_the_bound: LOADING,
    load_that_goes_on_with_a_new_stream: replace(LOADING, weights=LOADING.weights | {"restart": 5}),
    half_a_view_is_left: replace(LOADING, weights=LOADING.weights | {"truncate": 4, "break": 1}),
    pending_rows_count: LOADING,
    pending_rows_of_a_union_count: replace(LOADING, views=("union", "people", "active", "twice", "activity")),
    half_of_what_is_too_large: None,
    gone_but_pending: LOADING,
    derived_from_what_was_lost: LOADING,
    **dict.fromkeys(FAULT_MUTANTS, Focus(weights={"fault": 6})),
    **dict.fromkeys(ABANDONMENT_MUTANTS, Focus(weights={"cancel": 8, "heartbeat": 12})),
}
