"""Walks of routes: the combinations that a key's route has bound so far.

A walk goes on where it met holes, so nothing is bound twice while their lookups are on their way. Fills do not disturb
it, since they add rows under other keys only. It must not go on once an input has changed or has lost a key.

Not here: which lookups are covered, and the filling of holes (`upquery`).
"""

from collections.abc import Callable, Mapping

from dataflow.engine.nodes import RouteUse
from dataflow.ops.block import Combination
from dataflow.types import Key, Row

#: Binds the input at a position of a route, of which the driving rows have a key if it is not None. Returns the
#: combinations whose lookup there is a hole, and what becomes of the others.
Bind = Callable[[RouteUse, int, list[Combination], Key | None], tuple[list[Combination], list[Combination]]]


class Walk:
    """The walk of a route from rows of its driving input.

    *State*: `_waiting` has the combinations whose lookup at each position was not covered, and last, those that are
    complete.
    """

    __slots__ = ("_changes", "_key", "_use", "_waiting")

    def __init__(self, use: RouteUse, driving: Mapping[Row, int], key: Key | None) -> None:
        """`key`: that of all driving rows, if they have one."""
        self._use = use
        self._key = key
        self._waiting: list[list[Combination]] = [[] for _ in use.covers]
        self._waiting[0] = use.start(driving)
        self._changes = self._inputs_changes()

    def _inputs_changes(self) -> list[int]:
        return [node.changes for node in self._use.block.inputs]

    @property
    def is_current(self) -> bool:
        """True if all that was bound is as it was then."""
        return self._changes == self._inputs_changes()

    def go_on(self, bind: Bind) -> bool:
        """Binds inputs as far as lookups are covered. Return whether all combinations are complete."""
        waiting = self._waiting
        for position in range(1, len(waiting)):
            waiting[position - 1], bound = bind(self._use, position, waiting[position - 1], self._key)
            waiting[position] += bound
        return not any(waiting[:-1])

    def rows(self) -> list[Row]:
        """The block's rows of complete combinations."""
        return self._use.block.join.rows(self._waiting[-1])

    @property
    def combinations(self) -> int:
        """How many combinations wait, or are complete."""
        return sum(map(len, self._waiting))
