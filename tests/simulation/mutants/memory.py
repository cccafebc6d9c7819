"""Engines that evict the wrong key, or fill it again; see `table`."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from dataflow.engine import budget
from dataflow.engine.demands import Demands
from dataflow.engine.evictions import Evictions
from dataflow.engine.ranking import Ranking
from dataflow.engine.refills import Refills


def pinned_key_chosen() -> AbstractContextManager[Any]:
    """A subscription does not keep its key from being chosen."""
    return patch.object(Ranking, "pinned", lambda *_: None)


def unpinned_key_never_chosen() -> AbstractContextManager[Any]:
    """A key whose subscription has ended stays for ever."""
    return patch.object(Ranking, "unpinned", lambda *_: None)


def forgotten_key_ranked() -> AbstractContextManager[Any]:
    """The policy goes on with keys that have gone."""
    return patch.object(Ranking, "lost", lambda *_: False)


def dropped_view_ranked() -> AbstractContextManager[Any]:
    """The policy goes on with the keys of a view that has gone."""
    return patch.object(Ranking, "dropped", lambda *_: None)


def needed_key_released() -> AbstractContextManager[Any]:
    """An inner key goes with a leaf's key although another one needs it."""
    return patch.object(Evictions, "has_dependents", lambda *_: False)


def needed_key_forgotten_alone() -> AbstractContextManager[Any]:
    """An inner key is evicted without its dependents if memory is short."""
    release = budget.Budget._release_if_unused

    def mutant(self: Any, node: Any, columns: Any, key: Any) -> Any:
        if release(self, node, columns, key) or not node.holds(columns, key):
            return True
        node.forget(columns, key)
        return True

    return patch.object(budget.Budget, "_release_if_unused", mutant)


def evicted_key_filled_again() -> AbstractContextManager[Any]:
    """A hot key that was evicted on purpose is looked up again."""
    return patch.object(Refills, "forget_hot", lambda _: None)


def refill_of_a_dropped_view() -> AbstractContextManager[Any]:
    """A hot key is still wanted when its view has gone."""
    fail = Demands.fail

    def mutant(self: Any, demand: Any, reason: str, retryable: bool) -> None:
        if not demand.hot or "dropped" not in reason:
            fail(self, demand, reason, retryable)

    return patch.object(Demands, "fail", mutant)
