"""Cost of installing a view on a running service, over a million stories and ten million votes; rows fetched for a page
of a long key.

Installing is timed from the request to its reply, by which the view answers. Meanwhile hits of another view go on, and
their latencies are compared with those of quiet moments of the same run. Nothing is loaded: the view is partial.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, sleep

import httpx
import psycopg

from load.figures.demo_site import DemoSite
from load.plain_http import PlainClient
from load.progress import number
from load.report.figures import Figure, Measurement, Result
from load.sides.side import SideError

BENCH = "installs"
STORIES = 1_000_000
VOTES = 10_000_000
#: Votes of one story: the long key.
LONG = 100_000
INSTALLS = 15
#: Rows of a page.
PAGE = 50

_TABLES = f"""
CREATE TABLE big_stories (id bigint PRIMARY KEY, author bigint NOT NULL, title text NOT NULL);
CREATE TABLE big_votes (story_id bigint NOT NULL, user_id bigint NOT NULL, cast_at timestamptz NOT NULL);
ALTER TABLE big_stories REPLICA IDENTITY FULL;
ALTER TABLE big_votes REPLICA IDENTITY FULL;
INSERT INTO big_stories SELECT i, i % 50000, 'story ' || i FROM generate_series(1, {STORIES}) i;
INSERT INTO big_votes
    SELECT CASE WHEN i <= {LONG} THEN 1 ELSE 1 + i % {STORIES} END, i,
        '2026-01-01'::timestamptz + i * interval '1 second'
    FROM generate_series(1, {VOTES}) i;
CREATE INDEX ON big_stories (author);
CREATE INDEX ON big_votes (story_id, cast_at);
ANALYZE big_stories, big_votes;
"""
_VIEW = """
SELECT s.id, s.title, count(v.user_id) AS votes FROM big_stories s LEFT JOIN big_votes v ON v.story_id = s.id
WHERE s.id = :id GROUP BY s.id, s.title
"""
_PAGED = "SELECT user_id, cast_at FROM big_votes WHERE story_id = :id ORDER BY cast_at DESC"


def run(site: DemoSite, seconds: int, cores: tuple[int, int] | None) -> list[Result]:  # noqa: ARG001
    """Install, drop, install again; then read two pages."""
    with psycopg.connect(site.database, autocommit=True) as connection:
        connection.execute(_TABLES.encode())
    with httpx.Client(base_url=site.admin, timeout=60) as admin:
        # The first install brings the tables into the stream; what is measured is views on tables that are followed.
        _install(admin, "big_paged", _PAGED)
        joining = _install(admin, "big_first", _VIEW)
        site.wait_for(site.position(), 600)
        return [*_installs(site, admin, joining), *_pages(site, admin)]


def _install(admin: httpx.Client, name: str, sql: str) -> float:
    started = perf_counter()
    reply = admin.put(f"/v1/catalog/views/{name}", json={"sql": sql})
    elapsed = perf_counter() - started
    if reply.status_code not in (200, 201):
        raise SideError(f"installing {name}: {reply.status_code} {reply.text}")
    return elapsed


def _installs(site: DemoSite, admin: httpx.Client, joining: float) -> list[Result]:
    site.read("story_with_votes", id=7)
    took: list[float] = []
    with _hits(site) as quiet:
        sleep(3)
    with _hits(site) as busy:
        for i in range(INSTALLS):
            # Each another SQL, so that no plan is one that is there already.
            took.append(_install(admin, f"big_{i}", _VIEW.replace(":id", f":id AND s.title <> 'not {i}'")) * 1000)
            sleep(0.2)
    for i in range(INSTALLS):
        admin.delete(f"/v1/catalog/views/big_{i}").raise_for_status()
    slower = _percentile(busy, 0.99) / _percentile(quiet, 0.99)
    sizes = f"{STORIES:,} stories, {VOTES:,} votes"
    return [
        Figure(
            BENCH,
            "installing a partial view",
            Measurement.of(took),
            "ms",
            100,
            more_is_better=False,
            detail=f"{sizes}; the tables' first view took {number(joining * 1000)} ms",
        ),
        Figure(
            BENCH,
            "hits of another view meanwhile, 99th percentile",
            Measurement.of([slower]),
            "x of quiet",
            detail=f"{number(_percentile(quiet, 0.99) * 1e3)} ms quiet, {number(_percentile(busy, 0.99) * 1e3)} ms"
            f" while installing; medians {number(_percentile(quiet, 0.5) * 1e3)} and "
            f"{number(_percentile(busy, 0.5) * 1e3)} ms",
        ),
    ]


@contextmanager
def _hits(site: DemoSite) -> Iterator[list[float]]:
    """Latencies of hits while the block runs."""
    latencies: list[float] = []
    stop = threading.Event()

    def read() -> None:
        with PlainClient(site.api) as client:
            while not stop.is_set():
                latencies.append(client.timed_read("/v1/views/story_with_votes?id=7")[0])

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield latencies
    finally:
        stop.set()
        reader.join()


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


def _pages(site: DemoSite, admin: httpx.Client) -> list[Result]:
    """Two pages of the long key: rows that the database gave for each, and what they took."""
    fetched: list[float] = []
    latencies: list[float] = []
    after: str | None = None
    for _ in range(2):
        before = _rows_looked_up(admin)
        started = perf_counter()
        page = site.read("big_paged", id=1, limit=PAGE, **({} if after is None else {"after": after})).json()
        latencies.append((perf_counter() - started) * 1000)
        fetched.append(_rows_looked_up(admin) - before)
        after = page["next"]
        if len(page["rows"]) != PAGE or after is None:
            raise SideError(f"a page of {len(page['rows'])} rows, next {after}")
    detail = f"pages of {PAGE} of a key of {LONG:,} rows: {number(latencies[0])} ms, then {number(latencies[1])} ms"
    return [
        Figure(
            BENCH,
            "rows fetched for the second page",
            Measurement.of(fetched[1:]),
            "rows",
            4 * PAGE,
            more_is_better=False,
            detail=detail,
        )
    ]


def _rows_looked_up(admin: httpx.Client) -> float:
    return float(admin.get("/v1/stats").json()["counters"]["lookup_rows"])
