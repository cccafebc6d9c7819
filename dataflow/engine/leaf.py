"""A view's node: which of its keys are covered. Its rows are in the leaf store.

Not here: views whose keys are fetched whole (`refresh_leaf`).
"""

from collections.abc import Mapping

from dataflow.engine.key_sizes import KeySizes
from dataflow.engine.nodes import SourceNode, Stored
from dataflow.plan.nodes import View
from dataflow.state.coverage import Coverage
from dataflow.state.index import key_function
from dataflow.state.intervals import Cover, OrderedCover, OrderedCoverage
from dataflow.state.materialization import grouped
from dataflow.state.ordering import Ordering
from dataflow.types import Columns, Delta, Key, NodeId, ViewId


class Leaf(Stored):
    """A view's covered keys. Its rows live in the leaf store."""

    def __init__(self, id_: NodeId, source: SourceNode, view_id: ViewId, view: View) -> None:
        super().__init__(id_, source, source.relation)
        self.view_id = view_id
        self.view = view
        self.key_of = key_function(view.key_columns, self.types)
        #: Of `view.key_columns`, or of ``()`` if there is no route for them. Set when the route is known (`cover_by`).
        self.coverage = Coverage(())
        #: How keys are covered in part; None if they are covered whole only.
        self.ordered: OrderedCover | None = None
        #: Whether the view is kept whole, from its installation on.
        self.full = True
        #: Subscriptions by key.
        self.pins: dict[Key, int] = {}
        #: What filling a key costs, on average (1.0: one lookup).
        self.refill_cost = 1.0
        self.broken: str | None = None
        #: Why it is answered upstream for a while (`engine.quarantine`).
        self.quarantine: str | None = None
        #: Whether it was in quarantine and, kept whole, has not been loaded since: reads are answered upstream still.
        self.recovering = False
        self.loaded = False
        #: If its keys have limits of their own.
        self.sizes: KeySizes | None = None

    @property
    def stopped(self) -> bool:
        """True if nothing is to be computed for it: it is broken, or in quarantine."""
        return self.broken is not None or self.quarantine is not None

    def measure(self) -> int:
        coverage = self.coverage
        return coverage.state_bytes() + coverage.text_bytes

    def cover_by(self, columns: Columns, ordered: OrderedCover | None) -> None:
        """Keys are on `columns` from now on, and covered in part by `ordered`."""
        self.full = not columns and ordered is None
        self.ordered = ordered
        if ordered is None:
            self.coverage = Coverage(columns)
        else:
            self.coverage = OrderedCoverage(columns, Ordering(ordered.order, self.types))

    def coverage_of(self, cover: Cover) -> Coverage:
        del cover
        return self.coverage

    def coverages(self) -> Mapping[Cover, Coverage]:
        return {self.coverage.columns: self.coverage}

    def covered(self, columns: Columns, key: Key) -> bool:
        del columns
        coverage = self.coverage
        if isinstance(coverage, OrderedCoverage):
            return coverage.whole(key)
        return key in coverage.keys

    def covering_key(self, key: Key) -> Key:
        """The key that must be covered for a read of `key`."""
        return () if self.full else key

    def changes(self, delta: Delta) -> dict[Key, Delta]:
        """The part of the source's change that is under covered keys, by key. A NULL parameter matches nothing."""
        covered = self.coverage.keys
        if not covered:
            return {}
        changes = grouped(delta, self.key_of)
        if self.full:
            return {key: change for key, change in changes.items() if None not in key}
        found = {key: change for key, change in changes.items() if key in covered}
        if isinstance(self.coverage, OrderedCoverage):
            held = {key: _held(self.coverage, key, change) for key, change in found.items()}
            return {key: change for key, change in held.items() if change[0] or change[1]}
        return found


def _held(coverage: OrderedCoverage, key: Key, change: Delta) -> Delta:
    """The part of a covered key's change that is in its covered intervals."""
    if coverage.whole(key):
        return change
    removed, added = ([row for row in rows if coverage.holds(key, row)] for rows in change)
    return removed, added
