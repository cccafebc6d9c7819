"""The clients of `resharding`, each in a process of its own, and the check of the answers that they got.

The reader is open-loop: each of its threads has a Poisson process of its own, and a read's time counts from when it was
due. Half of the reads are of one key, half of some keys and the number of transactions, all in one request.

*Theory*: there is one writer. After each commit it asks for the end of the database's log. So its transaction k is
included in every version from that end on, and in none up to the end that it got before; a version in between may be of
either side of the commit. Answers that count the transactions themselves say exactly which they include.
"""

from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from random import Random
from threading import Event
from time import monotonic, sleep
from typing import Any

import orjson
import psycopg

from load.driver.arrivals import Arrivals
from load.driver.connection import Broken, SingleConnection
from load.driver.visit import HttpCall, get, read_many
from load.postgres_log import log_end, log_position
from load.workloads.front_page import TICKS, Change, FrontPageWriter
from load.workloads.vote import VIEW

#: Threads of the reader, and so the most reads under way.
THREADS = 8
#: Keys of a request with several.
BATCH = 8
#: Stories that half of what is written is about, and half of what is read.
_HOT = 100
_TICK_S = 0.005
_TIMEOUT_S = 30.0
#: Of `STORY_WITH_VOTES`: id, author, title, url, votes.
Row = tuple[int, int, str, str, int]


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """An answer as a reader received it. Times are of `monotonic()`."""

    at: float
    #: From when it was due.
    ms: float
    hit: bool
    position: int
    #: How many transactions it includes, if that was asked, too.
    transactions: int | None
    #: By story, what there was of it.
    rows: tuple[tuple[int, tuple[Row, ...]], ...]


@dataclass(frozen=True, slots=True)
class WriterLog:
    """Transactions of the writer, each with the end of the log after it and the time of that."""

    changes: Sequence[Change]
    ends: Sequence[int]
    times: Sequence[float]


@dataclass(frozen=True, slots=True)
class FailedRead:
    """A read that was not answered, or not with 200."""

    at: float
    reason: str


@dataclass(frozen=True, slots=True)
class ReadJob:
    url: str
    stories: int
    rate: float


def write_on(pipe: Pipe, url: str, stories: int, rate: float) -> None:
    """Writes at a rate from the start command to the end command; sends its `WriterLog`."""
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
                ends.append(log_position(log_end(connection)))
            else:
                sleep(_TICK_S)
        pipe.send(WriterLog(writer.log, ends, times))


def read_on(pipe: Pipe, job: ReadJob) -> None:
    """Reads at a rate from the start command to the end command; sends all answers and failures."""
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


def _read(job: ReadJob, number: int, over: Event) -> tuple[list[ReadAnswer], list[FailedRead]]:
    random = Random(number)
    arrivals = Arrivals(job.rate / THREADS, monotonic(), f"reader {number}")
    answers: list[ReadAnswer] = []
    failures: list[FailedRead] = []
    with SingleConnection(job.url, job.url, _TIMEOUT_S) as connection:
        while not over.wait(max(0.0, arrivals.due - monotonic())):
            due = arrivals.step()
            stories = _stories(random, job.stories)
            try:
                reply = connection.ask(_request(stories))
            except (OSError, Broken) as error:
                failures.append(FailedRead(monotonic(), f"{type(error).__name__}: {error}"))
                continue
            at = monotonic()
            if reply.status != 200:
                failures.append(FailedRead(at, f"{reply.status} {reply.body[:300].decode(errors='replace')}"))
            else:
                answers.append(answer_of(stories, orjson.loads(reply.body), bool(reply.hit), at, 1000 * (at - due)))
    return answers, failures


def _stories(random: Random, stories: int) -> list[int]:
    last = min(_HOT, stories) if random.random() < 0.5 else stories
    return [random.randint(1, last) for _ in range(BATCH if random.random() < 0.5 else 1)]


def _request(stories: Sequence[int]) -> HttpCall:
    if len(stories) == 1:
        return get(VIEW, {"id": stories[0]})
    return read_many([*((VIEW, {"id": story}) for story in stories), (TICKS.name, {})])


def answer_of(stories: Sequence[int], body: dict[str, Any], hit: bool, at: float, ms: float) -> ReadAnswer:
    """The answer that a body is, to a request for these stories."""
    position = log_position(body["version"])
    if len(stories) == 1:
        return ReadAnswer(at, ms, hit, position, None, ((stories[0], _rows(body)),))
    *results, ticks = body["results"]
    transactions = int(ticks["rows"][0]["n"])
    rows = tuple((story, _rows(result)) for story, result in zip(stories, results, strict=True))
    return ReadAnswer(at, ms, hit, position, transactions, rows)


def _rows(result: dict[str, Any]) -> tuple[Row, ...]:
    return tuple((row["id"], row["author"], row["title"], row["url"], row["votes"]) for row in result["rows"])


@dataclass(slots=True)
class _Story:
    """After which transactions it was another, and what."""

    transactions: list[int] = field(default_factory=list)
    states: list[tuple[int, str]] = field(default_factory=list)


class Histories:
    """All stories, of which each began with as many votes."""

    def __init__(self, written: WriterLog, votes_each: int) -> None:
        self._written = written
        self._votes_each = votes_each
        self._stories: dict[int, _Story] = {}
        for number, (story, votes, title) in enumerate(written.changes, start=1):
            its = self._stories.setdefault(story, _Story())
            before = its.states[-1] if its.states else self._first(story)
            its.transactions.append(number)
            its.states.append((before[0] + votes, before[1] if title is None else title))

    def row(self, story: int, transactions: int) -> Row:
        votes, title = self._first(story)
        if its := self._stories.get(story):
            last = bisect_right(its.transactions, transactions)
            votes, title = its.states[last - 1] if last else (votes, title)
        return (story, story % 50000, title, f"https://news.example/stories/{story}", votes)

    def included(self, position: int) -> tuple[int, int]:
        """At least and at most so many transactions are in answers of this version."""
        least = bisect_right(self._written.ends, position)
        before = self._written.ends[least - 1] if least else 0
        return least, min(len(self._written.ends), least + (position > before))

    def what_is_wrong(self, answer: ReadAnswer) -> str | None:
        """Nothing, if each row is what it must be."""
        least, most = self.included(answer.position)
        numbers: Sequence[int] = range(least, most + 1)
        if answer.transactions is not None:
            if answer.transactions not in numbers:
                return f"{answer.transactions} transactions at a version with {least} to {most}"
            numbers = (answer.transactions,)
        # One number for all rows: they are of one version.
        if any(all(rows == (self.row(story, number),) for story, rows in answer.rows) for number in numbers):
            return None
        told = [(story, rows, self.row(story, numbers[-1])) for story, rows in answer.rows]
        story, rows, expected = next((one for one in told if one[1] != (one[2],)), told[0])
        return f"story {story} after {numbers[-1]} transactions: {rows} instead of {expected}"

    def behind_s(self, answer: ReadAnswer) -> float:
        """Seconds since the commit of the first transaction that the answer does not include."""
        _, included = self.included(answer.position)
        if answer.transactions is not None:
            included = answer.transactions
        times = self._written.times
        return max(0.0, answer.at - times[included]) if included < len(times) else 0.0

    def _first(self, story: int) -> tuple[int, str]:
        return self._votes_each, f"The story with the number {story}"
