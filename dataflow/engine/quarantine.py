"""Quarantine: views of which a node failed in a way that the upstream does not know (a limit of Python's, memory, a
fault of ours) drop their state and are answered upstream for a while, and everything else goes on. So do views that are
kept whole and have a row for which an expression fails upstream, too.

A view comes out of quarantine after some heartbeats, and computes again what is read of it; one that is kept whole is
answered upstream until it is loaded. One that fails soon after that stays twice as long, up to a limit.

*Invariants*: a view in quarantine covers nothing and has nothing under way.

Not here: keys whose expressions fail upstream as well (`EvaluationError`, `propagation`), an engine whose own state is
wrong (`InvariantViolation`: it is built anew).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dataflow.engine.context import Context
from dataflow.engine.effects import ViewStatus
from dataflow.engine.evictions import Evictions, downstream
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import Stored
from dataflow.errors import EvaluationError

#: Characters of a reason: an error may repeat a large value.
_REASON = 200


@dataclass(slots=True)
class _Stay:
    """A view's stay. `ends` is the heartbeat of its end, `heartbeats` its length."""

    ends: int
    heartbeats: int


class Quarantine:
    """The views that are, or lately were, in quarantine."""

    def __init__(
        self,
        context: Context,
        evictions: Evictions,
    ) -> None:
        self._limits = context.limits
        self._counters = context.counters
        self._emit = context.emit
        self._evictions = evictions
        self._heartbeat = 0
        self._stays: dict[Leaf, _Stay] = {}

    def contain(self, nodes: Sequence[Stored], error: Exception) -> list[Leaf]:
        """Nodes failed, perhaps half-way through a change: they and what is computed from them forget everything, and
        the views among these go into quarantine. Broken views stay broken. Returns all of these views: the caller ends
        what is under way for them, and answers their reads upstream."""
        self._evictions.spoil(nodes)
        leaves = [node for node in downstream(nodes) if isinstance(node, Leaf)]
        kind = "" if isinstance(error, EvaluationError) else f"{type(error).__name__}: "
        self._begin(leaves, f"{kind}{error}"[:_REASON])
        return leaves

    def _begin(self, leaves: list[Leaf], reason: str) -> None:
        for leaf in leaves:
            if leaf.broken is None and leaf.quarantine is None:
                before = self._stays.get(leaf)
                longer = 1 if before is None else 2 * before.heartbeats
                heartbeats = min(longer, self._limits.quarantine_heartbeats)
                self._stays[leaf] = _Stay(self._heartbeat + heartbeats, heartbeats)
                self._counters["quarantined"] += 1
                leaf.quarantine = reason
                self._emit(ViewStatus(leaf.view_id, "quarantined", reason))

    def heartbeat(self) -> list[Leaf]:
        """The views whose quarantine ends with this heartbeat."""
        self._heartbeat += 1
        released = []
        for leaf, stay in list(self._stays.items()):
            if leaf.quarantine is not None and stay.ends <= self._heartbeat:
                leaf.quarantine, leaf.recovering = None, leaf.full
                if not leaf.full:
                    self._emit(ViewStatus(leaf.view_id, "ready"))
                released.append(leaf)
            elif leaf.quarantine is None and stay.ends + 2 * stay.heartbeats <= self._heartbeat:
                # It has been well for long enough.
                del self._stays[leaf]
        return released

    def forget(self, leaf: Leaf) -> None:
        """The view was dropped, or broke."""
        self._stays.pop(leaf, None)
        leaf.quarantine, leaf.recovering = None, False
