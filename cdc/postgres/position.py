"""Positions of PostgreSQL: LSNs, snapshots, and the width of transaction ids.

*Invariants*: transaction ids are 64 bit everywhere but on the wire of the stream; `widen` is the only door.

Not here: who takes a snapshot (`service.engine.databases.postgres.lookups`, `postgres.stream`).
"""

from collections.abc import Iterable
from typing import ClassVar, Self

_HALF = 1 << 31
_EPOCH = 1 << 32


def parse_lsn(text: str) -> int:
    """``16/B374D848`` as a number. ValueError says what an LSN looks like."""
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
    """The LSN as PostgreSQL prints it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def widen(xid: int, near: int) -> int:
    """The 64-bit id of a 32-bit one, in the epoch that brings it nearest to `near` (they are less than 2³¹ apart)."""
    wide = (near & ~0xFFFFFFFF) | xid
    if wide - near > _HALF:
        return wide - _EPOCH
    if near - wide > _HALF:
        return wide + _EPOCH
    return wide


class PostgresSnapshot:
    """Which top-level transactions a statement saw: those before `xmax` that were not `running`.

    Is a `dataflow.types.Snapshot`. By id and never by LSN: a commit is in the stream before it is visible.

    `xmax` is behind the last transaction that had *ended*: one that runs may have a higher id, and is then not listed.
    `horizon` is behind every id that had been given out, None if nobody asked.
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
        """The text of ``pg_current_snapshot()``: ``xmin:xmax:xip,xip…``; perhaps with the next id, of 32 bits."""
        xmin, xmax, running = text.split(":")
        listed = frozenset(map(int, running.split(","))) if running else frozenset[int]()
        return cls(int(xmin), int(xmax), listed, None if next_xid is None else widen(next_xid, int(xmax)))

    def sees(self, transaction: int, end: int) -> bool:  # noqa: ARG002  (a position is no version of a PostgreSQL read)
        """Whether that committed transaction was visible."""
        return transaction < self.xmin or (transaction < self.xmax and transaction not in self.running)

    def unsure(self, transaction: int, end: int) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def covers(self, other: "PostgresSnapshot") -> bool:
        """Whether everything that `other` sees is seen here too. May say no where only aborted ones differ."""
        if other.xmax > self.xmax:
            between = range(max(self.xmax, other.xmin), other.xmax)
            if other.xmin > self.xmax or any(xid not in other.running for xid in between):
                return False
        return all(xid in other.running for xid in self.running if xid < other.xmax)

    def finished(self, other: "PostgresSnapshot") -> bool:
        """Whether every transaction that was running, or older, when `other` was taken had ended.

        Never if `other` has no horizon: its `xmax` says nothing about transactions that run.
        """
        return other.horizon is not None and self.xmin >= other.horizon

    def decided(self, other: "PostgresSnapshot", undecided: Iterable[int]) -> bool:
        """Whether all of these (32-bit ids of transactions that were open before this was taken) have ended that had
        begun when `other` was taken. Never if `other` has no horizon."""
        wide = [widen(xid, self.xmax) for xid in undecided]
        return other.horizon is not None and all(xid >= other.horizon or self.sees(xid, 0) for xid in wide)

    def closed(self) -> Self:
        """As if all that had begun had ended. What covers it sees all of that."""
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
