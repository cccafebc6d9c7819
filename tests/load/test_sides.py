"""Every side answers a small site's reads with the same rows, before and after its writes."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from typing import Any

import httpx
import psycopg
import pytest

from load.programs import MEMCACHED, REDIS
from load.sides.cache_aside import memcached, redis, redis_alone
from load.sides.direct import direct
from load.sides.empty import empty
from load.sides.materialized_view import materialized_view
from load.sides.postgres import running_upstream
from load.sides.side import Side, StartSide, UpstreamDatabase
from load.sides.upquery import upquery
from load.site import SiteView
from tests.fixtures.service import until
from tests.load.small_site import SITE, STORIES, load_rows

pytestmark = pytest.mark.postgres

READS: list[tuple[str, dict[str, Any]]] = [
    ("story_with_votes", {"id": 3}),
    ("story_with_votes", {"id": 404}),
    ("stories_by_id", {"ids": [1, 2, 19, 404]}),
    ("votes_of", {"stories": [3, 4, 404, STORIES + 1, 3]}),
    ("stories_of", {"author": "o'brien"}),
    ("stories_of", {"author": 'no: "body'}),
    ("newest", {}),
    ("has_voted", {"user": 2, "story": 3}),
    ("has_voted", {"user": 9, "story": 3}),
    ("story_with_votes", {"id": STORIES + 1}),
]
WRITES: list[tuple[str, dict[str, Any]]] = [
    ("vote", {"user": 9, "story": 3}),
    ("submit", {"id": STORIES + 1, "title": 'new, "it" says', "author": "o'brien", "user": 2}),
]
REFUSED = {
    "nothing": 404,
    "story_with_votes": 422,
    "story_with_votes?id=x": 422,
    "story_with_votes?id=1&more=2": 422,
}
UNORDERED = ("stories_by_id", "votes_of")
_with_redis = pytest.mark.skipif(shutil.which(REDIS.command) is None, reason="needs redis-server")
_with_memcached = pytest.mark.skipif(shutil.which(MEMCACHED.command) is None, reason="needs memcached")
#: What reads as new as a write show it at.
FOLLOWING = [
    pytest.param(direct, id="direct"),
    pytest.param(upquery(memory="64MiB"), id="upquery"),
    pytest.param(upquery(memory="64MiB", full=True), id="full"),
    pytest.param(redis(), id="redis", marks=_with_redis),
    pytest.param(memcached(), id="memcached", marks=_with_memcached),
]
#: What answers as it did before a write, until it is told to forget.
EXPIRING = [
    pytest.param(redis(invalidate=False), id="redis", marks=_with_redis),
    pytest.param(memcached(invalidate=False), id="memcached", marks=_with_memcached),
    pytest.param(redis_alone(), id="redis_alone", marks=_with_redis),
]
_databases = count(1)


class Visitor:
    """Reads and writes at a side. Reads are as new as the visitor's last write."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._client = httpx.Client(timeout=30)
        self._newer: dict[str, str] = {}

    def get(self, view: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        reply = self._client.get(f"{self._side.reads_url}/v1/views/{view}", params=parameters, headers=self._newer)
        return _ordered(view, reply.raise_for_status().json()["rows"])

    def read(self, reads: list[tuple[str, dict[str, Any]]]) -> list[list[dict[str, Any]]]:
        body = {"reads": [{"view": view, "params": parameters} for view, parameters in reads]}
        results = self._post(self._side.reads_url, "/v1/read", body)["results"]
        return [_ordered(view, result["rows"]) for (view, _), result in zip(reads, results, strict=True)]

    def query(self, view: str, keys: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        results = self._post(self._side.reads_url, f"/v1/views/{view}/query", {"keys": keys})["results"]
        return [_ordered(view, result["rows"]) for result in results]

    def write(self, name: str, parameters: dict[str, Any]) -> None:
        version = self._post(self._side.writes_url, f"/writes/{name}", parameters)["version"]
        self._newer = {"upquery-min-version": version, "prefer": "wait=5"}

    def _post(self, base: str, path: str, body: Any) -> dict[str, Any]:
        reply = self._client.post(base + path, json=body, headers=self._newer)
        document: dict[str, Any] = reply.raise_for_status().json()
        return document


def _ordered(view: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows; those of a view without an order in one of ours."""
    return sorted(rows, key=str) if view in UNORDERED else rows


@pytest.fixture(scope="module")
def server() -> Iterator[UpstreamDatabase]:
    """The site's database, which nobody writes."""
    with running_upstream(SITE, load_rows) as running:
        yield running


@pytest.fixture
def upstream(server: UpstreamDatabase) -> UpstreamDatabase:
    """A copy of it."""
    return copy_of(server)


def copy_of(server: UpstreamDatabase) -> UpstreamDatabase:
    name = f"copy_{next(_databases)}"
    base = server.url.removesuffix("postgres")
    with psycopg.connect(f"{base}template1", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE postgres')
    return replace(server, url=base + name)


@pytest.fixture(scope="module")
def application(server: UpstreamDatabase) -> Iterator[Side]:
    """The application of a copy, without a cache."""
    with direct(copy_of(server), SITE) as side:
        yield side


@pytest.fixture(scope="module")
def before(application: Side) -> Any:
    """Answers to all reads before the writes."""
    return everything(application)


@pytest.fixture(scope="module")
def after(application: Side, before: Any) -> Any:  # noqa: ARG001 - in this order.
    """Answers to all reads after all writes."""
    write_everything(Visitor(application))
    return everything(application)


def everything(side: Side) -> list[Any]:
    """Return a side's answers to all reads, in all ways, which must agree."""
    visitor = Visitor(side)
    one_by_one = [visitor.get(view, parameters) for view, parameters in READS]
    assert visitor.read(READS) == one_by_one
    keys = [parameters for view, parameters in READS if view == "story_with_votes"]
    expected = [rows for (view, _), rows in zip(READS, one_by_one, strict=True) if view == "story_with_votes"]
    assert visitor.query("story_with_votes", keys) == expected
    return one_by_one


def write_everything(visitor: Visitor) -> None:
    """All of WRITES."""
    for name, parameters in WRITES:
        visitor.write(name, parameters)


@pytest.mark.parametrize("start", FOLLOWING)
def test_a_side_answers_as_the_database_does(
    start: StartSide, upstream: UpstreamDatabase, before: Any, after: Any
) -> None:
    with start(upstream, SITE) as side:
        assert everything(side) == before
        write_everything(visitor := Visitor(side))
        assert visitor.read(READS) == after
        side.flush()
        assert visitor.read(READS) == after
        _takes_memory(side)


@pytest.mark.parametrize("start", EXPIRING)
def test_a_side_without_invalidation_answers_as_the_database_did(
    start: StartSide, upstream: UpstreamDatabase, before: Any, after: Any
) -> None:
    with start(upstream, SITE) as side:
        assert _hits(side) == [False, True]
        assert everything(side) == before
        write_everything(visitor := Visitor(side))
        assert visitor.read(READS) == before
        side.flush()
        assert visitor.read(READS) == after != before
        _takes_memory(side)


def test_materialized_views_answer_as_the_database_does_after_a_refresh(
    upstream: UpstreamDatabase, before: Any, after: Any
) -> None:
    with materialized_view(refresh_s=0.1)(upstream, SITE) as side:
        assert everything(side) == before
        assert side.state_bytes() > 0
        write_everything(visitor := Visitor(side))
        until(lambda: visitor.read(READS) == after)
    with psycopg.connect(upstream.url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_matviews").fetchone() == (0,)


def test_an_empty_side_says_the_same_to_everybody(upstream: UpstreamDatabase) -> None:
    with empty(body='{"rows":[]}')(upstream, SITE) as side:
        assert Visitor(side).get("anything", {}) == []


def _hits(side: Side) -> list[bool]:
    """Return whether two reads of the same key were hits."""
    url = f"{side.reads_url}/v1/views/newest"
    return ["; hit" in httpx.get(url).headers["cache-status"] for _ in range(2)]


def _takes_memory(side: Side) -> None:
    assert side.resident_bytes() > 1 << 20
    assert side.state_bytes() >= 0
    assert len(side.pids()) > 1


@_with_redis
def test_requests_that_miss_at_the_same_time_ask_the_database_once(upstream: UpstreamDatabase) -> None:
    with psycopg.connect(upstream.url, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE asked")
    counting = SiteView("counting", "SELECT nextval('asked') AS n, pg_sleep(0.5)::text AS slept", {})
    with redis()(upstream, replace(SITE, views=(counting,), writes=())) as side, ThreadPoolExecutor(8) as clients:
        replies = list(clients.map(lambda _: httpx.get(f"{side.reads_url}/v1/views/counting").json(), range(8)))
    assert {reply["rows"][0]["n"] for reply in replies} == {1}


def test_keys_that_one_statement_cannot_take_are_asked_one_by_one(upstream: UpstreamDatabase) -> None:
    sql = "SELECT id FROM stories WHERE author = :author ORDER BY id LIMIT :n"
    site = replace(SITE, views=(SiteView("first", sql, {"author": "text", "n": "bigint"}),))
    with direct(upstream, site) as side:
        results = Visitor(side).query("first", [{"author": "ann", "n": 2}, {"author": "ann", "n": 0}])
    assert results == [[{"id": 2}, {"id": 4}], []]


def test_rows_are_in_the_contracts_form_and_what_cannot_be_read_is_refused(application: Side) -> None:
    (row,) = Visitor(application).get("stories_by_id", {"ids": [2]})
    statuses = {path: httpx.get(f"{application.reads_url}/v1/views/{path}").status_code for path in REFUSED}
    again = {"id": 1, "title": "", "author": "", "user": 1}
    taken = [httpx.post(f"{application.writes_url}/writes/submit", json=again).status_code for _ in range(2)]
    assert statuses == REFUSED
    assert taken == [409, 409]
    assert row == {
        "id": 2,
        "title": "story 2",
        "author": "ann",
        "created_at": "2024-01-01T02:00:01",
        "seen_at": "2024-01-01T00:00:02Z",
        "hotness": "0.2857142857",
        "is_hidden": False,
    }
