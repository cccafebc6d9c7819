"""Views of time windows over HTTP: compared with the databases while rows enter and leave; every way to read them."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.mariadb import MariaDbServer, empty_mariadb
from tests.fixtures.postgres import Database, empty_database
from tests.fixtures.seeds import day_seed
from tests.fixtures.service import HTTP, PATIENT, RunningService, running_service, until
from tests.integration import subscribers
from tests.integration.subscribers import Follower, following
from tests.integration.time_windows import MARIADB, POSTGRES, site_of

#: Two phases of writing and two without.
SECONDS = 16.0
VIEWS = {
    "brief": "SELECT id FROM notes WHERE board = :board AND at > now() - interval '1 second' ORDER BY at, id",
    "hour": "SELECT id FROM notes WHERE board = :board AND at > now() - interval '1 hour' ORDER BY at, id",
    "brief_of_two": "SELECT id FROM notes WHERE board = :board AND at > now() - interval '1 second'"
    " AND at + interval '1 minute' > now() ORDER BY at, id",
    "due": "SELECT id FROM notes WHERE board = :board AND at <= now() ORDER BY at, id",
    "brief_groups": "SELECT board AS id, count(*) AS n FROM notes"
    " WHERE board = :board AND at > now() - interval '1 second' GROUP BY board",
    "share": "SELECT 60 / count(*) AS id FROM notes WHERE board = :board AND at > now() - interval '1 hour'",
    "groups": "SELECT board, count(*) AS n FROM notes WHERE at > now() - interval '1 hour' GROUP BY board",
}


@dataclass(frozen=True)
class Place:
    """A service over notes with a time."""

    service: RunningService
    database: Database

    def url(self, view: str, path: str = "", **parameters: object) -> str:
        return f"{self.service.http}/v1/views/{view}{path}?{urlencode(parameters)}"

    def expected(self, view: str, board: int) -> list[dict[str, Any]]:
        rows = self.database.query(VIEWS[view].replace(":board", "%s"), board)
        return [dict(zip(("id", "n"), row, strict=False)) for row in rows]

    def add(self, board: int, *ages_s: float) -> None:
        """Add a note of each age in seconds; those that are not old enough yet have a time to come."""
        rows = ", ".join(f"({board}, now() - interval '{age} seconds')" for age in ages_s)
        self.database.execute(f"INSERT INTO notes (board, at) VALUES {rows}")

    def ids(self, view: str, board: int) -> list[int]:
        return [row["id"] for row in self.service.rows(view, board=board)]


@pytest.fixture(scope="module")
def place(postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with empty_database(postgres_server) as database:
        database.execute(
            "CREATE TABLE notes (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, board int NOT NULL,"
            " at timestamptz NOT NULL)",
            "ALTER TABLE notes REPLICA IDENTITY FULL",
            "CREATE INDEX ON notes (board, at)",
        )
        directory = tmp_path_factory.mktemp("windows")
        with running_service(directory, database.url, VIEWS, adhoc={"enabled": True}) as service:
            yield Place(service, database)


@pytest.mark.postgres
def test_answers_are_postgres_at_their_time(postgres_server: EmbeddedPostgres, tmp_path: Path) -> None:
    with (
        empty_database(postgres_server) as database,
        site_of(POSTGRES, database, tmp_path, day_seed("windows"), engine={"shards": 2}) as site,
    ):
        with site:
            site.compare_for(SECONDS)
        assert site.counts["hits"] > 0


@pytest.mark.mariadb
def test_answers_are_mariadb_at_their_time(mariadb_server: MariaDbServer, tmp_path: Path) -> None:
    with empty_mariadb(mariadb_server) as database, site_of(MARIADB, database, tmp_path, day_seed("windows")) as site:
        with site:
            site.compare_for(SECONDS)
        assert site.counts["hits"] > 0


@pytest.mark.postgres
def test_the_time_is_no_parameter(place: Place) -> None:
    document = HTTP.get(f"{place.service.http}/openapi.json").json()
    parameters = document["paths"]["/v1/views/hour"]["get"]["parameters"]
    assert [p["name"] for p in parameters if p.get("in") == "query" and p.get("required")] == ["board"]
    assert [p["name"] for p in place.service.view("hour")["parameters"]] == ["board"]
    assert place.service.view("hour")["tier"] == "incremental"
    assert place.service.view("groups")["tier"] == "incremental"
    plan = place.service.call("GET", "/v1/catalog/views/hour/plan", headers={"Accept": "text/plain"}).text
    assert "time window: at > CURRENT_TIMESTAMP - CAST('1 hour' AS INTERVAL), computed at each read (UTC)" in plan


@pytest.mark.postgres
def test_batches_pages_and_queries_have_the_same_rows(place: Place) -> None:
    place.add(1, 7200, 60, 30, 10, -60)
    expected = place.expected("hour", 1)
    until(lambda: place.service.rows("hour", board=1) == expected)
    until(lambda: place.service.hits("hour", board=1))
    keys = {"keys": [{"board": 1}, {"board": 999}]}
    answers = HTTP.post(f"{place.service.http}/v1/views/hour/query", json=keys).json()["results"]
    assert [answer["rows"] for answer in answers] == [expected, []]
    first = HTTP.get(place.url("hour", board=1, limit=3)).json()
    second = HTTP.get(place.url("hour", board=1, limit=3, after=first["next"])).json()
    assert first["rows"] + second["rows"] == expected
    sql = VIEWS["hour"].replace(":board", "1")
    assert HTTP.post(f"{place.service.http}/v1/query", json={"sql": sql}).json()["rows"] == expected
    assert place.ids("due", 1) == [row["id"] for row in place.expected("due", 1)]


@pytest.mark.postgres
def test_subscribers_see_rows_leave_and_enter_without_a_write(place: Place) -> None:
    async def main() -> None:
        followers = [Follower(place, view, 2) for view in ("brief", "due", "brief_groups")]  # type: ignore[arg-type]
        brief, due, groups = followers
        async with following(followers):
            await asyncio.to_thread(place.add, 2, 0, 0, -2)
            await subscribers.until(lambda: len(due.rows.rows) == 2, what="what is written is sent")
            await subscribers.until(lambda: len(due.rows.rows) == 3, what="the third is due")
            await subscribers.until(lambda: not brief.rows.rows and brief.rows.changes >= 2, what="all have left")
            await subscribers.until(lambda: not groups.rows.rows and groups.rows.changes >= 2, what="no group is left")
            # A browser that connects again then begins anew.
            assert due.source is not None
            assert due.source.events.last_id == ""
            assert due.is_right()
            assert brief.is_right()
            assert groups.is_right()

    asyncio.run(main())


@pytest.mark.postgres
def test_a_version_resumes_no_subscription(place: Place) -> None:
    version = place.service.read("hour", board=3).json()["version"]
    reply = HTTP.get(place.url("hour", "/subscribe", board=3, after=version))
    assert reply.json()["code"] == "must_refetch"
    assert "depend on the current time" in reply.json()["detail"]
    reply = HTTP.get(place.url("hour", "/subscribe", board=3, live="poll"))
    assert reply.json()["code"] == "parameter_type"
    assert "depends on the current time" in reply.json()["detail"]


@pytest.mark.postgres
@pytest.mark.parametrize(("view", "board"), [("brief", 4), ("brief_of_two", 5), ("brief_groups", 6)])
def test_rows_that_have_left_are_forgotten(place: Place, view: str, board: int) -> None:
    """The key is evicted when it has many more rows than the window: it would grow for ever."""

    def is_filled_again() -> bool:
        place.add(board, *[0.0] * 200)
        version = HTTP.post(f"{place.service.http}/v1/checkpoint").json()["version"]
        seen: list[bool] = []

        def has_left() -> bool:
            # Not an answer from before they came.
            answer = place.service.read(view, PATIENT | {"Upquery-Min-Version": version}, board=board)
            seen.append("; hit" not in answer.headers["cache-status"])
            return bool(answer.json()["rows"] == [])

        until(has_left)
        return any(seen)

    until(lambda: place.service.hits(view, board=board))
    filled = (is_filled_again() for _ in range(16))
    assert len(list(islice(filter(None, filled), 2))) == 2


@pytest.mark.postgres
def test_an_answer_that_cannot_be_computed_is_the_databases_error(place: Place) -> None:
    reply = place.service.read("share", board=7)
    assert (reply.status_code, "division by zero" in reply.text) == (422, True), reply.text
    place.add(7, 10, 20)
    until(lambda: place.service.rows("share", board=7) == [{"id": 30}])
    until(lambda: place.service.hits("share", board=7))


@pytest.mark.postgres
@pytest.mark.parametrize("order", ["", "ORDER BY count(*)", "ORDER BY n"])
def test_the_database_answers_for_a_window_of_too_many_rows(place: Place, order: str) -> None:
    sql = "SELECT board AS id, count(*) AS n FROM notes WHERE board = :board AND at > now() - interval '1 hour'"
    view = {"sql": f"{sql} GROUP BY board {order}", "limit_rows": 2}
    place.service.call("PUT", "/v1/catalog/views/small", json=view)
    place.add(8, 20, 30)
    number = len(place.expected("hour", 8))
    until(lambda: place.service.rows("small", board=8) == [{"id": 8, "n": number}])
    place.add(8, 30)
    until(lambda: place.service.rows("small", board=8) == [{"id": 8, "n": number + 1}])
    assert not place.service.hits("small", board=8)
