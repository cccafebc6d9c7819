"""Ways to read everything that a lookup asks for, in batches, at one snapshot.

Not here: which way is taken, and what becomes of the rows (`loading.loads`).
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.types import Position, Row, Snapshot

#: Rows of a batch, at most.
BATCH_ROWS = 2000


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a way is before it gives rows: in words, and as a share of one, if that is known."""

    text: str
    share: float | None = None


#: Is told how far it is.
Told = Callable[[Progress], None]


class OpenedWay(Protocol):
    """Rows of several lookups at one exact snapshot."""

    @property
    def snapshot(self) -> Snapshot:
        """What the rows are as of."""
        ...

    @property
    def bound(self) -> Position:
        """All that the snapshot sees is in the stream by it."""
        ...

    def batches(self, lookup: Lookup) -> AsyncIterator[list[Row]]:
        """The rows of one of the lookups, at most `BATCH_ROWS` at a time. Raises `UpstreamError`."""
        ...


class Way(Protocol):
    """One of them."""

    @property
    def name(self) -> str:
        """``direct``, ``spark``."""
        ...

    def takes(self, lookups: Sequence[Lookup], catalog: Catalog, rows: float) -> bool:
        """Whether it is to read these, which have about so many rows together."""
        ...

    def open(self, lookups: Sequence[Lookup], catalog: Catalog, told: Told) -> AbstractAsyncContextManager[OpenedWay]:
        """Read them. Raises `UpstreamError`; what it holds upstream and on disk is let go at the end."""
        ...
