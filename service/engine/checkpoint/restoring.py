"""Frames of a checkpoint into an engine and its leaf store, before the engine's first transaction.

*Invariants*: records of a view are in the leaf store completely, or the engine covers none of its keys. Meanwhile
readers see whole keys, exact at the checkpoint's position, or holes.
"""

import asyncio
import marshal
import time
from collections.abc import Callable, Iterable
from typing import Any

from dataflow.engine.chunks import Chunk, Damaged, NodeBegun, NodeEnded
from dataflow.engine.effects import LeafRestored
from dataflow.engine.engine import Engine
from dataflow.engine.events import Restore
from dataflow.types import ViewId
from service.engine.checkpoint.frames import FrameKind
from service.engine.checkpoint.header import CheckpointHeader
from service.engine.checkpoint.writing import CHUNKS
from service.leaf_store.commit import StoredRecords
from service.leaf_store.writer import LeafWriter

#: The loop runs other tasks at this interval.
_TURN_S = 0.05


class CheckpointRestoration:
    """Takes frames in their order.

    *State*: `_view`, the view whose records are being taken; `_records`, how many of them have been, and `_complete`,
    that these are all; `_skips`, whether the node's chunks up to its end are left out.
    """

    def __init__(self, header: CheckpointHeader, engine: Engine, leaf: LeafWriter, changed: frozenset[str]) -> None:
        self._header = header
        self._engine = engine
        self._leaf = leaf
        self._changed = changed
        self._view: ViewId | None = None
        self._records = 0
        self._complete = False
        self._skips = False
        self.damaged = 0

    def take(self, kind: FrameKind, body: bytes | None) -> None:
        """Uses a frame; `body` is None if it is damaged."""
        if body is None:
            self._damage()
        elif kind is FrameKind.STATE:
            number, *fields = marshal.loads(body)
            self._state(CHUNKS[number](*fields))
        elif kind is FrameKind.RECORDS:
            self._take_records(*marshal.loads(body))

    def _damage(self) -> None:
        """Leaves the node out."""
        self.damaged += 1
        self._skips = True
        self._view = None
        self._step(Damaged())

    def _state(self, chunk: Chunk) -> None:
        if isinstance(chunk, NodeBegun):
            self._skips, self._view = False, None
            self._records, self._complete = 0, False
        if self._skips:
            return
        if isinstance(chunk, NodeEnded) and self._view is not None and not self._complete:
            self._damage()
            return
        self._step(chunk)

    def _step(self, chunk: Chunk) -> None:
        effects: list[Any] = []
        for effect in self._engine.step(Restore(chunk, self._changed)):
            if isinstance(effect, LeafRestored):
                self._view = effect.view
                if not self._header.stores_as(effect.former, self._leaf.encoding(effect.view)):
                    self._damage()
            else:
                effects.append(effect)
        if effects:
            self._commit(effects)

    def _take_records(self, number: int, complete: bool, records: list[tuple[bytes, bytes]]) -> None:
        if self._view is None:
            return
        self._records += len(records)
        if self._records != number:
            self._damage()
            return
        self._complete = complete
        if records:
            self._commit([StoredRecords(self._view, records)])

    def _commit(self, effects: list[Any]) -> None:
        self._leaf.commit(effects, self._header.position, self._header.at_ms, together=True)


async def restore_state(
    frames: Iterable[tuple[FrameKind, bytes | None]],
    header: CheckpointHeader,
    engine: Engine,
    leaf: LeafWriter,
    changed: frozenset[str],
    say: Callable[[int, bool], None],
) -> None:
    """Restores what the frames have; `say` gets the number of damaged frames, and whether the file was complete."""
    restoration = CheckpointRestoration(header, engine, leaf, changed)
    turned, complete = time.monotonic(), False
    for kind, body in frames:
        restoration.take(kind, body)
        complete = complete or kind is FrameKind.END
        if time.monotonic() - turned > _TURN_S:
            await asyncio.sleep(0)
            turned = time.monotonic()
    if not complete:
        restoration.take(FrameKind.STATE, None)
    say(restoration.damaged, complete)
