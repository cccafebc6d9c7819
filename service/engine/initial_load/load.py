"""One load, as the shell knows it: what is read, how, and what can be said of it.

Not here: running it (`loads`), what the engine knows of it (`dataflow.engine.backfills.LoadState`).
"""

from dataclasses import dataclass
from time import perf_counter

from dataflow.engine.backfills import CATCHING_UP, READING, LoadState
from dataflow.plan.nodes import table_of
from dataflow.plan.parts import Lookup


@dataclass(eq=False, slots=True)
class InitialLoad:
    """A lookup of everything that has many rows, or nobody knows how many (`expected` is None)."""

    lookup: Lookup
    expected: float | None
    way: str
    started_s: float
    #: What its way says before there are rows.
    told: str = ""
    #: Rows that were handed to the engine.
    rows: int = 0
    #: Whether that were all.
    is_read: bool = False
    #: Whether nobody wants it any more, or it has failed.
    is_over: bool = False

    @property
    def table(self) -> str:
        """What it reads, as people call it."""
        return bare(table_of(self.lookup.relation))

    @property
    def duration_s(self) -> float:
        """Since its beginning."""
        return perf_counter() - self.started_s


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load or a derivation is, for whoever asks. A derivation has no way; `told` is what the way says."""

    state: LoadState
    way: str | None
    expected_rows: int | None
    seconds: float | None
    told: str

    @property
    def text(self) -> str:
        """In words."""
        state = self.state
        table = "" if state.table is None else bare(state.table)
        if state.phase == READING:
            if not state.rows and self.told:
                return f"{self.told} ({table})"
            of = f" of about {self.expected_rows:,}" if (self.expected_rows or 0) > state.rows else ""
            return f"{state.rows:,}{of} rows of {table} read"
        if state.phase == CATCHING_UP:
            left = f"; {state.rows_left:,} changes since then are left" if state.rows_left else ""
            return f"{state.rows:,} rows of {table} read{left}"
        return f"{state.rows:,} rows joined, {state.rows_left or 0:,} are left"


def bare(table: str) -> str:
    """A table's name without its schema."""
    return table.rpartition(".")[2].strip('"`')
