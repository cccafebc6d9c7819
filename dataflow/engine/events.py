"""Inputs of an engine: each is one call of `Engine.step`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dataflow.engine.chunks import Chunk
from dataflow.engine.key_sizes import UNLIMITED, KeyLimits
from dataflow.plan.nodes import View
from dataflow.plan.parts import START, Cut, Interval
from dataflow.plan.refresh import RefreshView
from dataflow.types import (
    Columns,
    Key,
    LookupId,
    PartialChange,
    Position,
    ReadId,
    RefreshId,
    Row,
    Snapshot,
    TransactionId,
    ViewId,
)


@dataclass(slots=True)
class TableDelta:
    """Net change of one table by one transaction: full rows, in the table's column order.

    `partial` has the rows from before whose old values the stream does not carry; `removed` is empty then.
    `implied` has rows that are known in part: any rows that agree with one of them may have been removed, changed or
    added, which the stream does not carry.
    With `truncated`, all rows from before are gone and `added` is what came afterwards (the others are empty).
    With `overflow`, the transaction was too large to carry its rows: all lists are empty and anything may have changed.
    """

    removed: list[Row] = field(default_factory=list)
    added: list[Row] = field(default_factory=list)
    truncated: bool = False
    overflow: bool = False
    partial: list[PartialChange] = field(default_factory=list)
    implied: list[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A committed upstream transaction: its id, where its commit ends in the stream, and its changes by table."""

    id: TransactionId
    end: Position
    tables: dict[str, TableDelta]


@dataclass(frozen=True, slots=True)
class StreamStarted:
    """The stream begins at `position`; `snapshot` sees all that was committed before, and perhaps some of what comes.

    Must be the first event, and comes again after continuity was lost: everything is then evicted.
    """

    position: Position
    snapshot: Snapshot
    #: `Restore` events follow the installation of views, and a `Restored` before any other event.
    restoring: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """The next chunk of the state that another engine had at the stream's position. `changed`: tables that are not what
    that engine took them for; the same for all chunks."""

    chunk: Chunk
    changed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Restored:
    """All chunks have been taken."""


@dataclass(frozen=True, slots=True)
class StreamResumed:
    """The connection to the upstream broke, and another one continues the stream; comes before what that one brings.

    If the upstream crashed in between, transactions that answers have seen, but the stream has not reached, are gone.
    Their positions and ids will be those of other transactions.
    """


@dataclass(frozen=True, slots=True)
class Apply:
    """Transactions of the stream, in commit order, then how far the stream is (at least the last one's end)."""

    transactions: list[Transaction]
    position: Position


@dataclass(frozen=True, slots=True)
class Advance:
    """The stream is at `position`; nothing that the engine follows was committed since."""

    position: Position


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """A heartbeat's snapshot, taken before this event: what it sees no later lookup can miss. It trims the ring."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class TableJoined:
    """`table` was added to the publication; `snapshot` was taken after that had committed.

    What is open in it, or older, may have changed the table without being in the stream. Either nobody read the table
    before, or its rows got columns, which older rows of the stream do not have, and which no view read before.
    """

    table: str
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class InstallView:
    """A view to maintain, under an id that was never used before. A full one starts to load at once.

    `whole`: it is a full one, whatever routes there are. `limits`: of its keys, beside those of all views; what is kept
    whole has none.
    """

    id: ViewId
    view: View
    whole: bool = False
    limits: KeyLimits = UNLIMITED


@dataclass(frozen=True, slots=True)
class InstallRefresh:
    """A view that is not maintained incrementally, under an id that was never used before."""

    id: ViewId
    view: RefreshView
    limits: KeyLimits = UNLIMITED


@dataclass(frozen=True, slots=True)
class DropView:
    """A view that nobody reads any more. Nodes that no other view needs go with it."""

    id: ViewId


@dataclass(frozen=True, slots=True)
class Ahead:
    """About `rows` rows of a key from `start` on, in the view's `storage_order`.

    What is covered from `start` on was not enough: more is fetched, unless it goes on to the end.
    """

    rows: int
    start: Cut = START


#: Of a key's rows: all (None), those of an interval, or so many from a place on.
Extent = Interval | Ahead | None
#: A view, a key of it, and the extent that is read.
Wanted = tuple[ViewId, Key, Extent]


@dataclass(frozen=True, slots=True)
class Read:
    """A read that missed: answered when all it wants is covered at once, by one `Answer`. Ids are not reused.

    Views without ordered coverage are covered key by key; their extent is taken as None.

    `forward`: if something is missing, the upstream answers, and it is filled behind that; not where a refreshed view
    is read, whose fetch is the upstream's answer anyhow.
    """

    id: ReadId
    keys: tuple[Wanted, ...]
    forward: bool = False


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Reads that arrived together: what several of them miss of one table, by the same columns, is one lookup."""

    reads: Sequence[Read]


@dataclass(frozen=True, slots=True)
class CancelRead:
    """The reader has gone. A flight that nobody waits for goes on for some `CancelUnawaited`.

    `refused`: the upstream refused to answer what was forwarded; what is filled behind it goes on.
    """

    id: ReadId
    refused: bool = False


@dataclass(frozen=True, slots=True)
class CancelUnawaited:
    """Look for lookups and fetches that nobody waits for; cancel those that nobody has waited for at the last
    `Limits.unawaited_looks` such events."""


@dataclass(frozen=True, slots=True)
class LookupDone:
    """The rows of a `Lookup`, the snapshot they were read at, and a position by which all it sees is in the stream.

    `keys`, of a semijoin: the keys whose rows these are, as the same snapshot sees them, each value in any text.
    """

    id: LookupId
    rows: list[Row]
    snapshot: Snapshot
    bound: Position
    keys: Sequence[Key] = ()


@dataclass(frozen=True, slots=True)
class LookupsDone:
    """Lookups that came back together, each with its own snapshot."""

    results: Sequence[LookupDone]


@dataclass(frozen=True, slots=True)
class LoadBegun:
    """A `Lookup` of everything (columns ``()``, no part) is answered in slices, since it has many rows: by `LoadRows`,
    then one `LoadDone`, or a `LookupFailed`. They are as `snapshot`, an exact one, sees them; all of that is in the
    stream by `bound`."""

    id: LookupId
    snapshot: Snapshot
    bound: Position


@dataclass(frozen=True, slots=True)
class LoadRows:
    """Some of a load's rows, in any order; of an aggregate, state rows."""

    id: LookupId
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class LoadDone:
    """A load has all its rows; `bound`: what made another table of one that was read is in the stream by it."""

    id: LookupId
    bound: Position = 0


@dataclass(frozen=True, slots=True)
class Work:
    """Go on with what is too much for one step, by about so many rows."""

    rows: int


@dataclass(frozen=True, slots=True)
class LookupFailed:
    """A `Lookup` that has no result. Unless `retryable`, the views above it are broken for `reason`. `evaluation`: it
    fails on the data, as an `EvaluationError`, so reads are answered upstream and nothing breaks."""

    id: LookupId
    reason: str
    retryable: bool
    evaluation: bool = False


@dataclass(frozen=True, slots=True)
class LookupTooLarge:
    """A `Lookup` by keys has more rows, or about more bytes, than one key may have (`Limits`), so it was broken off."""

    id: LookupId


@dataclass(frozen=True, slots=True)
class ForwardDone:
    """The rows of a `Forward`, as a `LookupDone`; `tables` are those its SQL reads."""

    id: ReadId
    snapshot: Snapshot
    bound: Position


@dataclass(frozen=True, slots=True)
class RefreshDone:
    """The rows of a `Refresh`, as the leaf store has them, with snapshot and bound as of a `LookupDone`."""

    id: RefreshId
    rows: list[Row]
    snapshot: Snapshot
    bound: Position


@dataclass(frozen=True, slots=True)
class RefreshFailed:
    """A `Refresh` that has no rows. `breaks`: no key of the view will have any. `code`: the shell's name of it."""

    id: RefreshId
    reason: str
    retryable: bool
    breaks: bool = False
    code: str = ""


@dataclass(frozen=True, slots=True)
class Pin:
    """A subscription: the key is filled, never chosen by the eviction policy, and refilled when correctness evicts
    it; unless it is larger than keys may be. Of views with ordered coverage, only what was read is kept: how much of
    the key is wanted only its readers know, who fill it."""

    view: ViewId
    key: Key


@dataclass(frozen=True, slots=True)
class Unpin:
    """Ends one `Pin`."""

    view: ViewId
    key: Key


@dataclass(frozen=True, slots=True)
class EvictKey:
    """Forget one key of a view."""

    view: ViewId
    key: Key


@dataclass(frozen=True, slots=True)
class EvictInner:
    """Forget one key of an inner materialization (its node's number, as ``explain`` shows it) with all that depends
    on it."""

    node: int
    columns: Columns
    key: Key


@dataclass(frozen=True, slots=True)
class Touched:
    """Keys of views that readers have read since the last such event, and how often; a sample. It is what the eviction
    policy goes by."""

    keys: tuple[tuple[ViewId, Key, int], ...]


@dataclass(frozen=True, slots=True)
class EvictSome:
    """Forget at most so many keys of views, those that the policy names, with what only they needed. Fewer if they are
    large (`Limits.evict_bytes`), or if there are no more."""

    keys: int


@dataclass(frozen=True, slots=True)
class SchemaChanged:
    """`table` is not what the plans took it for: the views that read it are broken for `reason`."""

    table: str
    reason: str


Event = (
    StreamStarted
    | StreamResumed
    | Restore
    | Restored
    | Apply
    | Advance
    | SnapshotTaken
    | TableJoined
    | InstallView
    | InstallRefresh
    | DropView
    | Read
    | ReadBatch
    | CancelRead
    | CancelUnawaited
    | LookupsDone
    | LoadBegun
    | LoadRows
    | LoadDone
    | Work
    | LookupFailed
    | LookupTooLarge
    | ForwardDone
    | RefreshDone
    | RefreshFailed
    | Pin
    | Unpin
    | EvictKey
    | EvictInner
    | Touched
    | EvictSome
    | SchemaChanged
)
