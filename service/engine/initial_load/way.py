"""Interface of the ways to read all rows of lookups, in batches, at one snapshot.

Not here: the choice of a way, and the use of the rows (`loads`).
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.types import Position, Row, Snapshot

#: Maximum rows of a batch.
BATCH_ROWS = 2000


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a way before its first rows: a text, and a fraction if known."""

    text: str
    share: float | None = None


#: Receives the progress of a way.
ProgressReport = Callable[[Progress], None]


class OpenedWay(Protocol):
    """Rows of several lookups at one exact snapshot."""

    @property
    def snapshot(self) -> Snapshot:
        """Snapshot of the rows."""
        ...

    @property
    def bound(self) -> Position:
        """Position by which everything that the snapshot sees is in the stream."""
        ...

    def batches(self, lookup: Lookup) -> AsyncIterator[list[Row]]:
        """Yields the rows of one lookup, at most `BATCH_ROWS` at a time. Raises `UpstreamError`."""
        ...


class Way(Protocol):
    """Way to read initial loads."""

    @property
    def name(self) -> str:
        """Name in logs and statistics: ``direct``, ``spark``."""
        ...

    def takes(self, lookups: Sequence[Lookup], catalog: Catalog, rows: float) -> bool:
        """Returns whether it accepts these lookups, which have about `rows` rows together."""
        ...

    def open(
        self, lookups: Sequence[Lookup], catalog: Catalog, report: ProgressReport
    ) -> AbstractAsyncContextManager[OpenedWay]:
        """Reads the lookups; releases its upstream and disk resources at the end of the block. Raises
        `UpstreamError`."""
        ...
