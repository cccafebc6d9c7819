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

#: The file's first bytes; the version of the format follows, in two bytes.
MAGIC = b"upquery checkpoint\n"
#: Version of all that a file contains: frames, chunks, rows, groups, records of the leaf store. It is raised whenever
#: one of them is written otherwise (`tests/service/engine/checkpoint/test_checkpoint_format.py`).
FORMAT = 2
_VERSION = Struct(">H")
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
    """The file is no checkpoint, or one of another format or program."""


def write_frame(file: BinaryIO, kind: FrameKind, body: bytes) -> None:
    """Append a frame, whose head has checksums of the body and of itself."""
    head = _HEAD.pack(kind, len(body), crc32(body))
    file.write(head + _SUM.pack(crc32(head)) + body)


def write_magic(file: BinaryIO) -> None:
    """Write the first bytes of a file: what it is, and its format."""
    file.write(MAGIC + _VERSION.pack(FORMAT))


def _read_magic(file: BinaryIO) -> None:
    """Check the first bytes of a file. Raises `UnknownFormatError`."""
    magic, version = file.read(len(MAGIC)), file.read(_VERSION.size)
    if magic != MAGIC or len(version) < _VERSION.size:
        raise UnknownFormatError("It is no checkpoint.")
    (found,) = _VERSION.unpack(version)
    if found != FORMAT:
        raise UnknownFormatError(f"It has format {found}; this version of Upquery reads format {FORMAT}.")


def read_frames(file: BinaryIO) -> Iterator[tuple[FrameKind, bytes | None]]:
    """Yield the frames up to the end, or up to a damaged head; the body is None if it is damaged. Raises
    `UnknownFormatError`."""
    _read_magic(file)
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
