"""Redo logs on disk (`dataflow.engine.redo_log`): changes of a table while it is loaded.

A log is an unlinked file, so nothing remains of it however the process ends. It is created when its buffer is full, and
truncated when all of it was read.

*Invariants*: no method raises, so that the engine's step continues. A log that cannot be written or read reports the
failure, which fails its load, and is never empty afterwards, so that it never counts as finished.

Not here: the choice of changes (`dataflow.engine.backfills`).
"""

import marshal
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

from dataflow.engine.events import TableDelta
from dataflow.types import PartialChange, Row

#: Removed rows, added rows, and partial changes.
_Part = tuple[list[Row], list[Row], list[PartialChange]]

PREFIX = "upquery-redo-"
#: Size of the buffers for writing and reading, and maximum rows of a frame: a transaction may have any number.
BUFFER_BYTES = 256 << 10
FRAME_ROWS = 1000
#: Bytes and rows of the frame that follows.
_HEADER = Struct("<II")

#: Receives the error text of a failed log.
Failed = Callable[[str], None]


class RedoFile:
    """Implementation of `RedoLog`.

    *State*: `_old`, frames read from the file; `_new`, frames not yet written; the file holds the frames in between,
    from `_read_at` to `_written`.
    """

    def __init__(self, directory: Path, failed: Failed) -> None:
        self._directory = directory
        self._on_failure = failed
        self._file: int | None = None
        self._read_at = self._written = 0
        self._old: deque[bytes] = deque()
        self._new: deque[bytes] = deque()
        self._new_bytes = 0
        self._rows = 0
        self._is_broken = False

    @property
    def rows(self) -> int:
        return max(1, self._rows) if self._is_broken else self._rows

    @property
    def file_bytes(self) -> int:
        """Size of the file."""
        return self._written

    def append(self, delta: TableDelta) -> None:
        if self._is_broken:
            return
        for part in _frames(delta):
            frame = marshal.dumps(part)
            rows = _rows(part)
            self._new.append(_HEADER.pack(len(frame), rows) + frame)
            self._new_bytes += len(frame)
            self._rows += rows
        if self._new_bytes > BUFFER_BYTES:
            self._attempt(self._write, "written")

    def take(self, rows: int) -> list[TableDelta]:
        taken: list[TableDelta] = []
        while rows > 0 and not self._is_broken:
            if not self._old:
                self._attempt(self._read, "read")
            if not self._old:
                break
            frame = self._old.popleft()
            part = removed, added, partial = marshal.loads(memoryview(frame)[_HEADER.size :])
            taken.append(TableDelta(removed, added, partial=partial))
            rows -= _rows(part)
            self._rows -= _rows(part)
        return taken or [TableDelta()]

    def close(self) -> None:
        self._old.clear()
        self._new.clear()
        self._rows = 0
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _attempt(self, work: Callable[[], None], what: str) -> None:
        try:
            work()
        except (OSError, EOFError) as error:
            self._is_broken = True
            self._old.clear()
            self._new.clear()
            why = getattr(error, "strerror", None) or str(error)
            self._on_failure(
                f"The redo log of a load cannot be {what} below {self._directory}: {why}. Make room there, "
                "or set [state] directory."
            )

    def _write(self) -> None:
        if self._file is None:
            self._file = _nameless(self._directory)
        data = memoryview(b"".join(self._new))
        while data:
            n = os.pwrite(self._file, data, self._written)
            self._written += n
            data = data[n:]
        self._new.clear()
        self._new_bytes = 0

    def _read(self) -> None:
        """Reads the next frames, from the file first."""
        if self._read_at == self._written:
            self._old, self._new, self._new_bytes = self._new, self._old, 0
            if self._file is not None and self._written:
                os.ftruncate(self._file, 0)
                self._read_at = self._written = 0
            return
        assert self._file is not None
        data = os.pread(self._file, BUFFER_BYTES, self._read_at)
        wanted = _HEADER.size + _HEADER.unpack_from(data)[0] if len(data) >= _HEADER.size else _HEADER.size
        if len(data) < wanted:
            data = os.pread(self._file, wanted, self._read_at)
        if len(data) < wanted:
            raise EOFError("it is truncated")
        self._read_at += self._split(data)

    def _split(self, data: bytes) -> int:
        """Appends the complete frames in `data`; returns their number of bytes."""
        at = 0
        while len(data) - at >= _HEADER.size:
            end = at + _HEADER.size + _HEADER.unpack_from(data, at)[0]
            if end > len(data):
                break
            self._old.append(data[at:end])
            at = end
        return at


def _rows(part: _Part) -> int:
    removed, added, partial = part
    return len(removed) + len(added) + len(partial)


def _frames(delta: TableDelta) -> Iterator[_Part]:
    """Splits a delta into frames. Removed rows precede added ones; partial changes, whose identities may be those of
    rows added with them, stay together."""
    if delta.partial or len(delta.removed) + len(delta.added) <= FRAME_ROWS:
        yield delta.removed, delta.added, delta.partial
        return
    for start in range(0, len(delta.removed), FRAME_ROWS):
        yield delta.removed[start : start + FRAME_ROWS], [], []
    for start in range(0, len(delta.added), FRAME_ROWS):
        yield [], delta.added[start : start + FRAME_ROWS], []


def _nameless(directory: Path) -> int:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryFile(prefix=PREFIX, dir=directory, buffering=0) as file:
        return os.dup(file.fileno())


def remove_left(directory: Path) -> None:
    """Removes files left by a process that was killed while creating one, on systems without unnamed files."""
    for path in directory.glob(f"{PREFIX}*"):
        path.unlink(missing_ok=True)
