"""Wants of a read, by the tier of its views.

Not here: demands (`demands`, `upquery`), reads of refreshed views (`refreshed_views`).
"""

from dataclasses import dataclass, field

from dataflow.engine.events import Read
from dataflow.engine.extension import goal_of
from dataflow.engine.graph import Graph
from dataflow.engine.limits import Limits, key_bytes
from dataflow.engine.refresh_leaf import RefreshLeaf
from dataflow.engine.refreshed_views import RefreshedViews
from dataflow.engine.upquery import Want
from dataflow.types import Key


@dataclass(slots=True)
class ReadWants:
    """A read, taken apart."""

    wants: list[Want] = field(default_factory=list)
    refreshed: list[tuple[RefreshLeaf, Key]] = field(default_factory=list)
    #: Some key is not to be stored: only the upstream can answer.
    forwards: bool = False

    @property
    def tables(self) -> frozenset[str]:
        """Those of the refreshed views."""
        return frozenset[str]().union(*(leaf.tables for leaf, _ in self.refreshed))


def wants_of(event: Read, graph: Graph, refreshes: RefreshedViews, limits: Limits) -> ReadWants | None:
    """Takes a read apart; None if one of its views was dropped."""
    wanted = ReadWants()
    for view_id, key, extent in event.keys:
        leaf = graph.leaves.get(view_id)
        if leaf is not None:
            if key_bytes(key) > limits.key_bytes:
                wanted.wants.append(Want(leaf, key))
                wanted.forwards = True
            elif leaf.view.may_match(key):
                wanted.wants.append(Want(leaf, leaf.covering_key(key), goal_of(leaf, key, extent)))
            elif leaf.view.rows_for_null is None:
                wanted.wants.append(Want(leaf, key))
                wanted.forwards = True
        elif view_id in refreshes.leaves:
            wanted.refreshed.append((refreshes.leaves[view_id], key))
        else:
            return None
    return wanted
