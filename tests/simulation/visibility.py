"""Snapshots of a simulated upstream: the commits that they see, and the commits that they report. One class a kind.

- `Ids` (PostgreSQL): any set of commits that is closed under row conflicts, said exactly.
- `Prefix` (MariaDB): commits become visible in the log's order; a snapshot is a place in the log.
- `Brackets` (MySQL): in the log's order, or in any (``binlog_order_commits = OFF``). A snapshot says which commits were
  known to be executed, which lags behind, and how long the log was some time after, which leads.

A transaction's id in the stream is the one by which snapshots name it. The snapshots of the last two are the real ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, ClassVar

from cdc.gtid import GtidSet, source_of, transaction_id
from cdc.mysql.bracket import BracketSnapshot
from cdc.mysql.position import BinlogSnapshot
from dataflow.types import Position, Snapshot, TransactionId

if TYPE_CHECKING:
    from tests.simulation.world import World

SERVERS = (source_of(bytes(range(16))), source_of(bytes(range(16)), "imported"))


class SimulatedSnapshot:
    """A snapshot as PostgreSQL prints it: everything below `xmax` that is not `running` is seen."""

    __slots__ = ("running", "xmax")

    exact: ClassVar[bool] = True

    def __init__(self, xmax: int, running: Iterable[int]) -> None:
        self.xmax = xmax
        self.running = frozenset(running)

    def __repr__(self) -> str:
        return f"SimulatedSnapshot({self.xmax}, {sorted(self.running)})"

    def sees(self, transaction: TransactionId, end: Position) -> bool:  # noqa: ARG002
        """By id; the position says nothing."""
        return transaction < self.xmax and transaction not in self.running

    def unsure(self, transaction: TransactionId, end: Position) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def covers(self, other: "SimulatedSnapshot") -> bool:
        """Everything `other` sees is seen here."""
        hidden = self.running | frozenset(range(self.xmax, other.xmax))
        return all(x in other.running for x in hidden if x < other.xmax)

    def finished(self, other: "SimulatedSnapshot") -> bool:
        """Everything below `other.xmax` had ended."""
        return min(self.running, default=self.xmax) >= other.xmax


class Visibility(ABC):
    """Rules of visibility of a world's snapshots."""

    #: Commits become visible in the log's order.
    ordered: bool = False
    #: The stream has a table's rows from a commit on, not from a statement on.
    by_commit: bool = True

    def __init__(self, world: "World") -> None:
        self.world = world

    def logged(self, xid: int, rng: Random) -> TransactionId:
        """A transaction is being committed: its id in the stream."""
        del rng
        return TransactionId(xid)

    def revealed(self, xid: int) -> None:
        """A transaction has become visible."""
        del xid

    def catch_up(self, rng: Random | None) -> None:
        """The server learns of some commits (without a generator: of all) that they are visible."""
        del rng

    def forget(self, gone: Iterable[int]) -> None:
        """The server crashed, and these commits are undone."""
        del gone

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return the snapshot of a statement that starts now."""

    def landmark(self) -> Snapshot:
        """Return a snapshot for comparison with others."""
        return self.snapshot()

    def start(self) -> Snapshot:
        """Everything before the end of the log: what a stream that begins now does not have."""
        return self.landmark()

    def joined(self) -> Snapshot:
        """Return a snapshot that sees all before the place of a running stream, and perhaps some of what follows."""
        return self.start()

    def barrier(self) -> Snapshot:
        """For a table that has joined: what the stream may lack of it was committed, or was open, before this."""
        return self.landmark()

    @abstractmethod
    def bound(self, rng: Random) -> Position:
        """A position by which all that is visible now is in the stream."""

    def arrived(self, snapshot: Snapshot, bound: Position, rng: Random) -> tuple[Snapshot, Position]:
        """Return the snapshot as known by the time when its rows arrive, and its bound."""
        del rng
        return snapshot, bound


class Ids(Visibility):
    """PostgreSQL's."""

    by_commit = False

    def snapshot(self) -> SimulatedSnapshot:
        """All that is committed and not in limbo."""
        return SimulatedSnapshot(self.world.next_xid, self.world.limbo | self.world.open.keys())

    def start(self) -> SimulatedSnapshot:
        """Return the snapshot that a slot created now exports: every commit before its position."""
        return SimulatedSnapshot(self.world.next_xid, set(self.world.open))

    def joined(self) -> SimulatedSnapshot:
        """All that has begun."""
        return SimulatedSnapshot(self.world.next_xid, ())

    def bound(self, rng: Random) -> Position:
        """Behind all that is visible; how far behind says nothing."""
        world = self.world
        return rng.choice((world.seen_end, world.wal, rng.randint(world.seen_end, world.wal)))


class Prefix(Visibility):
    """MariaDB's."""

    ordered = True

    def snapshot(self) -> BinlogSnapshot:
        """Up to the first commit that is not visible yet."""
        world = self.world
        return BinlogSnapshot(min((world.ends[xid] for xid in world.limbo), default=world.wal + 1) - 1)

    def start(self) -> BinlogSnapshot:
        """The end of the log."""
        return BinlogSnapshot(self.world.wal)

    def barrier(self) -> BinlogSnapshot:
        """Whoever takes it waits until all that was in the log is visible."""
        self.world.reveal_all()
        return self.snapshot()

    def bound(self, rng: Random) -> Position:
        """The place itself."""
        del rng
        return self.snapshot().position


class Brackets(Visibility):
    """MySQL's."""

    def __init__(self, world: "World", ordered: bool) -> None:
        super().__init__(world)
        self.ordered = ordered
        self.ids: dict[int, TransactionId] = {}
        self.executed, self.begun = GtidSet(), GtidSet()
        #: Visible, but not known to be executed yet; in the order in which they became visible.
        self.lagging: list[int] = []

    def logged(self, xid: int, rng: Random) -> TransactionId:
        """Assign the next number of one of two sources."""
        source = rng.choice((0, 0, 0, 1))
        number = sum(id_ >> 64 == SERVERS[source] for id_ in self.ids.values()) + 1
        self.ids[xid] = TransactionId(transaction_id(SERVERS[source], number))
        self.begun = self.begun.add(self.ids[xid])
        return self.ids[xid]

    def revealed(self, xid: int) -> None:
        """Delay the knowledge of its number."""
        self.lagging.append(xid)

    def forget(self, gone: Iterable[int]) -> None:
        """Their numbers are assigned again."""
        for xid in gone:
            del self.ids[xid]
        self.lagging = [xid for xid in self.lagging if xid in self.ids]
        executed = [id_ for xid, id_ in self.ids.items() if xid not in self.world.limbo and xid not in self.lagging]
        self.executed, self.begun = GtidSet(), GtidSet()
        for id_ in executed:
            self.executed = self.executed.add(id_)
        for id_ in self.ids.values():
            self.begun = self.begun.add(id_)

    def catch_up(self, rng: Random | None) -> None:
        """Some commits are known to be executed."""
        for _ in range(len(self.lagging) if rng is None else rng.randint(0, len(self.lagging))):
            xid = self.lagging.pop(rng.randrange(len(self.lagging)) if rng is not None and not self.ordered else 0)
            self.executed = self.executed.add(self.ids[xid])

    def snapshot(self) -> BracketSnapshot:
        """Between what is known to be executed and the end of the log."""
        return BracketSnapshot(self.executed, self.world.wal)

    def landmark(self) -> BracketSnapshot:
        """Return a snapshot for comparison with others, with what has begun."""
        return BracketSnapshot(self.executed, self.world.wal, self.begun)

    def bound(self, rng: Random) -> Position:
        """The end of the log."""
        del rng
        return self.world.wal

    def arrived(self, snapshot: Snapshot, bound: Position, rng: Random) -> tuple[Snapshot, Position]:
        """The end of the log is read some time after the snapshot was taken."""
        assert isinstance(snapshot, BracketSnapshot)
        # If the server has crashed since, it was read before.
        position = rng.choice((bound, rng.randint(bound, max(bound, self.world.wal))))
        return replace(snapshot, position=position), position


#: By the names that configurations have.
KINDS = {
    "postgres": Ids,
    "mariadb": Prefix,
    "mysql": lambda world: Brackets(world, ordered=True),
    "mysql_unordered": lambda world: Brackets(world, ordered=False),
}
