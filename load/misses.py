"""What a miss costs: the first read of a key, against the view's SQL run on the database, in turns.

Both sides use one kept-alive connection from the same process; the statement is prepared. No key is read twice.
"""

import random as randomness
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import psycopg

from load.plain_http import PlainClient
from load.report import Figure, Result, Spread, number
from load.site import STORIES, Site, SiteError

BENCH = "misses"
READS = 400
ROUNDS = 4

_COMMENTS_SQL = """
SELECT c.id, c.parent_id, c.body, c.created_at, u.name AS author, u.display_name
FROM comments c JOIN users u ON u.name = c.author
WHERE c.story_id = %s ORDER BY c.created_at, c.id
"""
_STORY_SQL = """
SELECT s.id, s.title, s.author, COUNT(v.user_id) AS votes
FROM stories s LEFT JOIN votes v ON v.story_id = s.id
WHERE s.id = %s GROUP BY s.id, s.title, s.author
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A view, and what the database would be asked without it."""

    view: str
    parameter: str
    sql: str


CASES = (Case("story_with_votes", "id", _STORY_SQL), Case("comments_of_story", "story_id", _COMMENTS_SQL))


def run(site: Site, seconds: int, cores: tuple[int, int] | None) -> list[Result]:  # noqa: ARG001
    """One figure a view."""
    with PlainClient(site.api) as client, psycopg.connect(site.database, autocommit=True) as connection:
        return [_measure(case, client, connection) for case in CASES]


def _measure(case: Case, client: PlainClient, connection: psycopg.Connection) -> Figure:
    stories = iter(randomness.Random(case.view).sample(range(1, STORIES + 1), 2 * READS * ROUNDS + 200))

    def miss() -> float | None:
        elapsed, hit = client.timed_read(f"/v1/views/{case.view}?{case.parameter}={next(stories)}")
        return None if hit else elapsed

    def query() -> float | None:
        started = perf_counter()
        connection.execute(case.sql, (next(stories),), prepare=True).fetchall()
        return perf_counter() - started

    for _ in range(50):
        miss()
        query()
    ratios, ours, theirs = [], [], []
    for _ in range(ROUNDS):
        mine, other = _in_turns(miss, query)
        ours.append(mine)
        theirs.append(other)
        ratios.append(mine / other)
    detail = f"{number(median(ours) * 1000)} ms against {number(median(theirs) * 1000)} ms (medians)"
    name = f"miss latency / the query itself, {case.view}"
    return Figure(BENCH, name, Spread.of(ratios), "x", 2.0, more_is_better=False, detail=detail)


def _in_turns(miss: Callable[[], float | None], query: Callable[[], float | None]) -> tuple[float, float]:
    misses, queries = [], []
    for _ in range(READS):
        misses.append(miss())
        queries.append(query())
    measured = [elapsed for elapsed in misses if elapsed is not None]
    if len(measured) < READS / 2:
        raise SiteError("most keys were in memory already: nothing to measure")
    return median(measured), median(elapsed for elapsed in queries if elapsed is not None)
