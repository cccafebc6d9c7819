"""One start of a side with shards, and all that is measured of it: rates, and the CPU time of each kind of process for
a thing done.

Changes are measured as a backlog: the engines stand still (SIGSTOP) while the votes are written, and the time counts
from when they go on until every shard's answers are as new as the last vote. So what is measured is the stream and
whoever follows it, and not the writer.

*Invariants*: at the end of each start answers are compared with the database's.

Not here: which sides, and what their costs say (`shard_scale`).
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from time import monotonic

import orjson
import psycopg

from load import processes
from load.driver.connection import SingleConnection
from load.driver.visit import get, read_keys, read_many
from load.experiments.closed_loop import Loop, run_loop
from load.experiments.experiment import Conditions, Tell
from load.experiments.warming import read_all
from load.sides.side import Side, SideError, Upstream
from load.workloads.changes import Writer
from load.workloads.vote import STORY_WITH_VOTES, VIEW

#: Kinds of processes; several engines have one that reads the stream. The database's are two:
#: what sends its log, and the others.
ENGINE, READER, WORKER, GATEWAY = "engine", "stream reader", "API worker", "gateway"
SENDER, DATABASE = "WAL sender", "database"
#: Keys of a batch; two sizes tell what a part costs from what a key does.
BATCHES = (10, 100)
#: Votes of a transaction.
MANY = 100
#: Different requests of a loop.
_DIFFERENT = 5_000
_COMPARED = 50
#: Of what is in memory, at least.
_HITS = 0.99
_PATIENCE_S = 120.0

Pids = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is read and written."""

    stories: int = 50_000
    #: Of them, in memory before hits are read and changes written; and others, which are read once.
    hottest: int = 10_000
    misses: int = 5_000
    changes: int = 100_000
    seconds: float = 3.0

    def __post_init__(self) -> None:
        if self.hottest + self.misses + _COMPARED > self.stories:
            raise ValueError(f"{self.stories} stories are too few for {self.hottest} hot ones and {self.misses} misses")


@dataclass(frozen=True, slots=True)
class Running:
    """A side under measurement."""

    side: Side
    upstream: Upstream
    #: The processes of each kind, but the database's, which come and go.
    pids: Pids


@dataclass(frozen=True, slots=True)
class Rate:
    """Things done a second, and the CPU µs of each kind of process for one of them."""

    per_second: float
    cpu_us: Mapping[str, float]
    #: Share of a core that the client used: near 1 it was what limited the rate.
    client_busy: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One start. Of batches a thing is a request."""

    #: Changes of which no engine holds anything.
    passed: Rate
    misses: Rate
    hits: Rate
    batches: Mapping[int, Rate]
    #: Changes whose key is in memory.
    held: Rate


def turn(running: Running, sizes: Sizes, conditions: Conditions, tell: Tell) -> Turn:
    """All of it, on a side that has just been started. Raises `SideError`, `LoopError`."""
    if conditions.server_cores is not None:
        processes.pin(running.side.pids(), *conditions.server_cores)
    measuring = _Measuring(running, sizes, conditions)
    tell(f"{running.side.name}: changes that nobody holds, and misses")
    passed, misses = measuring.backlog(), measuring.misses()
    keys = ({"id": story} for story in range(1, sizes.hottest + 1))
    read_all(running.side, VIEW, keys, sizes.hottest, tell)
    tell(f"{running.side.name}: hits, and changes that are held")
    hits = measuring.hits()
    batches = {keys: measuring.batches(keys) for keys in BATCHES}
    held = measuring.backlog()
    measuring.compare()
    return Turn(passed, misses, hits, batches, held)


class _Measuring:
    """One start."""

    def __init__(self, running: Running, sizes: Sizes, conditions: Conditions) -> None:
        self._running, self._sizes, self._conditions = running, sizes, conditions
        self._random = Random(1)

    def hits(self) -> Rate:
        """Single keys that are in memory."""
        requests = [get(VIEW, {"id": self._hot()}).request for _ in range(_DIFFERENT)]
        return self._loop(requests)

    def batches(self, keys: int) -> Rate:
        """Requests with so many of them."""
        requests = [
            read_keys(VIEW, [{"id": self._hot()} for _ in range(keys)]).request
            for _ in range(max(1, _DIFFERENT // keys))
        ]
        return self._loop(requests)

    def misses(self) -> Rate:
        """Single keys that nobody has read before."""
        first = self._sizes.hottest + 1
        stories = range(first, first + self._sizes.misses)
        return self._loop([get(VIEW, {"id": story}).request for story in stories], once=True)

    def backlog(self) -> Rate:
        """Votes for the hottest stories, until every shard's answers have the last."""
        changes = self._sizes.changes // MANY * MANY
        with _Used(self._pids) as used:
            with _stopped([*self._running.pids[ENGINE], *self._running.pids.get(READER, ())]):
                position = self._vote(changes)
            begin = monotonic()
            # The service lets it wait until they are.
            while not self._shows(position):
                if monotonic() - begin > _PATIENCE_S:
                    raise SideError(f"{self._running.side.name}: a backlog was not drained in {_PATIENCE_S:.0f} s")
            elapsed = monotonic() - begin
        return used.rate(changes, elapsed)

    def compare(self) -> None:
        """Some stories with the database. Raises `SideError`."""
        ids = self._random.sample(range(1, self._sizes.hottest + 1), min(_COMPARED, self._sizes.hottest))
        with psycopg.connect(self._running.upstream.url, autocommit=True) as database, self._connection() as connection:
            sql = STORY_WITH_VOTES.sql.replace("s.id = :id", "s.id = ANY(%s)")
            expected = {row[0]: [[*row]] for row in database.execute(sql.encode(), [ids]).fetchall()}
            token = _token(_position(database))
            reply = connection.ask(read_many([(VIEW, {"id": story}) for story in ids], token))
        if reply.status != 200:
            raise SideError(f"{self._running.side.name}: {reply.status} {reply.body[:300].decode(errors='replace')}")
        found = [[[*row.values()] for row in result["rows"]] for result in orjson.loads(reply.body)["results"]]
        if found != [expected[story] for story in ids]:
            raise SideError(f"{self._running.side.name}: answers are not the database's")

    def _shows(self, position: int) -> bool:
        """Whether answers are as new, of so many keys that each shard has some; nobody votes for these."""
        last = self._sizes.stories
        keys = [(VIEW, {"id": story}) for story in range(last - _COMPARED + 1, last + 1)]
        with self._connection() as connection:
            return connection.ask(read_many(keys, _token(position))).status == 200

    def _loop(self, requests: Sequence[bytes], *, once: bool = False) -> Rate:
        loop = Loop(
            self._running.side.reads_url, requests, self._sizes.seconds, once, cores=self._conditions.client_cores
        )
        with _Used(self._pids) as used:
            done = run_loop(loop)
        if not once and done.hits < _HITS * done.requests:
            raise SideError(f"{self._running.side.name}: {done.hits} of {done.requests} requests were hits")
        return used.rate(done.requests, done.seconds, done.client_cpu_s / done.seconds)

    def _vote(self, changes: int) -> int:
        """The log's end after so many votes, each story as often."""
        with psycopg.connect(self._running.upstream.url, autocommit=True) as connection:
            Writer(connection, self._sizes.hottest, 0.0, MANY).write(changes)
            return _position(connection)

    def _pids(self) -> Pids:
        database = self._running.upstream.pids()
        senders = [pid for pid in database if "walsender" in processes.title(pid)]
        return {**self._running.pids, SENDER: senders, DATABASE: [pid for pid in database if pid not in senders]}

    def _hot(self) -> int:
        return self._random.randint(1, self._sizes.hottest)

    def _connection(self) -> SingleConnection:
        return SingleConnection(self._running.side.reads_url, self._running.side.writes_url, _PATIENCE_S)


class _Used:
    """CPU time of each kind of process while it was entered."""

    def __init__(self, pids: Callable[[], Pids]) -> None:
        self._pids = pids
        self._before: dict[int, float] = {}
        self._seconds: dict[str, float] = {}

    def __enter__(self) -> "_Used":
        self._before = {pid: processes.cpu_seconds([pid]) for pids in self._pids().values() for pid in pids}
        return self

    def __exit__(self, *failure: object) -> None:
        self._seconds = {
            kind: sum(processes.cpu_seconds([pid]) - self._before.get(pid, 0.0) for pid in pids)
            for kind, pids in self._pids().items()
        }

    def rate(self, done: int, seconds: float, client_busy: float = 0.0) -> Rate:
        """If so much was done in this time."""
        cpu_us = {kind: used / max(1, done) * 1e6 for kind, used in self._seconds.items()}
        return Rate(done / seconds, cpu_us, client_busy)


@contextmanager
def _stopped(pids: Sequence[int]) -> Iterator[None]:
    """They stand still inside, and go on in any case afterwards."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _position(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return int(row[0])


def _token(position: int) -> str:
    """As PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
