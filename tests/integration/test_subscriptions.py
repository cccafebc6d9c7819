"""Subscriptions to a running service over a real PostgreSQL: what subscribers rebuild is what the database has."""

import asyncio
import json
import subprocess
from collections.abc import Iterator

import httpx
import pytest

from load.subscribers import boards
from load.subscribers.rows import version_order
from load.subscribers.stream import EventSource
from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.forks import start
from tests.fixtures.service import LIMIT_S, command, environment, upquery
from tests.integration.subscribers import (
    BOARDS,
    VIEWS,
    Follower,
    Place,
    change_heavy,
    comparable,
    following,
    make_changes,
    place_of,
    until,
    worker_bytes,
)

pytestmark = pytest.mark.postgres

LIMITS = {"keep_alive_s": 0.4, "up_to_date_s": 1.0, "poll_s": 1.0, "log_entries": 64, "log_bytes": 1 << 19}


@pytest.fixture(scope="module")
def place(postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("subscriptions")
    with place_of(postgres_server, "subscriptions", directory / "service", subscriptions=LIMITS) as running:
        yield running


def count(place: Place, name: str) -> int:
    """One of the workers' counts of subscriptions."""
    return int(place.service.stats()["subscriptions"][name])


def test_everybody_rebuilds_what_the_database_has(place: Place) -> None:
    async def main() -> None:
        followers = [Follower(place, view, 1 + n % BOARDS) for n in range(24) for view in VIEWS if view != "named"]
        async with following(followers):
            await asyncio.to_thread(make_changes, place, 300, 1, evict=True)
            for follower in followers:
                await until(follower.is_right, what=f"{follower.view} {follower.board}")
            # One snapshot each: nobody had to begin anew, whatever was evicted.
            assert {follower.rows.snapshots for follower in followers} == {1}
            assert all(follower.rows.changes for follower in followers)
            heard = followers[0].kinds
            assert heard[0] == "snapshot"
            assert heard.count("up-to-date") >= heard.count("change")
        await until(lambda: count(place, "subscribers") == 0, what="those that left are noticed")

    asyncio.run(main())


def test_who_comes_back_gets_what_was_missed_and_no_more(place: Place) -> None:
    async def main() -> None:
        followers = [Follower(place, view, board) for view in ("board", "first") for board in (1, 2, 3)]
        async with following(followers):
            for seed in (2, 3, 4):
                await asyncio.to_thread(make_changes, place, 30, seed)
                for follower in followers:
                    assert follower.source is not None
                    follower.source.close()
                await asyncio.to_thread(make_changes, place, 30, seed + 10)
                await asyncio.gather(*(follower.open(resume=True) for follower in followers))
            for follower in followers:
                await until(follower.is_right, what=f"{follower.view} {follower.board}")
            assert {follower.rows.snapshots for follower in followers} == {1}

    asyncio.run(main())


def test_a_version_of_an_ordinary_answer_resumes_too(place: Place) -> None:
    async def main() -> None:
        follower = Follower(place, "board", 4)
        async with following([follower]):
            answer = place.service.read("board", board=4).json()
            # Its version is resumable once the topic has seen it: of several changes that are read at once, the
            # versions between are not known.
            await until(lambda: version_order(follower.rows.version) >= version_order(answer["version"]))
            await asyncio.to_thread(make_changes, place, 40, 5)
            url = place.url("board", "/subscribe", board=4, after=answer["version"])
            later = Follower(place, "board", 4)
            later.rows.rows = answer["rows"]
            later.source = await EventSource.open(url, later._hear)
            assert later.source.status == 200
            await until(later.is_right)
            assert later.rows.snapshots == 0
            later.source.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("after", "status", "code"),
    [
        ("pg:0/1", 410, "must_refetch"),
        ("pg:0/1~0badc0de", 410, "must_refetch"),
        ("yesterday", 400, "bad_request"),
        ("mysql:1:4", 400, "bad_request"),
    ],
)
def test_what_cannot_be_resumed(place: Place, after: str, status: int, code: str) -> None:
    for url, headers in (
        (place.url("board", "/subscribe", board=1, after=after), {}),
        (place.url("board", board=1), {"Accept": "text/event-stream", "Last-Event-ID": after}),
        (place.url("board", board=1, live="poll", after=after), {}),
    ):
        refused = httpx.get(url, headers=headers, timeout=LIMIT_S)
        assert (refused.status_code, refused.json()["code"]) == (status, code), refused.text


def test_which_requests_are_subscriptions(place: Place) -> None:
    def status(method: str, url: str, **headers: str) -> tuple[int, str]:
        with httpx.stream(method, url, headers=headers, timeout=LIMIT_S) as reply:
            return reply.status_code, reply.headers["content-type"].partition(";")[0]

    events, problem, json = "text/event-stream", "application/problem+json", "application/json"
    subscribe, plain = place.url("board", "/subscribe", board=1), place.url("board", board=1)
    assert status("GET", subscribe) == (200, events)
    for _ in range(2):
        # Whether it is in memory makes no difference.
        assert status("GET", plain, Accept="text/event-stream, */*;q=0.1") == (200, events)
        assert status("GET", plain, Accept="*/*") == (200, json)
        assert status("HEAD", plain, Accept=events) == (200, json)
    assert status("POST", subscribe) == (405, problem)
    assert status("GET", place.url("nothing", "/subscribe")) == (404, problem)
    assert status("GET", place.url("board", "/subscribe", board="x")) == (422, problem)
    assert status("GET", place.url("board", "/subscribe", board=1, limit=2)) == (422, problem)
    assert status("GET", place.url("board", board=1, live="now")) == (422, problem)
    assert status("GET", place.service.http + "/v1/subscribe") == (400, problem)
    # A view's own parameters come first.
    assert status("GET", place.url("named", after=1, live=0)) == (200, json)
    assert status("GET", place.url("named", "/subscribe", after=1, live=0)) == (200, events)


def test_a_long_poll_answers_when_something_changes(place: Place) -> None:
    first = httpx.get(place.url("board", board=5, live="poll"), timeout=LIMIT_S).json()
    rows = first["snapshot"]["rows"]
    assert comparable(rows) == comparable(place.expected("board", 5))
    quiet = httpx.get(place.url("board", board=5, live="poll", after=first["token"]), timeout=LIMIT_S).json()
    assert (quiet["snapshot"], quiet["changes"]) == (None, [])
    place.database.execute("UPDATE notes SET rank = -1 WHERE id = (SELECT min(id) FROM notes WHERE board = 5)")
    url = place.url("board", "/subscribe", board=5, live="poll", after=quiet["token"])
    changed = httpx.get(url, headers={"Prefer": "wait=20"}, timeout=LIMIT_S).json()
    assert [len(change["added"]) for change in changed["changes"]] == [1]
    assert changed["token"].startswith(changed["version"])


def test_a_quiet_stream_says_that_it_is_there(place: Place) -> None:
    url = place.url("board", "/subscribe", board=6)
    with httpx.stream("GET", url, timeout=LIMIT_S) as reply:
        assert (reply.headers["cache-control"], reply.headers["x-accel-buffering"]) == ("no-store", "no")
        heard = ""
        for text in reply.iter_text():
            heard += text
            if heard.count(": keep-alive") >= 2 and heard.count("event: up-to-date") >= 2:
                break
    assert heard.count("event: snapshot") == 1


def test_who_does_not_read_costs_no_more_than_a_bound(place: Place) -> None:
    """Twenty of them, for each of whom 5 MB of changes come."""

    async def main() -> None:
        stalled = [Follower(place, "board", boards.HEAVY) for _ in range(20)]
        reading = Follower(place, "board", boards.HEAVY)
        too_slow = count(place, "must_refetches")
        async with following([*stalled, reading]):
            before = worker_bytes(place)
            for follower in stalled:
                assert follower.source is not None
                follower.source.stall()
            await asyncio.to_thread(change_heavy, place, 125)
            await until(reading.is_right)
            assert reading.rows.changes > 30
            assert worker_bytes(place) - before < 30 << 20
            for follower in stalled:
                assert follower.source is not None
                follower.source.go_on()
                await asyncio.wait_for(follower.source.ended, LIMIT_S)
                assert follower.kinds[-1] == "must-refetch"
                assert (follower.source.complete, follower.source.events.last_id) == (True, "")
                assert follower.failure is None
            assert count(place, "must_refetches") >= too_slow
            again = await stalled[0].open(resume=True)
            await until(stalled[0].is_right)
            assert stalled[0].rows.snapshots == 2
            again.close()

    asyncio.run(main())


def test_a_view_that_is_replaced_or_dropped(place: Place) -> None:
    async def main() -> None:
        place.service.put("passing", VIEWS["board"]).raise_for_status()
        follower = Follower(place, "passing", 1)
        for change in (
            lambda: place.service.put("passing", VIEWS["first"]),
            lambda: place.service.call("DELETE", "/v1/catalog/views/passing"),
        ):
            source = await follower.open()
            await until(lambda: follower.rows.snapshots and not follower.rows.over)
            await asyncio.to_thread(change)
            await asyncio.wait_for(source.ended, LIMIT_S)
            assert follower.kinds[-1] == "must-refetch"
            assert source.events.last_id == ""

    asyncio.run(main())


def test_what_is_counted(place: Place) -> None:
    async def main() -> None:
        followers = [Follower(place, "board", board) for board in (1, 1, 2)]
        async with following(followers):
            await until(lambda: count(place, "subscribers") == 3)
            metrics = place.service.call("GET", "/metrics").text
            assert "upquery_subscribers 3.0" in metrics
            assert "upquery_subscription_must_refetches_total" in metrics

    asyncio.run(main())


def test_the_command_follows_a_view(place: Place) -> None:
    watching = start(
        command("view", "watch", "board", "board=3", "--events", "3", "--json", "--url", place.service.http),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert watching.stdout is not None
    first = json.loads(watching.stdout.readline())
    assert (first["event"], comparable(first["rows"])) == ("snapshot", comparable(place.expected("board", 3)))
    place.database.execute("UPDATE notes SET rank = -2 WHERE id = (SELECT min(id) FROM notes WHERE board = 3)")
    rest, said = watching.communicate(timeout=LIMIT_S)
    assert watching.returncode == 0, said
    kinds = [json.loads(line)["event"] for line in rest.splitlines()]
    assert kinds[-1] in ("change", "up-to-date")


def test_the_command_says_what_is_wrong(place: Place) -> None:
    for arguments, code, said in (
        (("board", "bored=3"), 1, "parameter 'bored'"),
        (("board", "3"), 2, "key=value"),
    ):
        done = upquery("view", "watch", *arguments, "--url", place.service.http)
        assert done.returncode == code
        assert said in done.stderr
