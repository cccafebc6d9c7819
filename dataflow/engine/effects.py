"""Outputs of `Engine.step`. The shell performs a step's effects in their order, the leaf's as one commit."""

from dataclasses import dataclass

from dataflow.plan.parts import Interval, Lookup
from dataflow.types import Delta, Key, LookupId, Position, ReadId, RefreshId, Row, ViewId


@dataclass(frozen=True, slots=True)
class CancelLookup:
    """Nobody wants this lookup's result any more; reporting it is allowed and does nothing."""

    id: LookupId


@dataclass(frozen=True, slots=True)
class Reach:
    """Somebody waits for `position` to be applied: push the stream if it does not get there by itself."""

    position: Position


@dataclass(frozen=True, slots=True)
class LeafFill:
    """The key is covered now, by exactly these rows (a bag). Whatever the leaf had under it is replaced."""

    view: ViewId
    key: Key
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class LeafExtend:
    """More of the key is covered now: `rows` (a bag) are what was added. `covered` are all its intervals afterwards, in
    the view's `storage_order`, disjoint, ascending and not adjacent; the whole is one from START to END. A key that was
    a hole is covered in part from now on."""

    view: ViewId
    key: Key
    rows: list[Row]
    covered: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class LeafFillAll:
    """The whole view is covered now, by exactly these rows, by key. A key that is not among them has none."""

    view: ViewId
    rows: dict[Key, list[Row]]


@dataclass(frozen=True, slots=True)
class LeafChange:
    """Rows removed and added under covered keys, by key. What is removed is there; equal rows cancelled out before."""

    view: ViewId
    changes: dict[Key, Delta]


@dataclass(frozen=True, slots=True)
class LeafClear:
    """All covered keys of the view stay covered and have no rows any more (TRUNCATE)."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class LeafEvict:
    """The key is a hole again; ``()`` of a full view: all of it."""

    view: ViewId
    key: Key


@dataclass(frozen=True, slots=True)
class LeafLoaded:
    """A full view that was written slice by slice, by a `LeafFillAll` without rows and `LeafChange`s, has all its rows:
    from this commit on they are exact."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class LeafForget:
    """All keys of the view are holes again, whatever was stored of them."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class LeafRestored:
    """The view is covered as another engine covered its view `former`: take over what was stored of that. Keys that
    are not covered after all are evicted by later effects."""

    view: ViewId
    former: int


@dataclass(frozen=True, slots=True)
class LeafDrop:
    """The view has gone."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class Answer:
    """All keys of the read are covered: answer it from the leaf as this step leaves it."""

    read: ReadId


@dataclass(frozen=True, slots=True)
class Forward:
    """The read cannot be answered by filling (a key too large, or evicted again and again): run its views upstream, in
    one snapshot, and report a `ForwardDone`."""

    read: ReadId


@dataclass(frozen=True, slots=True)
class AnswerForward:
    """Send the rows that were forwarded, as exact at `position`."""

    read: ReadId
    position: Position


@dataclass(frozen=True, slots=True)
class Refresh:
    """Run a refreshed view's SQL upstream for one key. Ends in a `RefreshDone` or a `RefreshFailed`."""

    id: RefreshId
    view: ViewId
    key: Key


@dataclass(frozen=True, slots=True)
class CancelRefresh:
    """Nobody wants this refresh's rows any more; reporting them is allowed and does nothing."""

    id: RefreshId


@dataclass(frozen=True, slots=True)
class AnswerRefresh:
    """Answer the read, of one key of a refreshed view, with these rows, exact at `position`; nothing is stored."""

    read: ReadId
    rows: list[Row]
    position: Position


@dataclass(frozen=True, slots=True)
class FailRead:
    """The read cannot be answered, for `reason`. `code`: that of the `RefreshFailed` which says so."""

    read: ReadId
    reason: str
    retryable: bool
    code: str = ""


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """The view is ``building``, ``ready``, ``quarantined`` or ``broken`` from this step on."""

    view: ViewId
    status: str
    reason: str | None = None


LeafEffect = (
    LeafFill | LeafExtend | LeafFillAll | LeafChange | LeafClear | LeafEvict | LeafLoaded | LeafForget | LeafDrop
)
Effect = (
    Lookup
    | CancelLookup
    | Reach
    | LeafEffect
    | Answer
    | Forward
    | AnswerForward
    | Refresh
    | CancelRefresh
    | AnswerRefresh
    | FailRead
    | ViewStatus
    | LeafRestored
)
