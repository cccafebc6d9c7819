"""Optimization of a plan: `RULES`, applied to every node in turn, inputs first.

*Invariants*: a rule keeps a relation's columns and, as a bag, its rows. After the last rule the plan is canonical:
equal sub-plans of different views are equal values.
"""

from dataclasses import replace

from dataflow.plan.coarser_key import with_coarser_key
from dataflow.plan.nodes import Relation, View
from dataflow.plan.rewriting import Rule, as_source, bottom_up
from dataflow.plan.rules.aggregate_early import aggregate_early
from dataflow.plan.rules.computed_conditions import computed_conditions
from dataflow.plan.rules.distribute_unions import distribute_unions
from dataflow.plan.rules.held_inputs import by_parts, keep_default_rows
from dataflow.plan.rules.join_conditions import join_conditions
from dataflow.plan.rules.merge_blocks import merge_blocks
from dataflow.plan.rules.old_rows import with_old_rows
from dataflow.plan.rules.outer_joins import simplify_outer_joins
from dataflow.plan.rules.prune_columns import prune_view
from dataflow.plan.rules.push_predicates import push_predicates
from dataflow.plan.rules.remove_top_aggregate import remove_top_aggregate
from dataflow.plan.rules.simplify_counts import simplify_counts
from dataflow.plan.rules.spread_constants import spread_constants
from dataflow.plan.rules.unused_joins import drop_unused_joins
from dataflow.plan.total_order import with_total_order
from dataflow.schema import Catalog

#: In order. The join rules come twice: removing an aggregate makes joins of joins.
RULES: tuple[Rule, ...] = (
    drop_unused_joins,
    distribute_unions,
    merge_blocks,
    simplify_outer_joins,
    spread_constants,
    computed_conditions,
    join_conditions,
    push_predicates,
    aggregate_early,
    simplify_counts,
    remove_top_aggregate,
    merge_blocks,
    simplify_outer_joins,
    join_conditions,
    push_predicates,
    keep_default_rows,
)


def optimize(view: View, catalog: Catalog) -> View:
    """The view with its plan rewritten by `RULES`, without what nobody needs. UnsupportedQuery if a join cannot be
    maintained."""
    view = prune_view(view)
    relation: Relation = view.relation
    for rule in RULES:
        relation = bottom_up(rule, relation, catalog)
    view = prune_view(with_total_order(replace(view, relation=as_source(relation)), catalog))
    view = with_coarser_key(view, catalog)
    return with_old_rows(replace(view, relation=by_parts(view.relation, view.key_columns)), catalog)
