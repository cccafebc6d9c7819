"""One build of a view over all rows of its tables, under transactions: its duration, its effect on other readers, and
the check of its answers at every version.

*Invariants*: an answer is compared with the front page after exactly the transactions that it includes; answers that
are never compared are reported.

Not here: which builds are compared (`initial_state`, `killed_builds`).
"""

import itertools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from random import Random
from threading import Event
from time import monotonic, sleep
from typing import Any

import httpx
import orjson
import psycopg

from load import processes
from load.driver.connection import Broken, SingleConnection
from load.driver.visit import HttpReply, checkpoint, get, read_many
from load.experiments.warm_up import read_all
from load.progress import Tell
from load.sides.admin_client import AdminClient
from load.sides.side import Side, SideError, UpstreamDatabase
from load.sides.upquery import upquery
from load.worker_process import ended, worker_process
from load.workloads.front_page import FRONT_PAGE, SITE, TICKS, Change, FrontPageWriter, Truth
from load.workloads.vote import STORY_WITH_VOTES

WAYS = ("spark", "direct")
_TICK_S = 0.005
_READ_S = 0.1
_SAMPLE_S = 0.5
#: Reads of another view, which hit, a second; and of how many keys.
_HITS = 200.0
_WARM_KEYS = 1000
_KEYS_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class BuildConditions:
    """Parameters of a build, and of the load beside it."""

    stories: int
    #: Transactions a second.
    rate: float
    before_s: float
    after_s: float
    patience_s: float
    #: Stories of the other view that are compared at the end.
    compared: int
    master: str = "local[2]"
    spark: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FrontPageAnswer:
    """The front page, and how many transactions it includes."""

    at: float
    transactions: int
    rows: list[list[Any]]


@dataclass(slots=True)
class Built:
    """Measurements of a build. Times are seconds from the request for the view."""

    way: str
    ready_s: float | None = None
    #: (time, milliseconds) of hits of another view.
    hits: list[tuple[float, float]] = field(default_factory=list)
    #: (time, transactions written so far).
    written: list[tuple[float, int]] = field(default_factory=list)
    #: (time, MiB of the engine's process, MiB of Spark's processes).
    memory: list[tuple[float, float, float]] = field(default_factory=list)
    versions: int = 0
    wrong_versions: int = 0
    compared: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)
    #: What was ended, and when.
    ended: str = ""

    def hits_between(self, begin: float, end: float) -> list[float]:
        """Latencies of hits in ms, ascending."""
        return sorted(ms for at, ms in self.hits if begin <= at < end)

    def longest_block_s(self, begin: float, end: float) -> float:
        """The longest time in which no hit was answered."""
        times = [begin, *(at for at, _ in self.hits if begin <= at < end), end]
        return max((after - before for before, after in itertools.pairwise(times)), default=0.0)

    def rate_between(self, begin: float, end: float) -> float:
        inside = [(at, count) for at, count in self.written if begin <= at < end]
        if len(inside) < 2:
            return 0.0
        return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


#: Is run beside the build, from when the view was asked for; says what it did.
Meanwhile = Callable[[Side, Event], str]


def build(
    way: str, upstream: UpstreamDatabase, conditions: BuildConditions, tell: Tell, meanwhile: Meanwhile | None = None
) -> Built:
    """Build it once, on a service of its own."""
    sections: dict[str, dict[str, Any]] = {
        "engine": {"load_rows": max(1000, min(20_000, conditions.stories // 4))},
        # Each read that comes too early is a warning.
        "log": {"level": "error"},
    }
    if way == "spark":
        threshold = min(1_000_000, conditions.stories // 2)
        sections["spark"] = {"master": conditions.master, "threshold_rows": threshold, **conditions.spark}
    _forget_transactions(upstream)
    truth = Truth.before(upstream.url, conditions.stories)
    with upquery("16GiB", name=f"Upquery, {way}", sections=sections)(upstream, SITE) as side:
        keys = min(_WARM_KEYS, conditions.stories)
        read_all(side, STORY_WITH_VOTES.name, ({"id": story} for story in range(1, keys + 1)), keys, tell)
        with (
            worker_process(_write, upstream.url, conditions.stories, conditions.rate) as writer,
            worker_process(_hit, side.reads_url, side.writes_url, keys) as hitter,
            ThreadPoolExecutor(4) as threads,
        ):
            run = _Run(way, side, upstream, conditions, truth, tell, threads)
            try:
                return run.build(writer, hitter, meanwhile)
            finally:
                # Also after an error: what watches would not end.
                run.stop.set()


class _Run:
    def __init__(
        self,
        way: str,
        side: Side,
        upstream: UpstreamDatabase,
        conditions: BuildConditions,
        truth: Truth,
        tell: Tell,
        threads: ThreadPoolExecutor,
    ) -> None:
        self._built = Built(way)
        self._side = side
        self._upstream = upstream
        self._conditions = conditions
        self._truth = truth
        self._tell = tell
        self._threads = threads
        self._answers: list[FrontPageAnswer] = []
        self._began = 0.0
        self.stop = Event()

    def build(self, writer: Pipe, hitter: Pipe, meanwhile: Meanwhile | None) -> Built:
        conditions, built = self._conditions, self._built
        for pipe in (writer, hitter):
            pipe.send(None)
        self.stop.wait(conditions.before_s)
        self._began = monotonic()
        self._tell(f"{built.way}: the front page is asked for")
        asking = self._threads.submit(self._ask)
        sampling = self._threads.submit(self._sample)
        doing = self._threads.submit(meanwhile, self._side, self.stop) if meanwhile is not None else None
        self._read()
        self.stop.set()
        hits, written = ended(hitter), ended(writer)
        asking.result()
        sampling.result()
        built.ended = doing.result() if doing is not None else ""
        built.hits = [(at - self._began, ms) for at, ms in hits]
        built.written = [(at - self._began, count) for at, count in written[0]]
        self._compare_versions(written[1])
        self._compare_keys()
        return built

    def _ask(self) -> None:
        # While the engine is started again, nobody takes it; it may have been taken all the same.
        admin = AdminClient.of(self._side)
        while not self.stop.is_set():
            with suppress(httpx.HTTPError, SideError):
                admin.put(FRONT_PAGE.name, FRONT_PAGE.sql)
                return
            self.stop.wait(1.0)

    def _read(self) -> None:
        """Until it has been readable for some time, or patience ends."""
        end = self._began + self._conditions.patience_s
        request = read_many([(FRONT_PAGE.name, {}), (TICKS.name, {})])
        with SingleConnection(self._side.reads_url, self._side.writes_url, 30) as connection:
            while monotonic() < end:
                with suppress(OSError, Broken):
                    reply = connection.ask(request)
                    if reply.status == 200:
                        self._answers.append(_answer(reply, monotonic() - self._began))
                if self._answers and self._built.ready_s is None:
                    self._built.ready_s = self._answers[0].at
                    self._tell(f"{self._built.way}: readable after {self._built.ready_s:.1f} s")
                    end = monotonic() + self._conditions.after_s
                sleep(_READ_S)

    def _sample(self) -> None:
        pids: list[int] = []
        while not self.stop.wait(_SAMPLE_S):
            with suppress(OSError, ValueError, IndexError):
                pids = self._side.pids()
                engine, spark = engine_of(pids), spark_of(pids)
                at = monotonic() - self._began
                self._built.memory.append(
                    (at, processes.resident_bytes(engine) / 2**20, processes.resident_bytes(spark) / 2**20)
                )

    def _compare_versions(self, log: list[Change]) -> None:
        """Each answer with the front page after the transactions that it includes."""
        built = self._built
        truth = self._truth
        truth.log = log
        for answer in sorted(self._answers, key=lambda answer: answer.transactions):
            expected = [list(row) for row in truth.after(answer.transactions)]
            built.versions += 1
            if answer.rows != expected:
                built.wrong_versions += 1
                built.examples.append(f"after {answer.transactions}: {answer.rows[:3]} instead of {expected[:3]}")
        self._tell(f"{built.way}: {built.wrong_versions} of {built.versions} versions are wrong")

    def _compare_keys(self) -> None:
        """With the writer ended: the front page, and stories, with the database."""
        built, stories = self._built, self._conditions.stories
        if built.ready_s is None:
            return
        some = sorted({1, stories, *Random(1).sample(range(1, stories + 1), min(stories, self._conditions.compared))})
        with (
            SingleConnection(self._side.reads_url, self._side.writes_url, 120) as connection,
            psycopg.connect(self._upstream.url, autocommit=True) as database,
        ):
            version = _version(connection)
            page = [[*row] for row in database.execute(FRONT_PAGE.sql.encode()).fetchall()]
            (found,) = _rows(connection, [(FRONT_PAGE.name, {})], version)
            self._note("front page", found, page)
            for start in range(0, len(some), _KEYS_AT_ONCE):
                ids = some[start : start + _KEYS_AT_ONCE]
                sql = STORY_WITH_VOTES.sql.replace("s.id = :id", "s.id = ANY(%s)")
                expected = {row[0]: [[*row]] for row in database.execute(sql.encode(), [ids]).fetchall()}
                answers = _rows(connection, [(STORY_WITH_VOTES.name, {"id": story}) for story in ids], version)
                for story, rows in zip(ids, answers, strict=True):
                    self._note(f"story {story}", rows, expected.get(story, []))

    def _note(self, what: str, found: list[list[Any]], expected: list[list[Any]]) -> None:
        self._built.compared += 1
        if found != expected:
            self._built.wrong += 1
            self._built.examples.append(f"{what}: {found[:3]} instead of {expected[:3]}")


def engine_of(pids: list[int]) -> list[int]:
    """The process that takes most memory of those that are Python's, and no job: the engine's."""
    mine = [
        pid
        for pid in pids
        if "service.supervisor.child_main" in processes.title(pid) and "builds" not in processes.title(pid)
    ]
    return sorted(mine, key=lambda pid: processes.resident_bytes([pid]))[-1:]


def spark_of(pids: list[int]) -> list[int]:
    """A job and what it started."""
    jobs = [pid for pid in pids if "dataflow.spark.build" in processes.title(pid)]
    return sorted({member for job in jobs for member in processes.family(job)})


def _forget_transactions(upstream: UpstreamDatabase) -> None:
    with psycopg.connect(upstream.url, autocommit=True) as connection:
        connection.execute("TRUNCATE ticks")


def _answer(reply: HttpReply, at: float) -> FrontPageAnswer:
    page, ticks = (result["rows"] for result in orjson.loads(reply.body)["results"])
    return FrontPageAnswer(at, int(ticks[0]["n"]), [list(row.values()) for row in page])


def _version(connection: SingleConnection) -> str:
    return str(orjson.loads(connection.ask(checkpoint()).body)["version"])


def _rows(connection: SingleConnection, reads: list[tuple[str, Mapping[str, Any]]], version: str) -> list[list[Any]]:
    reply = connection.ask(read_many(reads, version))
    if reply.status != 200:
        raise SideError(f"{reply.status} {reply.body[:300].decode(errors='replace')}")
    return [[list(row.values()) for row in result["rows"]] for result in orjson.loads(reply.body)["results"]]


# Processes beside the build


def _write(pipe: Pipe, url: str, stories: int, rate: float) -> None:
    """Writes at a rate from the start command to the end command; sends the changes, and their number over time."""
    with psycopg.connect(url, autocommit=True) as connection:
        writer = FrontPageWriter(connection, stories)
        pipe.send(None)
        pipe.recv()
        begin = monotonic()
        told: list[tuple[float, int]] = []
        while not pipe.poll():
            now = monotonic()
            due = int(rate * (now - begin)) - len(writer.log)
            writer.write(min(due, 100))
            if not told or now - told[-1][0] >= 0.25:
                told.append((now, len(writer.log)))
            if due <= 0:
                sleep(_TICK_S)
        pipe.send((told, writer.log))


def _hit(pipe: Pipe, reads_url: str, writes_url: str, keys: int) -> None:
    """Reads keys that are in memory, one after the other, until the end command; sends times and milliseconds."""
    told: list[tuple[float, float]] = []
    pipe.send(None)
    pipe.recv()
    requests = [get(STORY_WITH_VOTES.name, {"id": story}) for story in range(1, keys + 1)]
    begin, count = monotonic(), 0
    with SingleConnection(reads_url, writes_url, 30) as connection:
        while not pipe.poll():
            count += 1
            sleep(max(0.0, begin + count / _HITS - monotonic()))
            sent = monotonic()
            with suppress(OSError, Broken):
                if connection.ask(requests[count % keys]).status == 200:
                    answered = monotonic()
                    told.append((answered, 1000 * (answered - sent)))
    pipe.send(told)
