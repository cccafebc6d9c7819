"""Engines in which a key stays, or goes, when what it depends on goes; see `table`."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from dataflow.engine import evictions, graph, incongruence, upquery
from dataflow.ops.block import BlockJoin


def no_eviction_on_a_forward_hole() -> AbstractContextManager[Any]:
    """An added row whose route goes on through a hole is left standing."""
    return patch.object(incongruence.Incongruence, "targets", lambda *_: [])


def no_eviction_of_what_looked_a_key_up() -> AbstractContextManager[Any]:
    """A later step's lookup key is evicted alone."""
    return patch.object(evictions, "keys_looking_up", lambda *_: [])


def no_eviction_of_what_a_key_drives() -> AbstractContextManager[Any]:
    """A driving key is evicted alone."""
    original = evictions._target_keys

    def target_keys(dependent: Any, columns: Any, *rest: Any) -> Any:
        return () if columns and dependent.position == 0 else original(dependent, columns, *rest)

    return patch.object(evictions, "_target_keys", target_keys)


@contextmanager
def padding_dropped_going_backwards() -> Iterator[None]:
    """Completing an added row backwards, a left input without a match ends the combination."""
    backwards = False
    complete, bind = incongruence.Incongruence._complete_backwards, BlockJoin.bind

    def mutant_complete(self: Any, *arguments: Any) -> Any:
        nonlocal backwards
        backwards = True
        try:
            return complete(self, *arguments)
        finally:
            backwards = False

    def mutant_bind(self: Any, step: Any, *arguments: Any) -> Any:
        return bind(self, replace(step, pads=step.pads and not backwards), *arguments)

    with (
        patch.object(incongruence.Incongruence, "_complete_backwards", mutant_complete),
        patch.object(BlockJoin, "bind", mutant_bind),
    ):
        yield


@contextmanager
def subsumption_without_own_coverage() -> Iterator[None]:
    """A key whose part is covered counts as covered, but is not."""

    def subsume(node: Any, columns: Any, holes: Any, _: Any) -> Any:
        chain = isinstance(node.source, incongruence.ChainNode)
        return node.materialization.subsumed(columns, holes) if chain else []

    with patch.object(incongruence, "subsume", subsume), patch.object(upquery, "subsume", subsume):
        yield


def rest_of_on_forgotten_going_up() -> AbstractContextManager[Any]:
    """The input that a left input depends on is taken for a match although the rest of its own ON is not TRUE."""
    return patch.object(BlockJoin, "where_matches", lambda _self, _lefts, combinations: combinations)


def rest_of_on_not_relevant() -> AbstractContextManager[Any]:
    """A row whose change makes the rest of an ON TRUE counts as one that was there before."""
    relevant = graph.relevant_columns

    def mutant(block: Any, *arguments: Any) -> Any:
        return relevant(replace(block, inputs=tuple(replace(item, on=None) for item in block.inputs)), *arguments)

    return patch.object(graph, "relevant_columns", mutant)


def padding_leads_nowhere() -> AbstractContextManager[Any]:
    """A removed row needs nothing, also where its padding makes the rest of another ON TRUE."""
    return patch.object(graph, "paddings_read", lambda *_: frozenset())


def condition_not_relevant() -> AbstractContextManager[Any]:
    """A row whose change makes a condition TRUE counts as one that was there before."""
    relevant = graph.relevant_columns
    return patch.object(graph, "relevant_columns", lambda block, *a: relevant(replace(block, predicate=None), *a))


def padding_makes_no_condition_true() -> AbstractContextManager[Any]:
    """A removed row needs nothing, also where its padding makes a condition TRUE."""
    paddings = graph.paddings_read
    return patch.object(graph, "paddings_read", lambda block, *a: paddings(replace(block, predicate=None), *a))


def no_eviction_of_what_is_joined_with_everything() -> AbstractContextManager[Any]:
    """An input of a cross join is evicted alone."""
    original = evictions._target_keys

    def target_keys(dependent: Any, columns: Any, *rest: Any) -> Any:
        steps = dependent.use.route.steps
        crossed = dependent.position and not steps[dependent.position - 1].columns
        return () if crossed else original(dependent, columns, *rest)

    return patch.object(evictions, "_target_keys", target_keys)


def branch_forgotten_in_the_cascade() -> AbstractContextManager[Any]:
    """A key of a union's input is evicted alone."""
    original = evictions.dependent_keys

    def dependent_keys(*arguments: Any) -> Any:
        return [target for target in original(*arguments) if not target[0].merges]

    return patch.object(evictions, "dependent_keys", dependent_keys)
