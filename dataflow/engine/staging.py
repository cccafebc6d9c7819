"""Staging of full materializations: rows that nobody reads yet, of which nothing is covered.

A store, a grouping or partitions have a *twin*, a node of their kind that is in no graph and that everything goes into;
at the end its rows take the place of what the node knew, which are some of them. A full leaf has no rows here: they are
written to the leaf store as they come, where nobody looks before the view is ready.

*Invariants*: what is staged changes in the order of the stream, so what goes was there; a group, or a partition, is put
into words (its output is computed) only when all of its rows are as they are now, since an expression may fail for what
it was in between.

Not here: where rows come from (`loads`, `derivations`).
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from dataflow.engine.effects import Effect, LeafChange, LeafEvict, LeafFillAll, LeafLoaded, ViewStatus
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import GroupingNode, InnerNode, OperatorNode, PartitionNode, Store, Stored
from dataflow.engine.ranking import ROW_COST, Ranking
from dataflow.errors import InvariantViolation
from dataflow.sizing import BUCKET_BYTES, sampled_bytes
from dataflow.state.materialization import grouped
from dataflow.types import Delta, Key, Row

NodeT = TypeVar("NodeT", bound=InnerNode)
OperatorT = TypeVar("OperatorT", bound=OperatorNode)


class Staged(metaclass=ABCMeta):
    """Rows of a node's source that are to be all there are."""

    @abstractmethod
    def stage(self, delta: Delta) -> None:
        """Rows of the source went and came."""

    def stage_found(self, rows: list[Row]) -> None:
        """Rows that a lookup found."""
        self.stage(([], rows))

    def settle(self, rows: int) -> bool:
        """Goes on by about so many rows with what was put off; whether nothing is left of that."""
        del rows
        return True

    @property
    def unsettled(self) -> int:
        """About how much was put off."""
        return 0

    @abstractmethod
    def end(self) -> None:
        """All is there and settled: the node covers everything from now on."""

    @abstractmethod
    def abandon(self) -> None:
        """Drops the rows; the node goes on without them."""

    def state_bytes(self) -> int:
        """About what it takes."""
        return 0

    @abstractmethod
    def check(self) -> None:
        """Asserts what can be seen from inside; for tests."""


class Twin(Staged, Generic[NodeT]):
    """A node in the making, beside the one whose place it will take."""

    def __init__(self, node: NodeT, twin: NodeT) -> None:
        self.node = node
        self.twin = twin
        twin.materialization.require_coverage(()).add(())
        self._follow()

    def _follow(self) -> None:
        """The twin has every index that the node has; views that are installed meanwhile ask that for more."""
        indexes = self.twin.materialization.indexes
        for columns in self.node.materialization.indexes:
            if columns not in indexes:
                self.twin.materialization.require_index(columns)

    def stage(self, delta: Delta) -> None:
        self._follow()
        self.twin.absorb(delta, False)

    def end(self) -> None:
        self._follow()
        self._take_over()
        self.node.materialization.coverage[()].add(())
        self.node.counts.filled += 1

    def _take_over(self) -> None:
        self.node.materialization.take_over(self.twin.materialization)

    def abandon(self) -> None:
        """Nobody knows of it."""

    def state_bytes(self) -> int:
        return self.twin.state_bytes()

    def check(self) -> None:
        self.twin.materialization.check()


class OperatorTwin(Twin[OperatorT]):
    """The twin of what makes something of rows: the output is computed at the end, group by group."""

    def __init__(self, node: OperatorT, twin: OperatorT) -> None:
        super().__init__(node, twin)
        #: Groups, or partitions, whose output is to be computed (again).
        self._changed: dict[Key, None] = dict.fromkeys(twin.operator.always())

    def stage(self, delta: Delta) -> None:
        for sign, rows in ((-1, delta[0]), (1, delta[1])):
            self._note(self.twin.operator.stage(rows, sign), len(rows))

    def stage_found(self, rows: list[Row]) -> None:
        self._note(self.twin.operator.stage_found(rows), len(rows))

    def _note(self, changed: dict[Key, None], rows: int) -> None:
        self._changed.update(changed)
        self.twin.counts.rows_applied += rows

    def settle(self, rows: int) -> bool:
        self._follow()
        while self._changed and rows > 0:
            rows -= self.twin.operator.publish_one(self._changed.popitem()[0])
            self.twin.counts.rows_applied += 1
        return not self._changed

    @property
    def unsettled(self) -> int:
        return len(self._changed)

    def state_bytes(self) -> int:
        return super().state_bytes() + BUCKET_BYTES // 2 * len(self._changed)

    def check(self) -> None:
        super().check()
        if not self._changed:
            self.twin.operator.check()


class GroupsTwin(OperatorTwin[GroupingNode]):
    """The twin of a grouping."""

    def _take_over(self) -> None:
        self.node.grouping.take_over(self.twin.grouping)


class PartitionsTwin(OperatorTwin[PartitionNode]):
    """The twin of what holds partitions."""

    def _take_over(self) -> None:
        self.node.partitioned.take_over(self.twin.partitioned)


class StagedLeaf(Staged):
    """A full view's rows go to the leaf store as they come."""

    def __init__(self, leaf: Leaf, ranking: Ranking, effects: Callable[[Effect], None]) -> None:
        self._leaf = leaf
        self._ranking = ranking
        self._emit = effects
        self._rows = self._bytes = 0
        effects(LeafFillAll(leaf.view_id, {}))

    def stage(self, delta: Delta) -> None:
        changes = {key: change for key, change in grouped(delta, self._leaf.key_of).items() if None not in key}
        if changes:
            self._emit(LeafChange(self._leaf.view_id, changes))
        self._rows += len(delta[1]) - len(delta[0])
        self._bytes += sampled_bytes(delta[1]) - sampled_bytes(delta[0])

    def end(self) -> None:
        leaf = self._leaf
        leaf.coverage.add(())
        leaf.counts.filled += 1
        self._ranking.filled(leaf, (), (), 1 + self._rows * ROW_COST)
        leaf.coverage.keys[()] = max(0, self._bytes)
        self._emit(LeafLoaded(leaf.view_id))
        say_ready(leaf, self._emit)

    def abandon(self) -> None:
        self._emit(LeafEvict(self._leaf.view_id, ()))

    def check(self) -> None:
        if self._leaf.coverage.keys or self._leaf.broken is not None:
            raise InvariantViolation(f"view {self._leaf.view_id} is being written although it is covered, or broken")


def say_ready(leaf: Leaf, emit: Callable[[Effect], None]) -> None:
    """A full view has all its rows."""
    if not leaf.loaded:
        leaf.loaded, leaf.recovering = True, False
        emit(ViewStatus(leaf.view_id, "ready"))


class Staging:
    """Begins what is kept whole."""

    def __init__(self, ranking: Ranking, effects: Callable[[Effect], None]) -> None:
        self._ranking = ranking
        self._emit = effects

    def staged_for(self, node: Stored) -> Staged | None:
        """Begins the staging of a node's rows; None for a leaf that is not full."""
        if isinstance(node, Store):
            return Twin(node, Store(node.id, node.source))
        if isinstance(node, GroupingNode):
            return GroupsTwin(node, GroupingNode(node.id, node.source, node.relation, staged=True))
        if isinstance(node, PartitionNode):
            return PartitionsTwin(node, PartitionNode(node.id, node.source, node.relation))
        if isinstance(node, Leaf) and node.full:
            return StagedLeaf(node, self._ranking, self._emit)
        return None
