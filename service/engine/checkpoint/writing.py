"""State of an engine and of its leaf store as frames of a file."""

import asyncio
import marshal
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from dataflow.engine.chunks import Chunk, CoveredKeys, Damaged, NodeBegun, NodeEnded, NodeGroups, NodeRows, RankedKeys
from dataflow.engine.engine import Engine
from dataflow.types import ViewId
from service.engine.checkpoint.frames import MOST_BYTES, FrameKind, write_frame, write_magic
from service.engine.checkpoint.header import CheckpointHeader
from service.leaf_store.layout import is_entry
from service.leaf_store.writer import LeafWriter

#: Kinds of chunks; the place of one is its number in a file.
CHUNKS: tuple[type[Chunk], ...] = (NodeBegun, CoveredKeys, NodeRows, NodeGroups, NodeEnded, RankedKeys, Damaged)
#: Records of the leaf store in a frame, and those that complete its last key.
_RECORDS = 1024
#: The loop runs other tasks at this interval.
_TURN_S = 0.05
_Frame = tuple[FrameKind, bytes]


async def write_state(
    file: BinaryIO, header: CheckpointHeader, engine: Engine, leaf: LeafWriter, limit_s: float
) -> bool:
    """Writes the state, or as many nodes as the time allows; returns whether it is all. The engine must not step
    meanwhile."""
    began = turned = time.monotonic()
    write_magic(file)
    write_frame(file, FrameKind.HEADER, header.body())
    for kind, body in _frames(engine, leaf):
        write_frame(file, kind, body)
        now = time.monotonic()
        if now - began > limit_s:
            return False
        if now - turned > _TURN_S:
            await asyncio.sleep(0)
            turned = time.monotonic()
    write_frame(file, FrameKind.END, b"")
    return True


def _frames(engine: Engine, leaf: LeafWriter) -> Iterator[_Frame]:
    for chunk in engine.chunks():
        yield from _frame(FrameKind.STATE, (CHUNKS.index(type(chunk)), *chunk))
        if isinstance(chunk, NodeBegun) and chunk.view is not None:
            yield from _records(leaf, ViewId(chunk.view))


def _records(leaf: LeafWriter, view: ViewId) -> Iterator[_Frame]:
    """Yields a view's records in frames of whole keys, since readers see one frame after the other when it is restored.

    A view that is kept whole may be one large key, but is not read before it is restored, so it is divided anywhere.
    """
    number, some = 0, list[tuple[bytes, bytes]]()
    full = False
    for record in leaf.records(view):
        # The mark of a full view is its first record.
        full = full or not record[0]
        if len(some) >= _RECORDS and (full or is_entry(record[1])):
            yield from _frame(FrameKind.RECORDS, (number, False, some))
            some = []
        number += 1
        some.append(record)
    if some:
        yield from _frame(FrameKind.RECORDS, (number, False, some))
    yield from _frame(FrameKind.RECORDS, (number, True, []))


def _frame(kind: FrameKind, value: tuple[Any, ...]) -> Iterator[_Frame]:
    """Yields a frame; none of a value that is too large, so that its node is incomplete."""
    with suppress(ValueError):
        body = marshal.dumps(value)
        if len(body) <= MOST_BYTES:
            yield kind, body
