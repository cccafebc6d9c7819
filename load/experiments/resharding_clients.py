"""The processes beside a change of the number of shards: one writes, one reads and keeps what it was told.

The reader is open-loop: each of its threads has a Poisson process of its own, and a read's time counts from when it was
due. Half of the reads are of one key, half of some keys and the number of transactions, all in one request.

Not here: what the answers must be (`resharding_truth`).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from random import Random
from threading import Event
from time import monotonic, sleep
from typing import Any

import orjson
import psycopg

from load.driver.arrivals import Arrivals
from load.driver.connection import Broken, SingleConnection
from load.driver.visit import Call, get, read_many
from load.experiments.resharding_truth import Answer, Row, Written
from load.workloads.front_page import TICKS, FrontPageWriter
from load.workloads.vote import VIEW

#: Threads of the reader, and so the most reads under way.
THREADS = 8
#: Keys of a request with several.
BATCH = 8
#: Stories that half of what is written is about, and half of what is read.
_HOT = 100
_TICK_S = 0.005
_TIMEOUT_S = 30.0
_END = b"SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"


@dataclass(frozen=True, slots=True)
class Failure:
    """A read that was not answered, or not with 200."""

    at: float
    reason: str


@dataclass(frozen=True, slots=True)
class ReadJob:
    """What the reader does."""

    url: str
    stories: int
    rate: float


def write_on(pipe: Pipe, url: str, stories: int, rate: float) -> None:
    """Writes at a rate from when it is told to until it is told to end; says what was `Written`."""
    ends: list[int] = []
    times: list[float] = []
    with psycopg.connect(url, autocommit=True) as connection:
        writer = FrontPageWriter(connection, stories)
        pipe.send(None)
        pipe.recv()
        begin = monotonic()
        while not pipe.poll():
            if len(ends) < int(rate * (monotonic() - begin)):
                writer.write(1)
                times.append(monotonic())
                row = connection.execute(_END).fetchone()
                assert row is not None
                ends.append(int(row[0]))
            else:
                sleep(_TICK_S)
        pipe.send(Written(writer.log, ends, times))


def read_on(pipe: Pipe, job: ReadJob) -> None:
    """Reads at a rate from when it is told to until it is told to end; says all answers and failures."""
    pipe.send(None)
    pipe.recv()
    over = Event()
    with ThreadPoolExecutor(THREADS) as threads:
        reading = [threads.submit(_read, job, number, over) for number in range(THREADS)]
        pipe.recv()
        over.set()
        told = [its.result() for its in reading]
    answers = [answer for answers, _ in told for answer in answers]
    failures = [failure for _, failures in told for failure in failures]
    pipe.send((answers, failures))


def _read(job: ReadJob, number: int, over: Event) -> tuple[list[Answer], list[Failure]]:
    random = Random(number)
    arrivals = Arrivals(job.rate / THREADS, monotonic(), f"reader {number}")
    answers: list[Answer] = []
    failures: list[Failure] = []
    with SingleConnection(job.url, job.url, _TIMEOUT_S) as connection:
        while not over.wait(max(0.0, arrivals.due - monotonic())):
            due = arrivals.step()
            stories = _stories(random, job.stories)
            try:
                reply = connection.ask(_request(stories))
            except (OSError, Broken) as error:
                failures.append(Failure(monotonic(), f"{type(error).__name__}: {error}"))
                continue
            at = monotonic()
            if reply.status != 200:
                failures.append(Failure(at, f"{reply.status} {reply.body[:300].decode(errors='replace')}"))
            else:
                answers.append(answer_of(stories, orjson.loads(reply.body), bool(reply.hit), at, 1000 * (at - due)))
    return answers, failures


def _stories(random: Random, stories: int) -> list[int]:
    """One, or several."""
    last = min(_HOT, stories) if random.random() < 0.5 else stories
    return [random.randint(1, last) for _ in range(BATCH if random.random() < 0.5 else 1)]


def _request(stories: Sequence[int]) -> Call:
    if len(stories) == 1:
        return get(VIEW, {"id": stories[0]})
    return read_many([*((VIEW, {"id": story}) for story in stories), (TICKS.name, {})])


def answer_of(stories: Sequence[int], body: dict[str, Any], hit: bool, at: float, ms: float) -> Answer:
    """The answer that a body is, to a request for these stories."""
    position = position_of(body["version"])
    if len(stories) == 1:
        return Answer(at, ms, hit, position, None, ((stories[0], _rows(body)),))
    *results, ticks = body["results"]
    transactions = int(ticks["rows"][0]["n"])
    rows = tuple((story, _rows(result)) for story, result in zip(stories, results, strict=True))
    return Answer(at, ms, hit, position, transactions, rows)


def position_of(version: str) -> int:
    """The place in PostgreSQL's log: ``pg:0/16B3748``."""
    high, _, low = version.removeprefix("pg:").partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def _rows(result: dict[str, Any]) -> tuple[Row, ...]:
    return tuple((row["id"], row["author"], row["title"], row["url"], row["votes"]) for row in result["rows"])
