"""Engines that do not contain as they should a node that fails, or a key that is too large; see `table`."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from dataflow.engine import evictions, nodes
from dataflow.engine.demands import Demands
from dataflow.engine.evictions import Evictions
from dataflow.engine.flights import Flights
from dataflow.engine.quarantine import Quarantine
from dataflow.engine.upquery import Demand


def failed_node_goes_on() -> AbstractContextManager[Any]:
    """A node's rows from before its failure count as before."""
    return patch.object(Evictions, "spoil", lambda *_: None)


def half_of_a_change_stays() -> AbstractContextManager[Any]:
    """A node that failed is emptied key by key, which takes its indexes to agree."""
    return patch.object(nodes.InnerNode, "clear", lambda *_: None)


def answer_of_a_view_that_failed() -> AbstractContextManager[Any]:
    """A read that was answered earlier in a step is left so although the view fails later in it."""
    original = Demands._met

    def met(self: Demands, demand: Demand) -> None:
        original(self, demand)
        self._answered.clear()

    return patch.object(Demands, "_met", met)


def views_above_stay_as_they_are() -> AbstractContextManager[Any]:
    """Only the node that failed forgets what it knew."""
    return patch.object(evictions, "downstream", lambda found: list(found))


def quarantine_without_end() -> AbstractContextManager[Any]:
    """Views that failed are answered upstream for ever."""
    return patch.object(Quarantine, "heartbeat", lambda _: [])


def half_of_what_is_too_large() -> AbstractContextManager[Any]:
    """Only one half of the keys of a lookup that was too large is looked up again."""

    def mutant(self: Flights, sent: Any) -> bool:
        self.repeat(self.split(sent, set(sent.keys[: len(sent.keys) // 2])))
        return True

    return patch.object(Flights, "halve", mutant)


FAULT_MUTANTS = (
    failed_node_goes_on,
    half_of_a_change_stays,
    answer_of_a_view_that_failed,
    views_above_stay_as_they_are,
    quarantine_without_end,
)
