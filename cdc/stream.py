"""The interface of every change stream.

*Obligations* of an implementation: transactions are delivered in commit order, each complete and once. A batch's
position never decreases, and every transaction that ends at or before it has been delivered. Positions are integers in
the order of commits. Values are printed as lookups print them. Errors are `StreamLost`; after one the stream is
unusable, and a new one starts at a new snapshot.

Not here: the data (`change`), implementations (a folder each).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from cdc.change import Batch, TableLayout
from cdc.gtid import Gtids

#: The layouts of the followed tables by qualified name, as they are now.
Layouts = Callable[[], Mapping[str, TableLayout]]


class UpstreamSnapshot(Protocol):
    """The transactions that one statement of the upstream saw; snapshots of one upstream can be compared.

    A transaction that is neither seen nor unsure was not visible. `dataflow.types.Snapshot` is the engine's side of
    the same protocol: neither package may import the other, and `service.engine.upstream.bridge` converts.
    """

    @property
    def exact(self) -> bool:
        """True if no transaction is unsure."""
        ...

    def sees(self, transaction: int, end: int) -> bool:
        """Return whether the transaction, whose commit ends at position `end`, was certainly visible."""
        ...

    def unsure(self, transaction: int, end: int) -> bool:
        """Return whether the transaction may or may not have been visible."""
        ...

    def covers(self, other: Self) -> bool:
        """Return whether this snapshot certainly sees every transaction that `other` may see."""
        ...

    def finished(self, other: Self) -> bool:
        """Return whether every transaction that was open, or older, when `other` was taken had ended."""
        ...

    def closed(self) -> Self:
        """Return the snapshot that sees every transaction that had begun, if that is more than this one sees."""
        ...


@dataclass(frozen=True, slots=True)
class StreamStart:
    """The start of a stream: transactions that `snapshot` does not see are in the stream, from `position` on.

    Transactions that the snapshot does see may be in the stream, too.
    """

    position: int
    snapshot: UpstreamSnapshot
    #: All transactions that ended at or before `position`, if batches carry global ids (`Batch.passed`). MySQL may
    #: leave out transactions that were about to commit.
    gtids: Gtids | None = None
    #: Identity of the server, "" if unknown.
    server: str = ""
    #: The stream continues at the place that it was given; `refusal` says why not.
    continued: bool = False
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """A place where a later stream can continue: its position, and all that identifies it, as text.

    `hidden`: snapshots may not see yet what precedes it. The place can be used once a snapshot has seen all of that.
    """

    position: int
    text: str
    hidden: bool = False


class ChangeStream(Protocol):
    """Committed transactions of the followed tables, in commit order. Used by one task.

    An implementation asks for the layouts of the followed tables before it decodes transactions, and skips the rows of
    all other tables.
    """

    #: The transaction that delays the start, as a sentence for the user; None if none is known.
    held_up: str | None

    async def start(self) -> StreamStart:
        """Connect and begin. Raises StreamLost."""
        ...

    async def next_batch(self, max_rows: int = 1000) -> Batch:
        """Wait for transactions, notices, or a later position.

        Transactions are complete: the batch ends with the first one that brings its rows to `max_rows`. Raises
        StreamLost. Cancellation loses nothing.
        """
        ...

    def request_position(self) -> None:
        """Ask how far the upstream is; `next_batch` returns once that position is reached.

        On an idle upstream the answer takes about a millisecond, since every miss waits for it.
        """
        ...

    async def wait_followed(self) -> None:
        """Return once the layouts that are valid now are in effect, or the stream is lost."""
        ...

    def acknowledge(self, position: int) -> None:
        """Allow the upstream to discard everything that ends at or before `position`."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


@runtime_checkable
class ContinuableStream(ChangeStream, Protocol):
    """A change stream that another one can continue, in another process too: each transaction is in one of the two."""

    @property
    def place(self) -> StreamPlace | None:
        """The place behind the last batch; None if no other stream can continue there."""
        ...

    async def start_at(self, place: str) -> StreamStart:
        """Begin at a place if the log certainly is the same and still has all that follows it; else as `start` does.
        Raises StreamLost."""
        ...

    async def mark_place(self) -> None:
        """Return once there is a `place`, if there can be one; a stream may have none before. Batches must be read and
        acknowledged meanwhile, and no more of the log is discarded from then on. Cancel to give up."""
        ...

    def leave(self) -> None:
        """Let the upstream keep its log from `place` on when the stream is closed."""
        ...

    def reconnect(self) -> None:
        """Replace the connection: another server answers at the upstream's address, which may have the same log."""
        ...
