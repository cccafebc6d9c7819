"""Frames of a checkpoint's file: kind, length, checksums, body. Pure but for the file's `read` and `write`.

*Invariants*: a body is returned only if its checksum is right. A damaged body costs one frame; a frame whose head is
damaged or truncated ends the file.

Not here: the bodies (`header`, `writing`, `restoring`).
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import BinaryIO
from zlib import crc32

#: The file's first bytes; the last two are the version of this format.
MAGIC = b"upquery checkpoint\n\x00\x01"
#: Kind, length and checksum of the body; the checksum of these follows.
_HEAD = Struct(">BII")
_SUM = Struct(">I")
#: Maximum bytes of a body; a larger length is damage.
MOST_BYTES = 1 << 30


class FrameKind(IntEnum):
    """Contents of a frame."""

    HEADER = 1
    #: A chunk of the engine's state.
    STATE = 2
    #: Records of the leaf store, of the view whose state follows.
    RECORDS = 3
    #: The file is complete.
    END = 4
    #: Keys without rows; in a file of their own (`service.engine.workload.hot_keys`).
    HOT_KEYS = 5


class UnknownFormatError(ValueError):
    """The file is no checkpoint, or one of another version."""


def write_frame(file: BinaryIO, kind: FrameKind, body: bytes) -> None:
    """Append a frame, whose head has checksums of the body and of itself."""
    head = _HEAD.pack(kind, len(body), crc32(body))
    file.write(head + _SUM.pack(crc32(head)) + body)


def read_frames(file: BinaryIO) -> Iterator[tuple[FrameKind, bytes | None]]:
    """Yield the frames up to the end, or up to a damaged head; the body is None if it is damaged. Raises
    `UnknownFormatError`."""
    if file.read(len(MAGIC)) != MAGIC:
        raise UnknownFormatError("It is no checkpoint of format 1.")
    while True:
        head = file.read(_HEAD.size + _SUM.size)
        if len(head) < _HEAD.size + _SUM.size or crc32(head[: _HEAD.size]) != _SUM.unpack_from(head, _HEAD.size)[0]:
            return
        kind, size, checksum = _HEAD.unpack_from(head)
        if size > MOST_BYTES or kind not in FrameKind.__members__.values():
            return
        body = file.read(size)
        if len(body) < size:
            return
        yield FrameKind(kind), body if crc32(body) == checksum else None
