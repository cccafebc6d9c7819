"""Hits: one row of ``story_with_votes`` from one API worker, against an empty answer, Redis and the query itself.

All sides run on uvicorn with the same settings, the server's processes on core 0 and wrk on core 1, in turns.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec

import httpx

from load import processes
from load.figures.demo_site import Site
from load.peer_server import running_peer, running_redis
from load.programs import MissingProgramError
from load.report.figures import Figure, Result, Skipped, Spread, number
from load.wrk import run_wrk

BENCH = "hits"
STORY = 7
ROUNDS = 5


@dataclass(slots=True)
class Side:
    """Something that answers, and what was measured of it."""

    name: str
    url: str
    pids: Callable[[], list[int]]
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def measure(self, seconds: int, cores: tuple[int, int] | None) -> None:
        """One turn."""
        pids = self.pids()
        if cores:
            processes.pin(pids, cores[0])
        before = processes.cpu_seconds(pids)
        run = run_wrk(self.url, seconds, cores[1] if cores else None)
        used = processes.cpu_seconds(pids) - before
        self.rates.append(run.per_second)
        self.cpu_us.append(used / run.requests * 1e6)


def run(site: Site, seconds: int, cores: tuple[int, int] | None) -> list[Result]:
    """Upquery beside its peers; each turn of each side takes `seconds`."""
    results: list[Result] = []
    hit = site.read("story_with_votes", id=STORY)
    with ExitStack() as stack:
        ours = Side("Upquery", site.view_url("story_with_votes", id=STORY), lambda: [site.worker])
        sides = [ours, _empty(stack, hit)]
        goals: dict[str, float | None] = {"an empty ASGI response": 0.85}
        if find_spec("psycopg_pool") is None or find_spec("redis") is None:
            results.append(Skipped(BENCH, "Redis and PostgreSQL peers: pip install 'upquery[bench]'"))
        else:
            sides.append(_postgres(stack, site))
            goals["FastAPI + PostgreSQL"] = 20
            try:
                sides.append(_redis(stack, site))
                goals["FastAPI + Redis cache-aside"] = 5
            except MissingProgramError as missing:
                results.append(Skipped(BENCH, f"Redis peer: {missing}"))
        for side in sides:
            side.measure(1, cores)
            side.rates.clear()
            side.cpu_us.clear()
        for _ in range(ROUNDS):
            for side in sides:
                side.measure(seconds, cores)
    figures = [_figure(ours, peer, goals[peer.name]) for peer in sides[1:]]
    return [*figures, *results]


def _figure(ours: Side, peer: Side, goal: float | None) -> Figure:
    ratios = [mine / theirs for mine, theirs in zip(ours.rates, peer.rates, strict=True)]
    mine, theirs = Spread.of(ours.rates).median, Spread.of(peer.rates).median
    cpu = f"{Spread.of(ours.cpu_us).median:.0f} against {Spread.of(peer.cpu_us).median:.0f} µs of server CPU a request"
    detail = f"{number(mine)}/s against {number(theirs)}/s; {cpu}"
    return Figure(BENCH, f"hit throughput / {peer.name}", Spread.of(ratios), "x", goal, detail=detail)


def _empty(stack: ExitStack, hit: httpx.Response) -> Side:
    """The same headers and length as the hit."""
    names = [(name, value) for name, value in hit.headers.multi_items() if name not in ("date", "server")]
    answer = json.dumps({"headers": names, "body": "x" * len(hit.content)})
    peer = stack.enter_context(running_peer("empty", {"PEER_ANSWER": answer}))
    return Side("an empty ASGI response", f"{peer.url}?id={STORY}", lambda: list(peer.pids))


def _postgres(stack: ExitStack, site: Site) -> Side:
    peer = stack.enter_context(running_peer("postgres_query", {"PEER_DATABASE": site.database}))
    return Side("FastAPI + PostgreSQL", f"{peer.url}?id={STORY}", lambda: [*peer.pids, *site.database_processes()])


def _redis(stack: ExitStack, site: Site) -> Side:
    url, redis = stack.enter_context(running_redis())
    environment = {"PEER_REDIS": url, "PEER_DATABASE": site.database}
    peer = stack.enter_context(running_peer("redis_cache", environment, (redis,)))
    return Side("FastAPI + Redis cache-aside", f"{peer.url}?id={STORY}", lambda: list(peer.pids))
