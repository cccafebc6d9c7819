"""Reads of what the engine has just stored: whatever happens to it before the worker looks."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from random import Random
from typing import Any

import pytest

from dataflow.engine.effects import LeafDrop, LeafEffect, LeafEvict, LeafFill
from dataflow.types import Position, ViewId
from service.ground.version import parse_minimum, version_text
from service.web.deferred import DeferredReply
from service.web.messages import Reply, Scope
from service.worker.reads.reads import ViewRoute
from tests.fixtures.seeds import day_seed
from tests.service.leaf_store.sample_views import make_view
from tests.service.worker.conftest import KEPT_ID, STORY_ID, Run, Service, register_all

#: Two views of one row, which every transaction changes in both.
PAIR = {"reads": [{"view": "story", "params": {"id": 7}}, {"view": "kept", "params": {"id": 7}}]}
NEW_ID = ViewId(99)


def filled(service: Service, votes: int | None) -> list[LeafEffect]:
    """The effects of one commit, by which both views have so many votes; None: they have a hole."""
    evicted: list[LeafEffect] = [LeafEvict(view, ("7",)) for view in (STORY_ID, KEPT_ID)]
    if votes is None:
        return evicted
    row = ("7", "Seven", "ann", str(votes))
    for view in ("story", "kept"):
        service.engine.rows[view, ("7",)] = [row]
    return [*evicted, *(LeafFill(view, ("7",), [row]) for view in (STORY_ID, KEPT_ID))]


def asked(service: Service) -> dict[str, int]:
    """The requests that the engine got."""
    return dict(service.client.asked)


def votes_of(body: Any) -> list[int]:
    return [result["rows"][0]["votes"] for result in body["results"]]


def once(service: Service, *effects: LeafEffect) -> Callable[[], None]:
    """Commits these effects after the first fill, before its reader looks."""

    def between() -> None:
        service.engine.between = lambda: None
        service.engine.commit(*effects)

    return between


async def by_task(service: Service) -> dict[str, Any]:
    answer = await service.http.get("/v1/views/story?id=7")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def scope_of() -> Scope:
    return {
        "type": "http",
        "method": "GET",
        "path": "/v1/views/story",
        "raw_path": b"/v1/views/story",
        "query_string": b"id=7",
        "headers": [],
    }


async def deferred(service: Service) -> dict[str, Any]:
    scope = scope_of()
    # The first request lets the worker learn of the views.
    await service.http.get("/v1/views/story?id:null")
    reply = service.app.answer(scope, None)
    assert isinstance(reply, DeferredReply)
    came: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
    reply.begin(came.set_result)
    whole = await came
    assert whole is not None
    assert whole.status == 200, whole.body
    body: dict[str, Any] = json.loads(whole.body)
    return body


Get = Callable[[Service], Awaitable[dict[str, Any]]]
BOTH_WAYS = pytest.mark.parametrize("get", [by_task, deferred])


@BOTH_WAYS
def test_the_rows_come_from_the_store(run: Run, get: Get) -> None:
    async def test(service: Service) -> None:
        body = await get(service)
        assert body["rows"][0]["votes"] == 3
        assert body["version"] == version_text(service.engine.position)
        assert asked(service) == {"fill": 1}

    run(test)


@BOTH_WAYS
def test_a_key_that_has_moved_on_is_answered_as_it_is_then(run: Run, get: Get) -> None:
    async def test(service: Service) -> None:
        service.engine.between = once(service, *filled(service, 4))
        body = await get(service)
        assert body["rows"][0]["votes"] == 4
        assert body["version"] == version_text(service.engine.position)
        assert asked(service) == {"fill": 1}

    run(test)


@BOTH_WAYS
def test_a_key_that_was_evicted_is_asked_for_once_more_with_its_rows(run: Run, get: Get) -> None:
    async def test(service: Service) -> None:
        # However often it is evicted.
        service.engine.between = lambda: service.engine.commit(*filled(service, None))
        body = await get(service)
        assert body["rows"][0]["votes"] == 3
        # As it was when the engine read it.
        assert body["version"] == version_text(service.engine.answered)
        assert asked(service) == {"fill": 1, "read": 1}

    run(test)


@BOTH_WAYS
def test_a_store_that_was_discarded_gives_no_answer_from_before(run: Run, get: Get) -> None:
    async def test(service: Service) -> None:
        def recreated() -> None:
            service.engine.between = lambda: None
            # Of another server, whose positions are lower.
            service.engine.writer.reset("another@server")
            register_all(service.engine.writer)
            service.engine.position = 80
            service.engine.commit(*filled(service, 5))

        service.engine.between = recreated
        body = await get(service)
        assert body["rows"][0]["votes"] == 5
        assert body["version"] == version_text(service.engine.answered)
        assert asked(service) == {"fill": 1, "read": 1}

    run(test)


@BOTH_WAYS
def test_a_view_that_was_replaced_is_answered_as_the_new_one(run: Run, get: Get) -> None:
    async def test(service: Service) -> None:
        def replaced() -> None:
            service.engine.between = lambda: None
            service.engine.writer.register(NEW_ID, make_view("story", {"id": 0}, shown=(0, 3)))
            service.engine.commit(LeafDrop(STORY_ID))

        service.engine.between = replaced
        body = await get(service)
        assert body["rows"] == [{"id": 7, "votes": 3}]

    run(test)


def test_a_miss_of_another_view_is_not_taken_for_one_of_this(run: Run) -> None:
    """The catalog may change between the direct answer and the task, and so may the shard that answers."""

    async def test(service: Service) -> None:
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await service.http.get("/v1/views/story?id:null")
        service.engine.rows["story", ("7",)] = [("7", "Story", "ann", "8")]
        scope = scope_of()
        assert isinstance(service.app.answer(scope, None), DeferredReply)
        assert [name for name, value in scope.items() if isinstance(value, ViewRoute)] != []
        # A view that the hot route leaves to the general path.
        await service.app({**scope, "path": "/v1/views/stale", "raw_path": b"/v1/views/stale"}, receive, send)
        assert json.loads(sent[1]["body"])["rows"][0]["votes"] == 3

    run(test)


def test_several_keys_are_of_one_version_if_one_is_evicted_and_the_other_changes(run: Run) -> None:
    async def test(service: Service) -> None:
        changed = filled(service, 6)
        service.engine.between = once(service, *changed, LeafEvict(KEPT_ID, ("7",)))
        answer = await service.http.post("/v1/read", json=PAIR)
        assert votes_of(answer.json()) == [6, 6]
        assert answer.json()["version"] == version_text(service.engine.answered)
        # All of them are asked for again, and not only the missing one.
        assert [len(read) for read in service.engine.reads] == [2, 2]
        assert asked(service) == {"fill": 1, "read": 1}

    run(test)


def test_a_large_key_is_read_in_slices(run: Run) -> None:
    rows = [(str(n), f"Story {n}", "ann", str(n)) for n in range(5000)]

    async def test(service: Service) -> None:
        service.engine.rows["stories_of", ("ann",)] = rows
        for status in ("upquery; fwd=miss; stored", "upquery; hit"):
            answer = await service.http.get("/v1/views/stories_of?author=ann")
            assert answer.headers["cache-status"] == status
            assert len(answer.json()["rows"]) == 5000
            assert len(service.app.reads._large._kept) == 1

    run(test)


def test_an_engine_that_goes_in_between_is_a_problem_and_then_a_hit(run: Run) -> None:
    async def test(service: Service) -> None:
        def gone() -> None:
            connection = service.client._connection
            assert connection is not None
            connection._writer.transport.abort()

        service.engine.between = gone
        assert (await service.http.get("/v1/views/story?id=7")).json()["code"] == "engine_unavailable"
        answer = await service.http.get("/v1/views/story?id=7")
        assert answer.headers["cache-status"] == "upquery; hit"
        assert answer.json()["rows"][0]["votes"] == 3

    run(test)


@pytest.mark.parametrize("number", range(5))
def test_answers_are_of_one_version_and_never_of_an_older_one(run: Run, number: int) -> None:
    random = Random(day_seed(f"stored replies {number}"))

    async def test(service: Service) -> None:
        engine, votes_at = service.engine, {service.engine.position: 3}

        def anything() -> None:
            for _ in range(random.randrange(3)):
                chosen = random.choice(["change", "change", "evict", "evict one", "nothing"])
                if chosen == "change":
                    engine.commit(*filled(service, random.randrange(1000)))
                elif chosen == "evict":
                    engine.commit(*filled(service, None))
                elif chosen == "evict one":
                    engine.commit(LeafEvict(random.choice([STORY_ID, KEPT_ID]), ("7",)))
                votes_at[engine.position] = int(engine.rows["story", ("7",)][0][3] or 0)

        async def reader() -> None:
            latest = version_text(1)
            for _ in range(40):
                if random.random() < 0.5:
                    answer = await service.http.post("/v1/read", json=PAIR, headers={"upquery-min-version": latest})
                    votes = votes_of(answer.json())
                else:
                    answer = await service.http.get("/v1/views/story?id=7", headers={"upquery-min-version": latest})
                    votes = [answer.json()["rows"][0]["votes"]]
                assert answer.status_code == 200
                version = answer.json()["version"]
                assert position_of(version) >= position_of(latest)
                assert set(votes) == {votes_of_version(votes_at, position_of(version))}
                latest = version
                anything()
                await asyncio.sleep(0)

        engine.between = anything
        await asyncio.gather(*(reader() for _ in range(4)))

    run(test)


def position_of(version: str) -> int:
    position = parse_minimum(version)
    assert isinstance(position, Position)
    return position


def votes_of_version(votes_at: dict[int, int], position: int) -> int:
    """The votes of the latest commit up to a position: fills do not change them."""
    return votes_at[max(at for at in votes_at if at <= position)]
