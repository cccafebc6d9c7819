"""Breaking any of the engine's rules is caught."""

import pytest

from tests.fixtures.compiled import replaces_methods
from tests.simulation.mutants import (
    evictions,
    faults,
    foreign_keys,
    loads,
    lookups,
    memory,
    parametric,
    partial_images,
    propagation,
    uncertain_visibility,
)
from tests.simulation.mutants.table import MUTANTS, Mutant
from tests.simulation.runs import first_failure, replay

pytestmark = replaces_methods
#: Runs that a mutant may survive; most are caught by one of the first ten.
SEEDS = 200
ACTIONS = 800
#: Seeds that are tried first: each soon caught a mutant that few runs catch. A change of the views or of the mix makes
#: other runs of them; all seeds are tried before a mutant has survived.
CAUGHT_BY: dict[Mutant, int] = {
    evictions.no_eviction_of_what_looked_a_key_up: 20,
    propagation.new_state_on_all_sides: 35,
    evictions.padding_dropped_going_backwards: 30,
    lookups.one_snapshot_for_a_round: 28,
    lookups.install_before_the_bound: 11,
    propagation.overflow_ignored: 11,
    lookups.start_snapshot_ignored: 36,
    lookups.publication_barrier_ignored: 12,
    lookups.forwarded_while_a_table_joins: 22,
    lookups.refreshed_while_a_table_joins: 91,
    evictions.rest_of_on_forgotten_going_up: 39,
    evictions.rest_of_on_not_relevant: 122,
    evictions.condition_not_relevant: 30,
    evictions.padding_makes_no_condition_true: 11,
    propagation.rows_behind_an_interval_kept: 24,
    memory.evicted_key_filled_again: 17,
    uncertain_visibility.unsure_ones_only: 11,
    uncertain_visibility.trimmed_though_unsure: 8,
    loads.seen_logged_too: 15,
    loads.load_before_the_bound: 42,
    loads.half_a_view_is_left: 11,
    loads.gone_but_pending: 11,
    loads.pending_rows_count: 49,
    evictions.padding_leads_nowhere: 41,
    uncertain_visibility.start_covered_by_what_is_executed: 21,
    foreign_keys.new_rows_without_children: 11,
    faults.answer_of_a_view_that_failed: 87,
    partial_images.key_of_an_implied_row_filled: 87,
    partial_images.implied_rows_before_only: 198,
    faults.half_of_what_is_too_large: 35,
    memory.dropped_view_ranked: 13,
    parametric.tuples_of_one_cover: 30,
    parametric.null_is_no_value: 11,
    propagation.rows_by_their_driver_alone: 12,
    partial_images.implied_rows_of_a_lookup_stay: 23,
    partial_images.implied_rows_are_not_stale: 22,
}
#: What a mutant raises that no longer fits the engine; such a one proves nothing.
MISTAKES = ("AttributeError", "NameError", "TypeError")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_rule_is_caught(mutant: Mutant) -> None:
    seeds = sorted(range(SEEDS), key=lambda seed: seed != CAUGHT_BY.get(mutant))
    with mutant():
        caught = first_failure(seeds, ACTIONS, MUTANTS[mutant])
    assert caught is not None, f"{mutant.__name__} survived {SEEDS} runs"
    assert not caught.kind.startswith(MISTAKES), f"{mutant.__name__} does not work any more: {caught.failure}"
    assert replay(caught.configuration, caught.actions).failure is None, "what was caught is not the mutant"
