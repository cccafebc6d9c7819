"""From a commit to the answer that shows it, while 500 transactions a second are committed.

Every transaction casts a vote and changes a score. Now and then one votes on a story that a reader watches: from the
moment its commit returned, the story is read over and over until the answer has the vote. A reader's round trip is part
of the figure.
"""

import threading
from itertools import count
from time import perf_counter, sleep

import psycopg

from load.figures.demo_site import STORIES, DemoSite
from load.plain_http import PlainClient
from load.progress import number
from load.report.figures import Figure, Measurement, Result
from load.sides.side import SideError

BENCH = "freshness"
RATE_PER_S = 500.0
#: One transaction in so many is watched.
WATCHED = 10
#: Votes on this story are the watched ones.
STORY = STORIES
_GIVE_UP_S = 5.0
_PERCENTILES = ((50, 5.0), (99, 25.0))
_runs = count(1)


class VoteThread(threading.Thread):
    """Votes at a steady rate until it is stopped."""

    def __init__(self, database: str, per_second: float, voter: str) -> None:
        super().__init__(name="writer", daemon=True)
        self._database = database
        self._interval = 1 / per_second
        self._voter = voter
        self._stop_asked = threading.Event()
        self.transactions = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            self._write()
        except psycopg.Error as error:
            self.failure = error

    def _write(self) -> None:
        with psycopg.connect(self._database, autocommit=True) as connection:
            due = perf_counter()
            while not self._stop_asked.is_set():
                due = max(due + self._interval, perf_counter() - 1)
                sleep(max(0.0, due - perf_counter()))
                story = self.transactions % (STORIES - 1) + 1
                vote(connection, story, f"{self._voter}-{self.transactions // (STORIES - 1)}")
                self.transactions += 1

    def stop(self) -> None:
        """Stop, and say why it had stopped before if it had."""
        self._stop_asked.set()
        self.join()
        if self.failure:
            raise self.failure


def vote(connection: psycopg.Connection, story: int, voter: str) -> None:
    with connection.pipeline(), connection.transaction():
        connection.execute("INSERT INTO votes (story_id, user_id, value) VALUES (%s, %s, 1)", (story, voter))
        connection.execute("UPDATE stories SET score = score + 1 WHERE id = %s", (story,))


def run(site: DemoSite, seconds: int, cores: tuple[int, int] | None) -> list[Result]:  # noqa: ARG001
    run_name = f"fresh-{next(_runs)}"
    with psycopg.connect(site.database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO users (name, display_name, joined) SELECT %s || n, 'Bench', current_date"
            " FROM generate_series(0, 20000) n",
            (f"{run_name}-",),
        )
        writer = VoteThread(site.database, RATE_PER_S * (1 - 1 / WATCHED), run_name)
        writer.start()
        started = perf_counter()
        try:
            delays = _watch(site, connection, run_name, seconds * 4)
        finally:
            writer.stop()
        elapsed = perf_counter() - started
    rate = (writer.transactions + len(delays)) / elapsed
    detail = f"{len(delays)} of {writer.transactions + len(delays):,} commits watched, at {number(rate)} a second"
    delays.sort()
    return [
        Figure(
            BENCH,
            f"commit to visible, p{p}",
            Measurement(_percentile(delays, p), delays[0], delays[-1]),
            "ms",
            goal,
            more_is_better=False,
            detail=detail,
        )
        for p, goal in _PERCENTILES
    ]


def _watch(site: DemoSite, connection: psycopg.Connection, voter: str, seconds: float) -> list[float]:
    """Milliseconds from each watched commit to the answer that shows it."""
    target = f"/v1/views/story_with_votes?id={STORY}"
    interval = WATCHED / RATE_PER_S
    delays: list[float] = []
    with PlainClient(site.api) as client:
        votes = client.read(target)[0]["votes"]
        end = perf_counter() + seconds
        due = perf_counter()
        while perf_counter() < end:
            due = max(due + interval, perf_counter())
            sleep(max(0.0, due - perf_counter()))
            vote(connection, STORY, f"{voter}-{len(delays) + 1}")
            committed = perf_counter()
            votes += 1
            while client.read(target)[0]["votes"] < votes:
                if perf_counter() > committed + _GIVE_UP_S:
                    raise SideError(f"a commit was not visible within {_GIVE_UP_S:.0f} s")
            delays.append((perf_counter() - committed) * 1000)
    return delays


def _percentile(ordered: list[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
