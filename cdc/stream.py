"""What every change stream can do, whatever it comes from: the one interface that the service follows.

*Invariants* of an implementation: transactions come in commit order, each whole and once; a batch's position never goes
back, and all that committed at or before it has been delivered. After `StreamLost` a source is of no use: a new one
starts at a new snapshot.

Not here: the words of a stream (`change`), any particular stream (a folder each).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from cdc.change import Batch, TableLayout
from cdc.gtid import Gtids

#: The layouts of the followed tables by qualified name, as they are now.
Layouts = Callable[[], Mapping[str, TableLayout]]


class UpstreamSnapshot(Protocol):
    """Which transactions one statement of the upstream saw; snapshots of one upstream can be compared.

    What is neither seen nor unsure was not visible.
    """

    @property
    def exact(self) -> bool:
        """Whether nothing is unsure, whatever transaction it is."""
        ...

    def sees(self, transaction: int, end: int) -> bool:
        """Whether that transaction, whose commit ends at `end` in the stream, was visible for sure."""
        ...

    def unsure(self, transaction: int, end: int) -> bool:
        """Whether that transaction may have been visible or not."""
        ...

    def covers(self, other: Self) -> bool:
        """Whether everything that `other` may see is seen here for sure."""
        ...

    def finished(self, other: Self) -> bool:
        """Whether every transaction that was open, or older, when `other` was taken had ended."""
        ...

    def closed(self) -> Self:
        """Return the snapshot that sees every transaction that had begun, if that is more than this one sees."""
        ...


@dataclass(frozen=True, slots=True)
class StreamStart:
    """Where the stream begins. What `snapshot` does not see is in the stream, from `position` on; so may some be that
    it does see.

    `gtids`: all that ended at or before `position`, if the source says the global ids of what passes (`Batch.passed`).
    Of MySQL some may be left out that were just about to commit. `server` says which server it is, if the source knows.
    """

    position: int
    snapshot: UpstreamSnapshot
    gtids: Gtids | None = None
    server: str = ""


class ChangeStream(Protocol):
    """Committed transactions of the followed tables, in commit order. Used by one task."""

    #: The transaction that it waits for before it can begin, in words; None if none is known.
    held_up: str | None

    async def start(self) -> StreamStart:
        """Connect and begin. Raises StreamLost."""
        ...

    async def next_batch(self, max_rows: int = 1000) -> Batch:
        """Wait for something: whole transactions (up to the first that brings the rows to `max_rows`), or an advance.

        Raises StreamLost. Cancelling it loses nothing.
        """
        ...

    def request_position(self) -> None:
        """Ask how far the stream is; `next_batch` returns when that is known."""
        ...

    async def wait_followed(self) -> None:
        """Return once the tables that are to be followed by now are, from here on; or the stream is lost."""
        ...

    def acknowledge(self, position: int) -> None:
        """What ends at or before `position` will never be asked for again."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...
