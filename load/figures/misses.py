"""Cost of a miss: the first read of a key, against the view's SQL run on the database, in turns.

Both sides use one persistent connection from the same process; the statement is prepared. No key is read twice.
"""

import random as randomness
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import psycopg

from load.figures.demo_site import STORIES, DemoSite
from load.figures.story import SITE, STORY_SQL, VIEW, upstream_of
from load.plain_http import PlainClient
from load.progress import number
from load.report.figures import Figure, Measurement, Result
from load.sides.direct import direct
from load.sides.side import SideError

BENCH = "misses"
READS = 400
ROUNDS = 4

_COMMENTS_SQL = """
SELECT c.id, c.parent_id, c.body, c.created_at, u.name AS author, u.display_name
FROM comments c JOIN users u ON u.name = c.author
WHERE c.story_id = %s ORDER BY c.created_at, c.id
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A view, and what the database would be asked without it."""

    view: str
    parameter: str
    sql: str


#: Asks the other side for a story; the seconds that took.
Ask = Callable[[int], float]

CASES = (Case(VIEW, "id", STORY_SQL.replace(":id", "%s")), Case("comments_of_story", "story_id", _COMMENTS_SQL))


def run(site: DemoSite, seconds: int, cores: tuple[int, int] | None) -> list[Result]:  # noqa: ARG001
    """One figure a view, and one against the same SQL behind the same HTTP server."""
    results: list[Result] = []
    with ExitStack() as stack:
        client = stack.enter_context(PlainClient(site.api))
        connection = stack.enter_context(psycopg.connect(site.database, autocommit=True))
        for case in CASES:
            name = f"miss latency / the query itself, {case.view}"
            results.append(_measure(name, case, client, _queries(case, connection), goal=2.0))
        peer = stack.enter_context(direct(upstream_of(site), SITE))
        ask = _requests(stack.enter_context(PlainClient(peer.reads_url)))
        results.append(_measure(f"miss latency / FastAPI + PostgreSQL, {VIEW}", CASES[0], client, ask, goal=None))
    return results


def _queries(case: Case, connection: psycopg.Connection) -> Ask:
    def query(story: int) -> float:
        started = perf_counter()
        connection.execute(case.sql.encode(), (story,), prepare=True).fetchall()
        return perf_counter() - started

    return query


def _requests(client: PlainClient) -> Ask:
    return lambda story: client.timed_read(f"/v1/views/{VIEW}?id={story}")[0]


def _measure(name: str, case: Case, client: PlainClient, query: Ask, goal: float | None) -> Figure:
    stories = iter(randomness.Random(name).sample(range(1, STORIES + 1), 2 * READS * ROUNDS + 200))

    def miss(story: int) -> float | None:
        elapsed, hit = client.timed_read(f"/v1/views/{case.view}?{case.parameter}={story}")
        return None if hit else elapsed

    for _ in range(50):
        miss(next(stories))
        query(next(stories))
    ratios, ours, theirs = [], [], []
    for _ in range(ROUNDS):
        mine, other = _in_turns(miss, query, stories)
        ours.append(mine)
        theirs.append(other)
        ratios.append(mine / other)
    detail = f"{number(median(ours) * 1000)} ms against {number(median(theirs) * 1000)} ms (medians)"
    return Figure(BENCH, name, Measurement.of(ratios), "x", goal, more_is_better=False, detail=detail)


def _in_turns(miss: Callable[[int], float | None], query: Ask, stories: Iterator[int]) -> tuple[float, float]:
    misses, queries = [], []
    for _ in range(READS):
        misses.append(miss(next(stories)))
        queries.append(query(next(stories)))
    measured = [elapsed for elapsed in misses if elapsed is not None]
    if len(measured) < READS / 2:
        raise SideError("most keys were in memory already: nothing to measure")
    return median(measured), median(queries)
