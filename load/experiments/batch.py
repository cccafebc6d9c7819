"""``upquery bench batch``: reads of many keys in one request, against Redis ``MGET`` of the same bytes.

Both servers have the answers of all stories of the vote site; all that is measured is getting them out.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Annotated

import orjson
import typer

from load import processes
from load.experiments.batch_clients import (
    BatchRate,
    BatchRun,
    Connect,
    RedisConnection,
    RedisLibrary,
    ServiceLibrary,
    ServiceSocket,
    measure,
)
from load.processes import RunConditions
from load.progress import Tell, number
from load.report.figures import Figure, Measurement
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import Plot, PlotLine, ReportTable
from load.report.report import Report
from load.sides.cache_servers import running_redis
from load.sides.postgres import running_upstream
from load.sides.side import SideError
from load.sides.upquery import upquery
from load.workloads.vote import SITE, load_stories

NAME = "batch"
#: Clients at once, where the servers have to be busy.
BUSY = 3
#: Keys a request for which there is a goal.
KEYS = 100
GOAL = 1.0
#: Keys that are read in one request when everything is filled and compared.
_FILL = 500
_VOTES_EACH = 3
_ABOUT = (
    "Clients read random stories, many keys a request, from Upquery (POST /v1/views/…/query) and from Redis (MGET; a "
    "key's value is the JSON array of rows that Upquery answers). Everything is cached on both sides, and the answers "
    "were compared. Servers run on one core, clients on another, sides in turns. 'Used' answers are made into Python "
    "objects by orjson, one document against one a key; others are only received. The cheapest clients are a socket "
    "with httptools against a connection of redis-py with hiredis, the others http.client against redis-py's mget."
)
SHORT = ("--stories", "2000", "--seconds", "0.5", "--rounds", "1")


@dataclass(frozen=True, slots=True)
class BatchSide:
    """A server with clients of both levels."""

    name: str
    cheapest: Connect
    library: Connect
    pids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Case:
    """One way of reading, compared between the sides."""

    keys: int
    processes: int
    used: bool
    cheapest: bool = True

    @property
    def name(self) -> str:
        level = "cheapest clients" if self.cheapest else "library clients"
        answers = "used" if self.used else "only received"
        return f"{self.keys} keys, {level} ({self.processes}), answers {answers}"

    def connect(self, side: BatchSide) -> Connect:
        return side.cheapest if self.cheapest else side.library


@dataclass(frozen=True, slots=True)
class Turn:
    """One side's part of one round."""

    rate: BatchRate
    server_cpu_us: float


Turns = Mapping[str, Sequence[Turn]]


def command(
    keys: Annotated[int, typer.Option(min=1, max=1000, help="Keys of one request.")] = KEYS,
    stories: Annotated[int, typer.Option(min=1000, help="Cached stories.")] = 20_000,
    seconds: Annotated[float, typer.Option(min=0.2, max=60, help="Length of one turn of one side.")] = 2.0,
    rounds: Annotated[int, typer.Option(min=1, max=50, help="Turns of each side.")] = 5,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Batch reads against Redis MGET of the same bytes: keys a second, CPU time a key. Some four minutes."""

    def work(conditions: RunConditions, tell: Tell) -> Report:
        return run(cases_of(keys), stories, seconds, rounds, conditions=conditions, tell=tell)

    perform(NAME, work, as_json=as_json, output=output)


def cases_of(keys: int) -> list[Case]:
    """Every way of reading so many keys in a request, and other numbers in one way."""
    ways = [
        Case(keys, processes, used, cheapest)
        for cheapest in (True, False)
        for used in (True, False)
        for processes in (BUSY, 1)
    ]
    return ways + [Case(size, BUSY, used=True) for size in (1, 10, 1000) if size != keys]


def run(
    cases: Sequence[Case], stories: int, seconds: float, rounds: int, *, conditions: RunConditions, tell: Tell
) -> Report:
    """Both sides, in turns. Raises `SideError`, OSError."""
    core = None if conditions.client_cores is None else conditions.client_cores[0]
    found: dict[Case, Turns] = {}
    tell("starting PostgreSQL, Upquery and Redis …")
    with _sides(stories, conditions, tell) as sides:
        for case in cases:
            tell(f"{case.name} …")
            tried = BatchRun(stories, case.keys, case.processes, case.used, seconds, core)
            found[case] = _turns(sides, case, tried, rounds)
    return report(found)


def report(found: Mapping[Case, Turns]) -> Report:
    """Build the report from all rounds."""
    figures = [_figure(case, turns) for case, turns in found.items()]
    return Report("Batch reads against Redis MGET", _ABOUT, figures, [_table(found)], [_plot(found)])


@contextmanager
def _sides(stories: int, conditions: RunConditions, tell: Tell) -> Iterator[list[BatchSide]]:
    with (
        running_upstream(SITE, load_stories(stories, _VOTES_EACH)) as upstream,
        upquery()(upstream, SITE) as ours,
        running_redis() as redis,
    ):
        pids = [*ours.pids(), redis.pid]
        if conditions.server_cores is not None:
            processes.pin(pids, *conditions.server_cores)
        tell(f"filling {stories:,} keys …")
        _fill(ServiceSocket(ours.reads_url), redis.address, stories)
        yield [
            BatchSide(
                "Upquery",
                partial(ServiceSocket, ours.reads_url),
                partial(ServiceLibrary, ours.reads_url),
                ours.pids(),
            ),
            BatchSide(
                "Redis",
                partial(RedisConnection, redis.address),
                partial(RedisLibrary, redis.address),
                [redis.pid],
            ),
        ]


def _fill(client: ServiceSocket, address: tuple[str, int], stories: int) -> None:
    """Cache everything on both sides, the same bytes, and compare what they answer."""
    from redis import Redis

    server = Redis(host=address[0], port=address[1])
    redis = RedisConnection(address)
    for first in range(1, stories + 1, _FILL):
        ids = range(first, min(first + _FILL, stories + 1))
        client.ask(ids)
        answer = client.ask(ids)
        rows = client.rows(answer)
        values = [orjson.dumps(story) for story in rows]
        server.mset({f"story:{story}": value for story, value in zip(ids, values, strict=True)})
        if redis.rows(redis.ask(ids)) != rows or not all(value in answer for value in values):
            raise SideError("the two sides answer different bytes")


def _turns(sides: Sequence[BatchSide], case: Case, tried: BatchRun, rounds: int) -> Turns:
    turns: dict[str, list[Turn]] = {side.name: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            before = processes.cpu_seconds(side.pids)
            rate = measure(case.connect(side), tried)
            used_s = processes.cpu_seconds(side.pids) - before
            turns[side.name].append(Turn(rate, used_s / rate.keys * 1e6))
    return turns


def _figure(case: Case, turns: Turns) -> Figure:
    ratios = [
        mine.rate.keys_per_s / theirs.rate.keys_per_s
        for mine, theirs in zip(turns["Upquery"], turns["Redis"], strict=True)
    ]
    rates = " against ".join(f"{number(_rate(turns[name]))} keys/s" for name in ("Upquery", "Redis"))
    goal = GOAL if case.cheapest and case.processes == BUSY and case.keys == KEYS else None
    return Figure(NAME, f"Upquery / Redis MGET: {case.name}", Measurement.of(ratios), "x", goal, detail=rates)


def _table(found: Mapping[Case, Turns]) -> ReportTable:
    rows = []
    for case, turns in found.items():
        for side, its in turns.items():
            cpu = [median(turn.server_cpu_us for turn in its), median(turn.rate.client_cpu_us for turn in its)]
            rows.append([case.name, side, number(_rate(its)), *[f"{us:.2f}" for us in cpu]])
    columns = ["case", "side", "keys/s", "server CPU µs/key", "client CPU µs/key"]
    return ReportTable("Rates, and CPU time a key (medians over the turns)", columns, rows)


def _plot(found: Mapping[Case, Turns]) -> Plot:
    sizes = sorted(
        [case for case in found if case.cheapest and case.used and case.processes == BUSY], key=lambda case: case.keys
    )
    lines = [
        PlotLine(name, [case.keys for case in sizes], [_rate(found[case][name]) for case in sizes])
        for name in ("Upquery", "Redis")
    ]
    return Plot(
        "Keys a second by keys a request",
        "keys in one request",
        "keys/s",
        lines,
        x_scale="log",
        y_scale="log",
        caption=f"Cheapest clients, {BUSY} at once, answers used. What a request costs is shared by its keys.",
    )


def _rate(turns: Sequence[Turn]) -> float:
    return median(turn.rate.keys_per_s for turn in turns)
