"""Engines that begin with state that is not that of their position, or is not complete; see `table`."""

from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

from dataflow.engine import restoration
from dataflow.engine.chunks import NodeEnded
from dataflow.engine.engine import Engine
from dataflow.engine.events import Apply
from dataflow.engine.publication_barrier import PublicationBarrier
from dataflow.engine.ranking import Ranking
from dataflow.engine.restoration import Restoration


def position_ahead_of_state() -> AbstractContextManager[Any]:
    """The state that is written lacks the last transactions before its position."""
    apply, chunks = Engine._apply, Engine.chunks
    before: list[Any] = []

    def applying(self: Any, event: Apply) -> None:
        before[:] = chunks(self)
        apply(self, event)

    stack = ExitStack()
    stack.enter_context(patch.object(Engine, "_handling", _handling(applying)))
    stack.enter_context(patch.object(Engine, "chunks", lambda self: iter(list(before or chunks(self)))))
    return stack


def state_ahead_of_position() -> AbstractContextManager[Any]:
    """The stream goes on before the last transactions that the state has."""
    apply, restored = Engine._apply, Engine._restored
    last: list[Apply] = []
    repeats: list[bool] = []

    def applying(self: Any, event: Apply) -> None:
        if repeats and last:
            repeats.clear()
            apply(self, Apply([*last[0].transactions, *event.transactions], event.position))
        else:
            apply(self, event)
        last[:] = [event]

    def restoring(self: Any) -> None:
        restored(self)
        repeats[:] = [True]

    stack = ExitStack()
    stack.enter_context(patch.object(Engine, "_handling", _handling(applying)))
    stack.enter_context(patch.object(Engine, "_restored", restoring))
    return stack


def _handling(applying: Any) -> Any:
    handling = Engine._handling

    def with_mutant(self: Any) -> Any:
        return handling(self) | {Apply: lambda event: applying(self, event)}

    return with_mutant


def coverage_without_rows() -> AbstractContextManager[Any]:
    """Keys are covered although a chunk of their rows is missing."""
    take = Restoration._take

    def mutant(self: Any, node: Any, chunk: Any) -> None:
        if isinstance(chunk, NodeEnded):
            chunk = NodeEnded(self._keys, self._rows)
        take(self, node, chunk)

    return patch.object(Restoration, "_take", mutant)


def half_a_node_stays() -> AbstractContextManager[Any]:
    """A node of which not all could be read keeps what could be."""

    def mutant(self: Any) -> None:
        self._node = None

    return patch.object(Restoration, "_abandon", mutant)


def unsupported_keys_stay() -> AbstractContextManager[Any]:
    """A key stays covered although what its route reads is not there any more."""
    return patch.object(restoration, "is_supported", lambda *_: True)


def half_nodes_support_all() -> AbstractContextManager[Any]:
    """Keys are taken without a look at what their routes read, although not all of that is there."""
    begin = Restoration.__init__

    def mutant(self: Any, *of: Any) -> None:
        begin(self, *of)
        self._whole = _Everything()

    return patch.object(Restoration, "__init__", mutant)


class _Everything(set[Any]):
    """Pretends to contain all nodes."""

    def issuperset(self, _: Any) -> bool:
        return True


def rows_of_no_key_stay() -> AbstractContextManager[Any]:
    """Rows are taken that were known by a coverage which this engine does not have."""
    take = Restoration._take

    def mutant(self: Any, node: Any, chunk: Any) -> None:
        self._has_all = True
        take(self, node, chunk)

    return patch.object(Restoration, "_take", mutant)


def state_of_other_keys() -> AbstractContextManager[Any]:
    """A view takes the state of one that is covered by other keys."""
    begin = Restoration._begin

    def mutant(self: Any, chunk: Any) -> None:
        free = self._free.get(chunk.digest, [])
        if free and chunk.view is not None:
            leaf = free[0]
            chunk = chunk._replace(columns=leaf.coverage.columns, in_part=leaf.ordered is not None)
        begin(self, chunk)

    return patch.object(Restoration, "_begin", mutant)


def restored_keys_unranked() -> AbstractContextManager[Any]:
    """The policy does not know keys that were read from a checkpoint."""
    return patch.object(Ranking, "restored", lambda *_: None)


def place_before_what_is_visible() -> AbstractContextManager[Any]:
    """The engine stops before what it has applied is visible."""
    return patch.object(PublicationBarrier, "seen_by", lambda *_: lambda _: True)


CHECKPOINT_MUTANTS = (
    position_ahead_of_state,
    state_ahead_of_position,
    coverage_without_rows,
    half_a_node_stays,
    unsupported_keys_stay,
    half_nodes_support_all,
    rows_of_no_key_stay,
    state_of_other_keys,
    restored_keys_unranked,
    place_before_what_is_visible,
)
