"""Engines with one rule broken each. A simulation that does not catch them proves nothing.

Each mutant is a context manager that replaces one function of the engine, which has no hooks of its own.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from tests.simulation.mutants import (
    evictions,
    loads,
    lookups,
    memory,
    parametric,
    partial_images,
    propagation,
    refreshed_views,
    resumption,
    uncertain_visibility,
)
from tests.simulation.mutants.abandonment import ABANDONMENT_MUTANTS
from tests.simulation.mutants.checkpoints import CHECKPOINT_MUTANTS
from tests.simulation.mutants.faults import FAULT_MUTANTS, half_of_what_is_too_large
from tests.simulation.mutants.foreign_keys import new_rows_without_children
from tests.simulation.runs import Focus

Mutant = Callable[[], AbstractContextManager[Any]]

UNBROKEN = {"restart": 0, "rejoin": 0, "crash": 0, "fault": 0, "checkpoint": 0}
#: A table joins soon, what is open then commits late and is visible later still, and much is read meanwhile.
JOINING = UNBROKEN | {
    "join_table": 20,
    "install": 25,
    "drop": 0,
    "write": 4,
    "transaction": 6,
    "commit": 4,
    "reveal": 0.5,
    "overflow": 0,
    "truncate": 0,
    "read": 60,
    "execute_forward": 30,
    "forward_done": 20,
    "apply": 40,
    "change_schema": 0,
    "break": 0,
}
MYSQL = ("mysql", "mysql_unordered")
#: Much is kept whole, loaded and derived, slowly.
LOADING = Focus(
    weights={"install": 5, "drop": 2, "work": 12, "evict_key": 4, "evict_inner": 8},
    upstreams=("postgres", "mariadb"),
    whole=True,
)
#: Foreign keys act unseen.
CASCADING = Focus(weights={"write": 30}, cascades=True)
#: The upstream often crashes while much is under way.
RESUMING = UNBROKEN | {"resume": 8, "read": 40, "write": 15, "commit": 10, "reveal": 12, "apply": 8, "identity": 0}
PARAMETRIC = Focus(("free", "ordered_free"))
#: Where a mutant shows only in rare shapes, the runs are narrowed to them.
MUTANTS: dict[Mutant, Focus | None] = {
    lookups.no_redo: None,
    lookups.more_keys_than_a_semijoin_found: Focus(("story", "story_user", "comment")),
    lookups.walks_go_on_after_changes: None,
    lookups.walks_go_on_without_lost_keys: None,
    evictions.no_eviction_on_a_forward_hole: None,
    evictions.no_eviction_of_what_looked_a_key_up: None,
    evictions.no_eviction_of_what_a_key_drives: None,
    propagation.new_state_on_all_sides: None,
    evictions.padding_dropped_going_backwards: Focus(("story_votes_comment_user", "story_tags_comment_user")),
    evictions.subsumption_without_own_coverage: None,
    lookups.install_before_the_bound: None,
    lookups.one_snapshot_for_a_round: None,
    lookups.ring_trimmed_too_early: None,
    propagation.rows_by_their_driver_alone: None,
    propagation.truncate_ignored: None,
    lookups.truncate_marker_ignored: Focus(("stories", "story_user", "votes_of"), {"truncate": 5}),
    propagation.overflow_ignored: None,
    lookups.a_later_transaction_ignored_in_a_forwarded_read: None,
    lookups.start_snapshot_ignored: None,
    lookups.publication_barrier_ignored: Focus(("follow",), JOINING),
    lookups.forwarded_while_a_table_joins: Focus(("follow",), JOINING),
    lookups.refreshed_while_a_table_joins: Focus(("refreshed_follow",), JOINING),
    resumption.lookups_from_before: Focus(weights=RESUMING),
    resumption.forwarded_reads_from_before: Focus(weights=RESUMING | {"execute_forward": 20, "forward_done": 8}),
    resumption.fetches_from_before: Focus(("refreshed",), RESUMING),
    new_rows_without_children: None,
    propagation.a_group_keeps_its_first_text: Focus(("users_by_karma",)),
    propagation.padding_by_key: Focus(("on_",)),
    evictions.rest_of_on_forgotten_going_up: Focus(("on_",)),
    evictions.rest_of_on_not_relevant: Focus(("on_title",), UNBROKEN),
    evictions.padding_leads_nowhere: Focus(("on_answered",), UNBROKEN),
    evictions.condition_not_relevant: Focus(("conditioned",)),
    evictions.padding_makes_no_condition_true: Focus(("conditioned_nameless",), UNBROKEN),
    evictions.no_eviction_of_what_is_joined_with_everything: Focus(("users_tags", "between", "across")),
    evictions.branch_forgotten_in_the_cascade: Focus(("people", "active", "activity")),
    propagation.equal_branches_count_once: Focus(("twice",)),
    propagation.rows_of_other_keys: Focus(("comment_story", "story_user", "window_ranks")),
    propagation.partition_of_what_is_known: Focus(("window", "top")),
    lookups.nth_row_taken_after_redo: Focus(("ordered",)),
    propagation.rows_behind_an_interval_kept: Focus(("ordered",)),
    refreshed_views.stale_answer_kept: Focus(("refreshed",)),
    refreshed_views.only_the_new_row_is_filtered: Focus(("refreshed_titles", "refreshed_good", "refreshed_sums")),
    refreshed_views.only_the_new_row_has_a_key: Focus(("refreshed_story", "refreshed_good", "refreshed_sums")),
    refreshed_views.an_unread_column_too_many: Focus(("refreshed",)),
    refreshed_views.one_read_of_a_table: Focus(("refreshed_replies", "refreshed_disputed")),
    refreshed_views.unseen_transaction_of_a_refresh: Focus(("refreshed",)),
    refreshed_views.refresh_before_the_bound: Focus(("refreshed",)),
    refreshed_views.refresh_the_ring_forgets: Focus(("refreshed",)),
    refreshed_views.truncate_touches_nothing: Focus(("refreshed",), {"truncate": 5}),
    refreshed_views.overflow_touches_nothing: Focus(("refreshed",), {"overflow": 3}),
    lookups.answers_from_before_the_question: Focus(("refreshed",)),
    memory.pinned_key_chosen: None,
    memory.unpinned_key_never_chosen: None,
    memory.forgotten_key_ranked: None,
    memory.dropped_view_ranked: None,
    memory.needed_key_released: Focus(("story", "comment"), {"evict_some": 8}),
    memory.needed_key_forgotten_alone: Focus(("story", "comment"), {"evict_some": 8}),
    memory.evicted_key_filled_again: Focus(("story", "comment", "ordered"), {"evict_some": 4, "touch": 20}),
    memory.refill_of_a_dropped_view: Focus(("story", "comment"), {"drop": 6, "touch": 20}),
    uncertain_visibility.unsure_taken_as_seen: Focus(upstreams=MYSQL),
    uncertain_visibility.unsure_taken_as_unseen: Focus(upstreams=MYSQL),
    uncertain_visibility.unsure_truncate_ignored: Focus(
        ("stories", "story_user", "votes_of"), {"truncate": 5, "overflow": 2}, MYSQL
    ),
    uncertain_visibility.unsure_ones_only: Focus(
        ("users", "stories", "story"), {"write": 30, "commit": 20}, ("mysql_unordered",)
    ),
    uncertain_visibility.rows_that_an_unsure_one_removed_stay: Focus(upstreams=MYSQL),
    uncertain_visibility.trimmed_though_unsure: Focus(upstreams=MYSQL),
    uncertain_visibility.unsure_crosses_nothing: Focus(upstreams=MYSQL),
    uncertain_visibility.start_covered_by_what_is_executed: Focus(upstreams=MYSQL),
    loads.no_redo_for_loads: LOADING,
    loads.load_without_the_rings_part: LOADING,
    loads.seen_logged_too: LOADING,
    loads.truncate_ignored_while_loading: replace(LOADING, weights=LOADING.weights | {"truncate": 4, "overflow": 2}),
    loads.load_before_the_bound: LOADING,
    loads.load_that_goes_on_with_a_new_stream: replace(LOADING, weights=LOADING.weights | {"restart": 5}),
    loads.half_a_view_is_left: replace(LOADING, weights=LOADING.weights | {"truncate": 4, "break": 1}),
    loads.pending_rows_count: LOADING,
    loads.pending_rows_of_a_union_count: replace(LOADING, views=("union", "people", "active", "twice", "activity")),
    half_of_what_is_too_large: Focus(weights={"fault": 0, "resume": 0, "checkpoint": 0}),
    loads.gone_but_pending: LOADING,
    loads.derived_from_what_was_lost: LOADING,
    parametric.tuples_of_one_cover: PARAMETRIC,
    parametric.tuples_that_are_covered_only: PARAMETRIC,
    parametric.null_is_no_value: PARAMETRIC,
    parametric.texts_of_the_upstream: PARAMETRIC,
    partial_images.old_row_stays: Focus(old_rows=False),
    partial_images.old_row_stays_in_its_store: Focus(old_rows=True),
    partial_images.identity_is_the_catalogs: Focus(weights={"identity": 3}, old_rows=True),
    partial_images.omitted_values_are_null: Focus(old_rows=True),
    partial_images.key_of_a_row_known_in_part_filled: Focus(
        ("stories_by_0", "tags_by", "karma_by"), {"write": 30, "read": 40}, old_rows=False
    ),
    partial_images.unknown_rows_of_a_lookup_ignored: Focus(old_rows=False, upstreams=("postgres", "mariadb")),
    partial_images.old_row_of_a_lookup_stays: Focus(old_rows=True, upstreams=("postgres", "mariadb")),
    partial_images.old_row_of_a_load_stays: replace(LOADING, old_rows=True),
    partial_images.stale_key_of_an_old_row: Focus(("refreshed",), old_rows=False),
    partial_images.implied_rows_stay: CASCADING,
    partial_images.implied_rows_before_only: CASCADING,
    partial_images.key_of_an_implied_row_filled: replace(
        CASCADING, views=("stories_by_0", "tags_by", "comments_by"), old_rows=False
    ),
    partial_images.implied_rows_of_a_lookup_stay: replace(CASCADING, upstreams=("postgres", "mariadb")),
    partial_images.implied_rows_of_a_load_stay: replace(LOADING, cascades=True),
    partial_images.implied_rows_are_not_stale: replace(CASCADING, views=("refreshed",)),
    **dict.fromkeys(FAULT_MUTANTS, Focus(weights={"fault": 6, "resume": 0})),
    **dict.fromkeys(CHECKPOINT_MUTANTS, Focus(weights={"checkpoint": 4, "evict_some": 0.3})),
    **dict.fromkeys(ABANDONMENT_MUTANTS, Focus(weights={"cancel": 8, "heartbeat": 12})),
}
