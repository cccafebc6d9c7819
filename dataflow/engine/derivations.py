"""Derivations: large full materializations over a join block or a union, computed slice by slice.

Of a block, the driving input's rows that were not derived yet are *pending*. A slice takes some of them and binds the
other inputs, as they are known now; what comes of it is staged. A transaction changes, for the target, only what comes
of rows that are not pending: the others are derived later, from what is known then. So what is staged is, after every
step, exactly what comes of the driving input's rows that are not pending. Of a union, every input's rows are pending.

*Invariants*: a pending row is known; one that goes leaves what is pending after the transaction that took it, and one
that comes anew is not pending. All inputs are covered whole: when one is not any more, the derivation begins again,
even if it is filled again in the same step, since its rows may then look otherwise (a group's text).

Not here: where rows are put (`staging`), who goes on when (`backfills`), what is small enough for one step (`upquery`).
"""

from abc import ABCMeta, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dataflow.engine.context import Context
from dataflow.engine.flights import FlightKey
from dataflow.engine.nodes import BlockNode, InnerNode, Merge, RouteUse, Stored, UnionNode
from dataflow.engine.staging import OperatorTwin, Staged, Staging, Twin
from dataflow.errors import InvariantViolation, contained
from dataflow.ops.block import Combination, InputChange
from dataflow.state.materialization import as_bag, consolidate
from dataflow.types import Delta, NodeId, Row

#: Driving rows that are taken at once; each may find many others.
_AT_ONCE = 256
#: What a pending row takes beside the row.
_PENDING_BYTES = 100


class Supply(metaclass=ABCMeta):
    """The rows of a block or a union, all of whose inputs are covered whole, as far as they are derived."""

    #: Each once.
    inputs: Sequence[InnerNode]
    #: Pending rows that have gone.
    gone = 0

    @property
    @abstractmethod
    def pending(self) -> int:
        """How many rows of inputs were not derived yet."""

    @abstractmethod
    def take(self, rows: int) -> list[Row]:
        """Derives pending rows, as many as give about `rows` rows; returns these."""

    @abstractmethod
    def delta(self, deltas: Mapping[NodeId, Delta], changes: Sequence[InputChange | None]) -> Delta:
        """The change of what is derived, given the inputs'; pending rows that have gone are pending no more."""

    @abstractmethod
    def derived(self) -> list[Row]:
        """All that comes of rows that are not pending; for tests."""

    @abstractmethod
    def check(self) -> None:
        """Asserts that what is pending is known; for tests."""


class BlockSupply(Supply):
    """The rows of a join block, along a full route."""

    def __init__(self, use: RouteUse) -> None:
        self._use = use
        self._join = use.block.join
        self._driver = use.route.driver
        self.inputs = tuple(dict.fromkeys(use.block.inputs))
        # A copy of a dictionary, which takes no look at its rows.
        self._pending: dict[Row, int] = dict(self._known())

    def _known(self) -> Mapping[Row, int]:
        return self._join.known(self._driver, (), ())

    @property
    def pending(self) -> int:
        return len(self._pending)

    def take(self, rows: int) -> list[Row]:
        found: list[Row] = []
        taken, known = 0, self._known()
        while self._pending and max(taken, len(found)) < rows:
            some = [self._pending.popitem()[0] for _ in range(min(len(self._pending), _AT_ONCE, rows - taken))]
            taken += len(some)
            found += self._bound({row: known[row] for row in some})
        return found

    def _bound(self, driving: Mapping[Row, int]) -> list[Row]:
        combinations = self._use.start(driving)
        for position in range(1, len(self._use.covers)):
            combinations = self._use.bind(position, combinations)
        return self._join.rows(combinations)

    def counts(self, combination: Combination) -> bool:
        """Return whether a combination's driving row is not pending."""
        return combination[self._driver] not in self._pending

    def delta(self, deltas: Mapping[NodeId, Delta], changes: Sequence[InputChange | None]) -> Delta:
        change = self._join.delta(changes, counts=self.counts)
        driven = deltas.get(self._use.block.inputs[self._driver].id)
        if driven is not None:
            self.forget(driven[0])
        return change

    def forget(self, removed: list[Row]) -> None:
        """Rows of the driving input went; those of which none is left are not pending any more."""
        known = self._known()
        for row in removed:
            if row not in known and self._pending.pop(row, None) is not None:
                self.gone += 1

    def derived(self) -> list[Row]:
        return self._bound({row: times for row, times in self._known().items() if row not in self._pending})

    def check(self) -> None:
        if not self._known().keys() >= self._pending.keys():
            raise InvariantViolation("a row is pending that is not known")


class UnionSupply(Supply):
    """The rows of a union."""

    def __init__(self, union: UnionNode) -> None:
        self._union = union
        self.inputs = tuple(dict.fromkeys(union.inputs))
        #: By position.
        self._pending: list[dict[Row, int]] = [dict(_all_of(node)) for node in union.inputs]

    @property
    def pending(self) -> int:
        return sum(map(len, self._pending))

    def take(self, rows: int) -> list[Row]:
        found: list[Row] = []
        for node, pending in zip(self._union.inputs, self._pending, strict=True):
            known = _all_of(node)
            while pending and len(found) < rows:
                row, _ = pending.popitem()
                found += [row] * known[row]
        return found

    def delta(self, deltas: Mapping[NodeId, Delta], changes: Sequence[InputChange | None]) -> Delta:
        del changes
        removed: list[Row] = []
        added: list[Row] = []
        for node, pending in zip(self._union.inputs, self._pending, strict=True):
            gone, come = deltas.get(node.id, ((), ()))
            removed += self.changed(gone, pending)
            added += self.changed(come, pending)
            self._forget(node, pending, gone)
        return consolidate((removed, added))

    def changed(self, rows: Sequence[Row], pending: dict[Row, int]) -> list[Row]:
        """Those of an input's rows that count already."""
        return [row for row in rows if row not in pending]

    def _forget(self, node: InnerNode, pending: dict[Row, int], removed: Sequence[Row]) -> None:
        known = _all_of(node)
        for row in removed:
            if row not in known:
                self.gone += pending.pop(row, None) is not None

    def derived(self) -> list[Row]:
        return [
            row
            for node, pending in zip(self._union.inputs, self._pending, strict=True)
            for row, times in _all_of(node).items()
            if row not in pending
            for _ in range(times)
        ]

    def check(self) -> None:
        for node, pending in zip(self._union.inputs, self._pending, strict=True):
            if not _all_of(node).keys() >= pending.keys():
                raise InvariantViolation("a row is pending that is not known")


def _all_of(node: InnerNode) -> Mapping[Row, int]:
    """The known rows of an input that is covered whole."""
    return node.materialization.indexes[()].get(())


class Derivation:
    """One target that is being derived."""

    def __init__(self, node: Stored, supply: Supply, staged: Staged, counters: "Counter[str]") -> None:
        self.node = node
        self.supply = supply
        self.staged = staged
        self._counters = counters
        #: Rows that were derived.
        self.rows = 0

    @property
    def flight(self) -> FlightKey:
        """The flight that stands for it, as if it were a lookup."""
        return flight_of(self.node)

    def follow(self, total: Delta, deltas: Mapping[NodeId, Delta], changes: Sequence[InputChange | None]) -> None:
        """A transaction changed inputs; `total` is what that makes of all rows."""
        if self.supply.pending:
            change = self.supply.delta(deltas, changes)
            self._counters["pending_filtered"] += (len(change[0]), len(change[1])) != (len(total[0]), len(total[1]))
        else:
            change = total
        if change[0] or change[1]:
            self.staged.stage(change)

    def work(self, rows: int) -> bool:
        """Goes on by about so many rows; whether everything is covered now."""
        if self.supply.pending:
            found = self.supply.take(rows)
            self.rows += len(found)
            if found:
                self.staged.stage(([], found))
        if self.supply.pending or not self.staged.settle(rows):
            return False
        self.staged.end()
        self._counters["derived"] += 1
        self._counters["pending_gone"] += self.supply.gone
        return True

    def state_bytes(self) -> int:
        """About what is pending and staged takes."""
        return _PENDING_BYTES * self.supply.pending + self.staged.state_bytes()

    def check(self) -> None:
        """Asserts that what is staged is what comes of what is not pending; for tests."""
        for node in self.supply.inputs:
            if not node.covered((), ()):
                raise InvariantViolation(f"node {self.node.id} is derived from {node.id}, which is not covered whole")
        self.supply.check()
        self.staged.check()
        if isinstance(self.staged, OperatorTwin):
            return
        if isinstance(self.staged, Twin) and self.staged.twin.materialization.bag() != as_bag(self.supply.derived()):
            raise InvariantViolation(f"what is staged of node {self.node.id} is not what was derived")


class Derivations:
    """All derivations under way."""

    def __init__(self, context: Context, staging: Staging) -> None:
        self._limits = context.limits
        self._counters = context.counters
        self._staging = staging
        self.under_way: dict[NodeId, Derivation] = {}
        #: Flights of those that were abandoned: who waits for them has to ask again.
        self._lost: dict[FlightKey, None] = {}

    def begin(self, node: Stored, over: RouteUse | Merge) -> bool:
        """Begins to derive a node, all of whose source's inputs are covered whole; False if that is little enough for
        one step."""
        if isinstance(over, RouteUse):
            rows = len(over.block.join.known(over.route.driver, (), ()))
        else:
            rows = sum(len(_all_of(input_)) for input_ in over.union.inputs)
        if rows <= self._limits.derive_rows:
            return False
        staged = self._staging.staged_for(node)
        if staged is None:
            return False
        supply: Supply = BlockSupply(over) if isinstance(over, RouteUse) else UnionSupply(over.union)
        self.under_way[node.id] = Derivation(node, supply, staged, self._counters)
        return True

    def over(self, source: BlockNode | UnionNode) -> Iterator[Derivation]:
        """Derivations under way from a block or a union."""
        if self.under_way:
            for child in source.children:
                derivation = self.under_way.get(child.id)
                if derivation is not None:
                    yield derivation

    def follow(
        self,
        source: BlockNode | UnionNode,
        total: Delta,
        deltas: Mapping[NodeId, Delta],
        changes: Sequence[InputChange | None],
    ) -> None:
        """A transaction changed inputs of a block or a union."""
        for derivation in list(self.over(source)):
            try:
                derivation.follow(total, deltas, changes)
            except Exception as error:
                contained(error)
                self.abandon(derivation)

    def reads(self, node: Stored) -> bool:
        """Return whether something is being derived from a node."""
        return any(node in derivation.supply.inputs for derivation in self.under_way.values())

    def lost(self, node: Stored) -> None:
        """A node is not covered whole any more, or is a step behind: what is derived from it, or is to become it,
        begins again."""
        for derivation in list(self.under_way.values()):
            if derivation.node is node or node in derivation.supply.inputs:
                self.abandon(derivation)

    def abandon(self, derivation: Derivation) -> None:
        """Ends a derivation without a result; demands that wait for it attempt again."""
        del self.under_way[derivation.node.id]
        self._counters["derivation_abandoned"] += 1
        derivation.staged.abandon()
        self._lost[derivation.flight] = None

    def forget(self, node: Stored) -> None:
        """The node has gone, or is there."""
        self.under_way.pop(node.id, None)

    def take_lost(self) -> list[FlightKey]:
        """The flights of what was abandoned since it was asked last."""
        lost, self._lost = list(self._lost), {}
        return lost


def flight_of(node: Stored) -> FlightKey:
    """Names the flight that stands for a node's derivation."""
    return (node.id, (), (), None)
