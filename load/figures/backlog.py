"""End to end: how fast a backlog of the database's log is drained into the answers.

Every story's number of votes is in memory, so each change matters. The engine process is stopped (SIGSTOP) while the
votes are written, and timed from when it goes on until answers are as new as the last vote: reading the stream,
decoding, the dataflow and the commits into the leaf store are all in it.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from load import processes
from load.figures.demo_site import STORIES, DemoSite
from load.figures.votes import BATCH, cast_votes
from load.progress import number
from load.report.figures import Figure, Measurement, Result
from load.sides.side import SideError

BENCH = "backlog"
CHANGES = 200_000
ROUNDS = 3


@contextmanager
def stopped_engine(site: DemoSite) -> Iterator[None]:
    """The engine process stands still inside, and goes on in any case afterwards."""
    engine = site.engine
    os.kill(engine, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(engine, signal.SIGCONT)


def warm_all_stories(site: DemoSite) -> None:
    """Every key of ``story_with_votes`` is in memory afterwards."""
    site.warm("story_with_votes", [{"id": story} for story in range(1, STORIES + 1)])


def run(site: DemoSite, seconds: int, cores: tuple[int, int] | None) -> list[Result]:  # noqa: ARG001
    """Drain it a few times."""
    warm_all_stories(site)
    if cores:
        processes.pin([site.engine], cores[0])
        processes.pin([*site.database_processes(), site.worker], cores[1])
    rates, cpu = [], []
    for _ in range(ROUNDS):
        before_votes = _votes(site)
        engine_cpu = processes.cpu_seconds([site.engine])
        with stopped_engine(site):
            backlog = cast_votes(site.database, CHANGES)
            position = site.position()
        elapsed = site.wait_for(position)
        rates.append(backlog.changes / elapsed)
        cpu.append((processes.cpu_seconds([site.engine]) - engine_cpu) / backlog.changes * 1e6)
        if _votes(site) != before_votes + backlog.changes // STORIES:
            raise SideError("the backlog was drained, and the answer is wrong")
    detail = f"transactions of {BATCH} votes; {number(Measurement.of(cpu).median)} µs of the engine's CPU a change"
    return [Figure(BENCH, "draining a backlog, changes", Measurement.of(rates), "/s", 30_000, detail=detail)]


def _votes(site: DemoSite) -> int:
    return int(site.read("story_with_votes", id=1).json()["rows"][0]["votes"])
