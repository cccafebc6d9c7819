"""State of one initial load for the shell and for progress reports.

Not here: running it (`loads`), its state in the engine (`dataflow.engine.backfills.LoadState`).
"""

from dataclasses import dataclass
from time import perf_counter

from dataflow.engine.backfills import CATCHING_UP, READING, LoadState
from dataflow.plan.nodes import table_of
from dataflow.plan.parts import Lookup


@dataclass(eq=False, slots=True)
class InitialLoad:
    """Lookup of all rows, of which there are many or an unknown number (`expected` is None)."""

    lookup: Lookup
    expected: float | None
    way: str
    started_s: float
    #: Progress of its way before the first rows.
    way_progress: str = ""
    #: Rows handed to the engine.
    rows: int = 0
    #: True once all rows are handed over.
    is_read: bool = False
    #: True once it is cancelled or has failed.
    is_over: bool = False

    @property
    def table(self) -> str:
        """Name of the table that it reads, for users."""
        return bare(table_of(self.lookup.relation))

    @property
    def duration_s(self) -> float:
        """Seconds since its start."""
        return perf_counter() - self.started_s


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Progress of a load or a derivation. A derivation has no way; `way_progress` is the way's own progress text."""

    state: LoadState
    way: str | None
    expected_rows: int | None
    seconds: float | None
    way_progress: str

    @property
    def text(self) -> str:
        """Progress as a text."""
        state = self.state
        table = "" if state.table is None else bare(state.table)
        if state.phase == READING:
            if not state.rows and self.way_progress:
                return f"{self.way_progress} ({table})"
            of = f" of about {self.expected_rows:,}" if (self.expected_rows or 0) > state.rows else ""
            return f"{state.rows:,}{of} rows of {table} read"
        if state.phase == CATCHING_UP:
            left = f"; {state.rows_left:,} changes since then are left" if state.rows_left else ""
            return f"{state.rows:,} rows of {table} read{left}"
        return f"{state.rows:,} rows joined, {state.rows_left or 0:,} are left"


def bare(table: str) -> str:
    """Returns a table's name without its schema."""
    return table.rpartition(".")[2].strip('"`')
