"""Positions of PostgreSQL: LSNs, snapshots, and the width of transaction ids.

*Invariants*: transaction ids have 64 bits everywhere but on the wire of the stream; `widen` alone converts them.

Not here: taking snapshots (`service.engine.databases.postgres.lookups`, `stream`).
"""

from collections.abc import Iterable
from typing import ClassVar, NamedTuple, Self

_HALF = 1 << 31
_EPOCH = 1 << 32


def parse_lsn(text: str) -> int:
    """Parse an LSN such as ``16/B374D848``. Raises ValueError with an example."""
    high, slash, low = text.partition("/")
    try:
        if not slash:
            raise ValueError
        value = (int(high, 16) << 32) | int(low, 16)
    except ValueError:
        raise ValueError(f"{text!r} is not an LSN such as 16/B374D848.") from None
    if not 0 <= value < 1 << 64 or int(low, 16) >= _EPOCH:
        raise ValueError(f"{text!r} is not an LSN: each half has at most 8 hexadecimal digits.")
    return value


def format_lsn(lsn: int) -> str:
    """Format an LSN as PostgreSQL prints it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def widen(xid: int, near: int) -> int:
    """Return the 64-bit transaction id of a 32-bit one, in the epoch nearest to `near` (at most 2³¹ away)."""
    wide = (near & ~0xFFFFFFFF) | xid
    if wide - near > _HALF:
        return wide - _EPOCH
    if near - wide > _HALF:
        return wide + _EPOCH
    return wide


class CommitRecord(NamedTuple):
    """A commit, as no other log has it: the start of its record, its time in microseconds, the transaction's id."""

    start: int
    time_us: int
    xid: int


class PostgresSnapshot:
    """The top-level transactions that a statement saw: those below `xmax` that were not `running`.

    Visibility depends on the transaction id and never on the LSN: a commit is in the stream before it is visible.

    `xmax` is above the last transaction that had *ended*: a running one may have a higher id, and is not listed then.
    `horizon` is above every id that had been assigned, None if it was not read.
    """

    __slots__ = ("horizon", "running", "xmax", "xmin")

    exact: ClassVar[bool] = True

    def __init__(self, xmin: int, xmax: int, running: frozenset[int] = frozenset(), horizon: int | None = None) -> None:
        self.xmin = xmin
        self.horizon = horizon
        self.xmax = xmax
        self.running = running

    @classmethod
    def parse(cls, text: str, next_xid: int | None = None) -> Self:
        """Parse ``pg_current_snapshot()``: ``xmin:xmax:xip,xip…``. `next_xid` is the next id to assign, of 32 bits."""
        xmin, xmax, running = text.split(":")
        listed = frozenset(map(int, running.split(","))) if running else frozenset[int]()
        return cls(int(xmin), int(xmax), listed, None if next_xid is None else widen(next_xid, int(xmax)))

    @property
    def text(self) -> str:
        """The snapshot as `parse` reads it, without the horizon."""
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"

    def sees(self, transaction: int, end: int) -> bool:  # noqa: ARG002  (a position is no version of a PostgreSQL read)
        """Return whether the committed transaction was visible."""
        return transaction < self.xmin or (transaction < self.xmax and transaction not in self.running)

    def unsure(self, transaction: int, end: int) -> bool:  # noqa: ARG002
        """Return False: a snapshot lists the running transactions."""
        return False

    def covers(self, other: "PostgresSnapshot") -> bool:
        """Return whether this sees everything that `other` sees; may be False if they differ in aborted ones only."""
        if other.xmax > self.xmax:
            between = range(max(self.xmax, other.xmin), other.xmax)
            if other.xmin > self.xmax or any(xid not in other.running for xid in between):
                return False
        return all(xid in other.running for xid in self.running if xid < other.xmax)

    def finished(self, other: "PostgresSnapshot") -> bool:
        """Return whether every transaction that was running, or older, when `other` was taken had ended.

        False if `other` has no horizon: its `xmax` does not bound running transactions.
        """
        return other.horizon is not None and self.xmin >= other.horizon

    def decided(self, other: "PostgresSnapshot", undecided: Iterable[int]) -> bool:
        """Return whether those of `undecided` that had begun when `other` was taken have ended.

        `undecided` are 32-bit ids of transactions that were open before this snapshot. False if `other` has no horizon.
        """
        wide = [widen(xid, self.xmax) for xid in undecided]
        return other.horizon is not None and all(xid >= other.horizon or self.sees(xid, 0) for xid in wide)

    def closed(self) -> Self:
        """Return the snapshot in which every transaction that has an id has ended."""
        horizon = self.xmax if self.horizon is None else self.horizon
        return type(self)(horizon, horizon)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PostgresSnapshot):
            return NotImplemented
        return (self.xmin, self.xmax, self.running) == (other.xmin, other.xmax, other.running)

    def __hash__(self) -> int:
        return hash((self.xmin, self.xmax, self.running))

    def __repr__(self) -> str:
        return f"PostgresSnapshot({self.xmin}, {self.xmax}, {set(self.running) or '{}'})"
