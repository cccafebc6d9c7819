"""Hits: one row of ``story_with_votes`` from one API worker, against an empty answer, Redis and the query itself.

All sides run on uvicorn with the same settings, the server's processes on core 0 and wrk on core 1, in turns.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

import httpx

from load import processes
from load.figures.demo_site import DemoSite
from load.figures.story import SITE, story_url, upstream_of
from load.programs import MissingProgramError
from load.progress import number
from load.report.figures import Figure, Measurement, Result, Skipped
from load.sides import cache_aside
from load.sides.direct import direct
from load.sides.empty import empty
from load.sides.side import Side, StartSide
from load.wrk import run_wrk

BENCH = "hits"
STORY = 7
ROUNDS = 5


@dataclass(slots=True)
class Turns:
    """Something that answers, and what was measured of it."""

    name: str
    url: str
    pids: Callable[[], list[int]]
    goal: float | None = None
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def measure(self, seconds: int, cores: tuple[int, int] | None) -> None:
        pids = self.pids()
        if cores:
            processes.pin(pids, cores[0])
        before = processes.cpu_seconds(pids)
        run = run_wrk(self.url, seconds, cores[1] if cores else None)
        used = processes.cpu_seconds(pids) - before
        self.rates.append(run.per_second)
        self.cpu_us.append(used / run.requests * 1e6)


def run(site: DemoSite, seconds: int, cores: tuple[int, int] | None) -> list[Result]:
    """Upquery beside its peers; each turn of each side takes `seconds`."""
    results: list[Result] = []
    hit = site.read("story_with_votes", id=STORY)
    upstream = upstream_of(site)
    with ExitStack() as stack:
        ours = Turns("Upquery", site.view_url("story_with_votes", id=STORY), lambda: [site.worker])
        peers = [
            _turns(stack, "an empty ASGI response", _like(hit)(upstream, SITE), 0.85),
            _turns(stack, "FastAPI + PostgreSQL", direct(upstream, SITE), 20),
        ]
        try:
            peers.append(_turns(stack, "FastAPI + Redis cache-aside", cache_aside.redis()(upstream, SITE), 5))
        except MissingProgramError as missing:
            results.append(Skipped(BENCH, f"Redis peer: {missing}"))
        for side in (ours, *peers):
            side.measure(1, cores)
            side.rates.clear()
            side.cpu_us.clear()
        for _ in range(ROUNDS):
            for side in (ours, *peers):
                side.measure(seconds, cores)
    return [*(_figure(ours, peer) for peer in peers), *results]


def _turns(stack: ExitStack, name: str, starting: AbstractContextManager[Side], goal: float) -> Turns:
    side = stack.enter_context(starting)
    return Turns(name, story_url(side, STORY), side.pids, goal)


def _like(hit: httpx.Response) -> StartSide:
    """A response with the headers and length of a hit, by an application that does nothing else."""
    names = [pair for pair in hit.headers.multi_items() if pair[0] not in ("date", "server", "content-length")]
    return empty(names, "x" * len(hit.content))


def _figure(ours: Turns, peer: Turns) -> Figure:
    ratios = [mine / theirs for mine, theirs in zip(ours.rates, peer.rates, strict=True)]
    mine, theirs = Measurement.of(ours.rates).median, Measurement.of(peer.rates).median
    my_us, their_us = Measurement.of(ours.cpu_us).median, Measurement.of(peer.cpu_us).median
    cpu = f"{my_us:.0f} against {their_us:.0f} µs of server CPU a request"
    detail = f"{number(mine)}/s against {number(theirs)}/s; {cpu}"
    return Figure(BENCH, f"hit throughput / {peer.name}", Measurement.of(ratios), "x", peer.goal, detail=detail)
