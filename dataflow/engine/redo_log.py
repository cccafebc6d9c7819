"""Redo log of a load: the changes of its table, from its snapshot until it has its rows.

Not here: logs on disk, which the shell makes (`service.engine.initial_load.redo_file`).
"""

from collections import deque
from typing import Protocol

from dataflow.engine.events import TableDelta


class RedoLog(Protocol):
    """Changes of one table, in stream order; none truncated, none that overflowed."""

    @property
    def rows(self) -> int:
        """Rows of what was appended and not taken yet."""
        ...

    def append(self, delta: TableDelta) -> None:
        """Adds one transaction's change."""
        ...

    def take(self, rows: int) -> list[TableDelta]:
        """The oldest that are left, at least one of them and about so many rows."""
        ...

    def close(self) -> None:
        """Drops the log and its resources."""
        ...


class MemoryLog:
    """A log in memory."""

    def __init__(self) -> None:
        self._deltas: deque[TableDelta] = deque()
        self._rows = 0

    @property
    def rows(self) -> int:
        return self._rows

    def append(self, delta: TableDelta) -> None:
        self._deltas.append(delta)
        self._rows += _rows_of(delta)

    def take(self, rows: int) -> list[TableDelta]:
        taken: list[TableDelta] = []
        while self._deltas and rows > 0:
            delta = self._deltas.popleft()
            rows -= _rows_of(delta)
            self._rows -= _rows_of(delta)
            taken.append(delta)
        return taken

    def close(self) -> None:
        self._deltas.clear()
        self._rows = 0


def _rows_of(delta: TableDelta) -> int:
    return len(delta.removed) + len(delta.added) + len(delta.partial)
