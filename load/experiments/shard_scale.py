"""Reads and visible changes a second of 1 and 2 shards with 1 and 2 API workers, the CPU time that each kind of process
spends on them, and computed from that, rates of 1 to 64 pods (`shard_scale_model`).

Each side is started anew for each round, in turns, so that none follows the stream of another's writes. With
``--gateway`` two pods behind a gateway are a side, too. On a machine with few cores rates of several shards mean
little, since they share them; CPU time for one operation does not depend on that, and is the model's input.

Changes are measured as a backlog: the engines are stopped (SIGSTOP) while the votes are written, and the time counts
from when they continue until every shard's answers include the last vote. So the stream and the engines are measured,
and not the writer.

*Invariants*: at the end of each start answers are compared with the database's.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from time import monotonic
from typing import Annotated

import orjson
import psycopg
import typer

from load import processes
from load.driver.connection import SingleConnection
from load.driver.visit import get, read_keys, read_many
from load.experiments import vote
from load.experiments.closed_loop import Loop, run_loop
from load.experiments.shard_scale_model import Machines
from load.experiments.shard_scale_report import (
    ALONE,
    APART,
    BATCHES,
    BENCH,
    DATABASE,
    ENGINE,
    GATEWAY,
    READER,
    SENDER,
    WORKER,
    Mix,
    Rate,
    ShardSetup,
    Turn,
    costs_of,
    figures,
    mixes,
    model,
    table_of_costs,
    tables_of_turns,
)
from load.experiments.warm_up import read_all
from load.postgres_log import log_end
from load.processes import RunConditions
from load.progress import Tell, number
from load.report.output import JsonOption, OutputOption, perform
from load.report.report import Report
from load.sides.pods import PodSettings, running_pods
from load.sides.postgres import running_upstream
from load.sides.side import Side, SideError, UpstreamDatabase
from load.sides.upquery import upquery
from load.workloads.changes import ChangeWriter, votes
from load.workloads.vote import STORY_WITH_VOTES, VIEW

SHORT = (
    "--stories",
    "5000",
    "--hottest",
    "1000",
    "--misses",
    "1000",
    "--changes",
    "10000",
    "--seconds",
    "1",
    "--rounds",
    "1",
    "--gateway",
)
#: One machine's.
WAYS = (ALONE, ShardSetup(1, 2), ShardSetup(2, 1), ShardSetup(2, 2))
_VOTES_EACH = 3
_MEMORY = "2GiB"


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
    """Numbers of rows, reads and changes."""

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
class RunningSide:
    side: Side
    upstream: UpstreamDatabase
    #: The processes of each kind, but the database's, which come and go.
    pids: Pids


@dataclass(frozen=True, slots=True)
class Options:
    sizes: Sizes
    rounds: int
    ways: Sequence[ShardSetup]
    #: What the model is asked.
    mixes: Sequence[Mix]
    machines: Machines


def command(
    stories: vote.StoriesOption = 50_000,
    hottest: Annotated[int, typer.Option(min=100, help="Stories in memory.")] = 10_000,
    misses: Annotated[int, typer.Option(min=100, help="Stories read once.")] = 5_000,
    changes: Annotated[int, typer.Option(min=1000, help="Votes in a backlog.")] = 100_000,
    seconds: vote.SecondsOption = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Starts of each side, alternating.")] = 3,
    gateway: Annotated[bool, typer.Option(help="Also measure two pods behind a gateway.")] = False,
    model_changes: Annotated[float, typer.Option(help="Model: changes a second.")] = 1000.0,
    model_misses: Annotated[float, typer.Option(min=0, max=1, help="Model: share of misses.")] = 0.02,
    model_keys: Annotated[int, typer.Option(min=2, help="Model: keys of a batch.")] = 50,
    model_whole: Annotated[float, typer.Option(min=0, max=1, help="Model: share of a fully materialized view.")] = 0.05,
    pod_workers: Annotated[int, typer.Option(min=1, help="Model: API workers of a pod.")] = 2,
    database_cores: Annotated[float, typer.Option(help="Model: cores of the database.")] = 8.0,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """1 and 2 shards with 1 and 2 API workers, and a gateway: rates, CPU time, and a model of up to 64 pods."""
    options = Options(
        Sizes(stories, hottest, misses, changes, seconds),
        rounds,
        (*WAYS, APART) if gateway else WAYS,
        mixes(model_changes, model_misses, model_keys, model_whole),
        Machines(workers=pod_workers, database_cores=database_cores),
    )
    perform(BENCH, lambda conditions, tell: run(options, conditions, tell), as_json=as_json, output=output)


def run(options: Options, conditions: RunConditions, tell: Tell) -> Report:
    """All starts, in turns; then the model."""
    sizes = options.sizes
    turns: dict[ShardSetup, list[Turn]] = {way: [] for way in options.ways}
    changes = votes(sizes.stories, _VOTES_EACH, 0.0, sizes.hottest)
    tell(f"{sizes.stories:,} stories with {_VOTES_EACH} votes each: loading")
    with running_upstream(changes.site, changes.load) as upstream:
        for _ in range(options.rounds):
            for way, made in turns.items():
                with _running(way, upstream) as running:
                    made.append(turn(running, sizes, conditions, tell))
    costs = costs_of(turns)
    computed, plots = model(costs, options.mixes, options.machines)
    return Report(
        title="Shards: how far they go",
        about=_about(options),
        results=figures(turns),
        tables=[*tables_of_turns(turns), table_of_costs(costs, turns), *computed],
        plots=plots,
    )


def _about(options: Options) -> str:
    sizes, machines = options.sizes, options.machines
    return (
        f"{sizes.stories:,} stories with their votes, the {sizes.hottest:,} hottest in memory; each side started anew"
        f" in each of {options.rounds} rounds, in turns. Hits and batches: a closed loop of 16 connections for"
        f" {sizes.seconds:g} s, any hot story as likely. Misses: {sizes.misses:,} stories, each read once. Changes:"
        f" {sizes.changes:,} votes, 100 a transaction, written while the engines stand still, and timed from when they"
        " go on until every shard's answers have the last; once before anything was read and once with all voted"
        " stories in memory. All processes that serve share the server's cores: rates of more processes than cores"
        " are no measure of what these could do apart.\n\nComputed: what 1 to 64 shards do, from the CPU time that one"
        f" thing cost each kind of process here; a pod has one engine and {machines.workers} API workers, the database"
        f" {machines.database_cores:g} cores, and {number(options.mixes[0].traffic.changes_per_s)} changes a second"
        " arrive while keys are read. Memory, networks and batches that must be asked again are not in it."
    )


@contextmanager
def _running(way: ShardSetup, upstream: UpstreamDatabase) -> Iterator[RunningSide]:
    # Votes are not written through the side.
    site = replace(votes(1, 1, 0.0, 1).site, writes=())
    if way.gateway:
        settings = PodSettings(workers=way.workers // way.shards, memory=_MEMORY)
        with running_pods(upstream, site, way.shards, settings) as gateway:
            pods = gateway.behind.pods
            kinds = _kinds([pid for pod in pods for pid in pod.pids()])
            gateways = _kinds(processes.family(gateway.served.pid))[WORKER]
            yield RunningSide(gateway.side, upstream, {**kinds, GATEWAY: gateways})
        return
    sections = {"engine": {"shards": way.shards}}
    with upquery(_MEMORY, workers=way.workers, name=way.name, sections=sections)(upstream, site) as side:
        yield RunningSide(side, upstream, _kinds(side.pids()))


def _kinds(pids: Sequence[int]) -> Pids:
    """Children of the supervisors by kind: their names are the last words of their commands."""
    names = {
        pid: title.split()[-1] for pid in pids if "service.supervisor.child_main" in (title := processes.title(pid))
    }
    prefixes = {ENGINE: "engine", READER: "stream", WORKER: "worker"}
    found = {kind: [pid for pid in names if names[pid].startswith(prefix)] for kind, prefix in prefixes.items()}
    return {kind: of_kind for kind, of_kind in found.items() if of_kind}


def turn(running: RunningSide, sizes: Sizes, conditions: RunConditions, tell: Tell) -> Turn:
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
    def __init__(self, running: RunningSide, sizes: Sizes, conditions: RunConditions) -> None:
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
            token = log_end(database)
            reply = connection.ask(read_many([(VIEW, {"id": story}) for story in ids], token))
        if reply.status != 200:
            raise SideError(f"{self._running.side.name}: {reply.status} {reply.body[:300].decode(errors='replace')}")
        found = [[[*row.values()] for row in result["rows"]] for result in orjson.loads(reply.body)["results"]]
        if found != [expected[story] for story in ids]:
            raise SideError(f"{self._running.side.name}: answers are not the database's")

    def _shows(self, position: str) -> bool:
        """Return whether answers are as new for enough keys that each shard has some; nobody votes for these."""
        last = self._sizes.stories
        keys = [(VIEW, {"id": story}) for story in range(last - _COMPARED + 1, last + 1)]
        with self._connection() as connection:
            return connection.ask(read_many(keys, position)).status == 200

    def _loop(self, requests: Sequence[bytes], *, once: bool = False) -> Rate:
        loop = Loop(
            self._running.side.reads_url, requests, self._sizes.seconds, once, cores=self._conditions.client_cores
        )
        with _Used(self._pids) as used:
            done = run_loop(loop)
        if not once and done.hits < _HITS * done.requests:
            raise SideError(f"{self._running.side.name}: {done.hits} of {done.requests} requests were hits")
        return used.rate(done.requests, done.seconds, done.client_cpu_s / done.seconds)

    def _vote(self, changes: int) -> str:
        """The log's end after so many votes, each story as often."""
        with psycopg.connect(self._running.upstream.url, autocommit=True) as connection:
            ChangeWriter(connection, self._sizes.hottest, 0.0, MANY).write(changes)
            return log_end(connection)

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
    """Stops the processes (SIGSTOP) inside, and continues them in any case afterwards."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
