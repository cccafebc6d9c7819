"""Keys that a plan's relations must be had by: rows that depend on what is asked for are there only if all of it is
known.

*Invariants*: in a plan that `check_keys` passes, every key that is looked up or covered of a parametric chain has all
of its parameters, and every key of an aggregate without GROUP BY all of its group columns.

Not here: routes of blocks (`routes`).
"""

from dataflow.errors import UnsupportedRoute
from dataflow.plan.nodes import Aggregate, Block, Chain, Relation, TopK, Union, View, Window
from dataflow.plan.routes import block_route, coverable, union_columns
from dataflow.schema import Catalog
from dataflow.types import Columns


def check_keys(view: View, catalog: Catalog) -> None:
    """UnsupportedQuery if a route of the view leads to rows without a part of the key that they depend on."""
    columns = view.key_columns
    _check(view.relation, columns if coverable(view.relation, columns) == columns else (), catalog)


def _check(relation: Relation, columns: Columns, catalog: Catalog) -> None:
    """`columns`: those by which `engine.graph` looks the relation up; it is covered by those that are coverable."""
    found = coverable(relation, columns)
    match relation:
        case Chain():
            if relation.parameters is not None and not found:
                raise UnsupportedRoute("No route leads from the view's key to the rows that a parameter picks.")
        case Block():
            route = block_route(relation, found, catalog)
            assert route is not None
            _check(relation.inputs[route.driver].relation, route.driver_columns, catalog)
            for step in route.steps:
                _check(relation.inputs[step.input].relation, step.columns, catalog)
        case Union():
            shared = union_columns(relation, tuple(sorted(set(found))))
            for branch in relation.inputs:
                _check(branch, shared, catalog)
        case Aggregate():
            if relation.scalar and relation.group and set(found) != set(range(len(relation.group))):
                raise UnsupportedRoute(
                    "No route leads to the one row that an aggregate without GROUP BY has for any key."
                )
            _check(relation.input, tuple(relation.group[c] for c in found), catalog)
        case Window() | TopK():
            _check(relation.input, found, catalog)
