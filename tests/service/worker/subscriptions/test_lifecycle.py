"""How topics begin, what bounds them, and what ends them, over a real PostgreSQL and engine."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dataflow.engine.events import EvictKey
from service.engine.views.registry import ViewOptions
from service.ground.errors import ApiError
from service.protocol.counters import SubscriptionCounts
from service.web.principal import Principal, Right
from service.worker.subscriptions.entries import EventKind
from tests.fixtures.postgres import Database
from tests.service.engine.running import until
from tests.service.worker.subscriptions.workers import Followed, Worker, following

pytestmark = pytest.mark.postgres

VIEWS = {
    "story": "SELECT id, title FROM stories WHERE id = :id",
    "titled": "SELECT id, title FROM stories WHERE title = :title",
    "first": "SELECT id, title FROM stories WHERE id > :id ORDER BY id LIMIT 3",
    "several": "SELECT id, title FROM stories WHERE id IN (:ids)",
    "counted": "SELECT COUNT(*) AS n FROM stories",
}
Scenario = Callable[[Followed, Worker], Awaitable[None]]


@pytest.fixture
def run(database: Database, tmp_path: Path) -> Callable[..., None]:
    """Runs a scenario over 20 stories."""
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text, hidden int)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT n, 'title ' || n FROM generate_series(1, 20) n",
    )

    def run(scenario: Scenario, *workers: Mapping[str, Any]) -> None:
        async def main() -> None:
            cdc: Mapping[str, Any] = {"schema_check_s": 0.2}
            async with following(database, tmp_path, *(workers or ({},)), views=VIEWS, cdc=cdc) as followed:
                await scenario(followed, followed.workers[0])

        asyncio.run(main())

    return run


async def put(followed: Followed, name: str, sql: str, **options: Any) -> None:
    await followed.runtime.changes.put(name, sql, ViewOptions(**options), create_only=False)


def test_what_ends_a_topic(run: Callable[..., None], database: Database) -> None:
    async def scenario(followed: Followed, worker: Worker) -> None:
        await put(followed, "put", VIEWS["story"])
        listener = await worker.listen("put", "1")
        await put(followed, "put", "SELECT id, title || '!' AS title FROM stories WHERE id = :id")
        assert "replaced" in (await listener.until(lambda rebuilt: rebuilt.reason)).reason
        await until(lambda: listener.ended)

        listener = await worker.listen("put", "1")
        assert (await listener.until(lambda rebuilt: rebuilt.rows)).rows == [{"id": 1, "title": "title 1!"}]
        await followed.runtime.changes.drop("put")
        assert "dropped" in (await listener.until(lambda rebuilt: rebuilt.reason)).reason

        await put(followed, "put", "SELECT hidden FROM stories WHERE id = :id")
        listener, other = await worker.listen("put", "1"), await worker.listen("story", "1")
        database.execute("ALTER TABLE stories DROP COLUMN hidden")
        await listener.until(lambda rebuilt: rebuilt.reason)
        with pytest.raises(ApiError) as raised:
            await worker.listen("put", "1")
        assert raised.value.code in ("view_broken", "view_building")
        assert worker.subscriptions.counters().must_refetches >= 3
        await other.close()

    run(scenario)


def test_who_subscribes_before_it_is_known_that_a_topic_has_ended(run: Callable[..., None]) -> None:
    async def scenario(followed: Followed, worker: Worker) -> None:
        await put(followed, "put", VIEWS["story"])
        listener, wanted = await worker.listen("put", "1"), worker.wanted("put", "1")
        token = (await listener.until(lambda rebuilt: rebuilt.token)).token
        with patch.object(worker.subscriptions._following, "changed"):
            await put(followed, "put", "SELECT id FROM stories WHERE id = :id")
            await until(lambda: worker.wanted("put", "1").view.info.id != wanted.view.info.id)
            for after in (None, token):
                with pytest.raises(ApiError) as raised:
                    await worker.subscriptions.subscribe(wanted, after)
                assert raised.value.retryable
        assert "replaced" in (await listener.until(lambda rebuilt: rebuilt.reason)).reason
        await until(lambda: listener.ended)
        await listener.close()
        assert worker.subscriptions.counters().bytes == 0

    run(scenario)


def test_a_stream_that_is_lost_ends_all_topics(run: Callable[..., None], database: Database) -> None:
    async def scenario(followed: Followed, worker: Worker) -> None:
        listeners = [await worker.listen("story", str(n)) for n in range(1, 4)]
        rebuilt = [await listener.until(lambda rebuilt: rebuilt.rows) for listener in listeners]
        database.drop_slots()
        database.execute("UPDATE stories SET title = 'written meanwhile'")
        for listener in listeners:
            await listener.until(lambda rebuilt: rebuilt.reason)
        await until(lambda: followed.runtime.streaming)
        with pytest.raises(ApiError) as raised:
            await again(worker, "story", "1", after=rebuilt[0].token)
        assert raised.value.code == "must_refetch"
        listener = await again(worker, "story", "1")
        assert (await listener.until(lambda r: r.rows)).rows == [{"id": 1, "title": "written meanwhile"}]
        assert followed.runtime.subscribed.topics == 1

    run(scenario)


def test_topics_go_on_when_the_connection_of_the_stream_breaks(run: Callable[..., None], database: Database) -> None:
    async def scenario(followed: Followed, worker: Worker) -> None:
        listener = await worker.listen("story", "1")
        await listener.until(lambda rebuilt: rebuilt.rows)
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND backend_type = 'walsender'",
            "UPDATE stories SET title = 'written meanwhile'",
        )
        rebuilt = await listener.until(lambda r: r.rows and r.rows[0]["title"] == "written meanwhile")
        assert (rebuilt.reason, listener.ended) == ("", False)
        assert followed.runtime.counters.streams_resumed == 1
        assert followed.runtime.counters.streams == 1

    run(scenario)


async def again(worker: Worker, *asked: str, after: str | None = None) -> Any:
    """A subscription as soon as there is a stream."""
    while True:
        try:
            return await worker.listen(*asked, after=after)
        except ApiError as error:
            if not error.retryable:
                raise
        await asyncio.sleep(0.02)


def test_topics_linger_and_go(run: Callable[..., None], database: Database) -> None:
    async def scenario(followed: Followed, worker: Worker) -> None:
        other = followed.workers[1]
        listener = await worker.listen("story", "1")
        token = (await listener.until(lambda rebuilt: rebuilt.token)).token
        await listener.close()
        await until(lambda: followed.runtime.subscribed.topics == 0)
        assert worker.subscriptions.counters().topics == 0
        # Nothing has changed since: any worker knows.
        listener = await other.listen("story", "1", after=token, had=[{"id": 1, "title": "title 1"}])
        await listener.until(lambda rebuilt: rebuilt.kinds == [EventKind.UP_TO_DATE])
        database.execute("UPDATE stories SET title = 'new' WHERE id = 1")
        await listener.until(lambda rebuilt: rebuilt.kinds == [EventKind.UP_TO_DATE, EventKind.CHANGE])
        listener = await worker.listen("story", "1")
        await listener.until(lambda rebuilt: rebuilt.rows == [{"id": 1, "title": "new"}])
        with pytest.raises(ApiError) as raised:
            await worker.listen("story", "1", after=token)
        assert raised.value.code == "must_refetch"
        with pytest.raises(ApiError) as raised:
            await worker.listen("story", "1", after="yesterday")
        assert raised.value.code == "bad_request"

    run(scenario, {"linger_s": 0.1}, {})


def test_a_worker_that_goes_takes_its_pins_along(run: Callable[..., None]) -> None:
    async def scenario(followed: Followed, worker: Worker) -> None:
        listeners = [await each.listen("story", "1") for each in followed.workers]
        (leaf,) = [leaf for leaf in engine_of(followed).graph.leaves.values() if leaf.pins]
        assert leaf.pins == {("1",): 2}
        await worker.client.close()
        # It is back at once, for there are subscribers; then it is not any more.
        await until(lambda: leaf.pins == {("1",): 2} and followed.runtime.subscribed.topics == 2)
        for listener in listeners:
            await listener.close()
        await until(lambda: not leaf.pins and not followed.runtime.subscribed.topics)
        assert worker.subscriptions.counters().bytes == 0
        # Nobody lingers, and yet whoever comes finds what was begun for it.
        again = await asyncio.gather(*[worker.listen("story", "1") for _ in range(3)])
        await again[0].until(lambda rebuilt: rebuilt.rows)
        assert leaf.pins == {("1",): 1}

    run(scenario, {"linger_s": 0}, {"linger_s": 0})


def test_a_version_that_another_worker_told(run: Callable[..., None], database: Database) -> None:
    async def scenario(followed: Followed, worker: Worker) -> None:
        other = followed.workers[1]
        tellers = [await worker.listen("story", id_) for id_ in ("1", "2")]
        listeners = [await other.listen("story", id_) for id_ in ("1", "2")]
        first = max([(await listener.until(lambda r: r.token)).position for listener in (*tellers, *listeners)])
        database.execute("UPDATE stories SET title = 'another' WHERE id = 3")
        before = list(tellers[0].rebuilt.rows)
        one, two = [(await teller.until(lambda r: r.position > first)).token for teller in tellers]
        # Where nothing has happened since, it is as good as one of its own; and then it is one.
        again = await other.listen("story", "1", after=one)
        await again.until(lambda r: r.kinds == [EventKind.UP_TO_DATE])
        database.execute("UPDATE stories SET title = 'new' WHERE id IN (1, 2)")
        for listener in listeners:
            await listener.until(lambda r: r.kinds == [EventKind.SNAPSHOT, EventKind.CHANGE])
        again = await other.listen("story", "1", after=one, had=before)
        await again.until(lambda r: r.kinds == [EventKind.CHANGE])
        # What it was at that version is not known here.
        with pytest.raises(ApiError) as raised:
            await other.listen("story", "2", after=two)
        assert raised.value.code == "must_refetch"

    run(scenario, {"up_to_date_s": 0.05}, {"up_to_date_s": 3600})


def test_bounds(run: Callable[..., None], database: Database) -> None:
    async def scenario(_: Followed, worker: Worker) -> None:
        lazy = await worker.subscribe("story", "1")
        quick = await worker.listen("story", "1")
        for number in range(4):
            title = f"version {number}"
            database.execute(f"UPDATE stories SET title = '{title}' WHERE id = 1")
            await quick.until(lambda rebuilt, title=title: rebuilt.rows == [{"id": 1, "title": title}])
        assert [entry.kind for entry in await lazy.next()] == [EventKind.SNAPSHOT]
        assert [entry.kind for entry in await lazy.next()] == [EventKind.MUST_REFETCH]
        assert list(await lazy.next()) == []
        lazy.close()
        assert worker.subscriptions.counters() == SubscriptionCounts(
            topics=1, subscribers=1, changes=4, must_refetches=1, bytes=worker.subscriptions.counters().bytes
        )
        # As many topics as there may be, one of which nobody follows: it makes room.
        second, third = await worker.listen("story", "2"), await worker.listen("story", "3")
        await refused(worker, "rate_limited", "story", "4")
        await second.close()
        fourth = await worker.listen("story", "4")
        # As many subscribers as there may be.
        fifth = await worker.listen("story", "4")
        await refused(worker, "rate_limited", "story", "4")
        for listener in (quick, third, fourth, fifth):
            await listener.close()
        await refused(worker, "too_large", "titled", "x" * 5000)
        await refused(worker, "rate_limited", "several", tuple(str(n) for n in range(8)))
        # Too large from the start, and by growing.
        database.execute("INSERT INTO stories SELECT n, 'same' FROM generate_series(100, 105) n")
        listener = await worker.listen("titled", "same")
        await listener.until(lambda rebuilt: len(rebuilt.rows) == 6)
        database.execute("INSERT INTO stories SELECT n, 'same' FROM generate_series(110, 130) n")
        assert "larger" in (await listener.until(lambda rebuilt: rebuilt.reason)).reason
        await refused(worker, "too_large", "titled", "same")

    run(scenario, {"log_entries": 2, "topics": 3, "keys": 7, "subscribers": 4, "topic_bytes": 400})


def test_a_client_has_a_share_of_the_subscribers(run: Callable[..., None]) -> None:
    async def scenario(_: Followed, worker: Worker) -> None:
        one, other = (Principal(name, frozenset({Right.READ})) for name in ("one", "other"))
        subscribe, wanted = worker.subscriptions.subscribe, worker.wanted("story", "1")
        first, _ = [await subscribe(wanted, None, one) for _ in range(2)]
        with pytest.raises(ApiError) as raised:
            await subscribe(wanted, None, one)
        assert (raised.value.code, "This client" in raised.value.detail) == ("rate_limited", True)
        # Who has no name has no share, and takes nobody's.
        others = [await subscribe(wanted, None, each) for each in (other, other, None, None, None)]
        first.close()
        first = await subscribe(wanted, None, one)
        assert worker.subscriptions.counters().subscribers == 7
        for subscription in (first, *others):
            subscription.close()
        assert worker.subscriptions.counters().subscribers == 1

    run(scenario, {"client_subscribers": 2})


async def refused(worker: Worker, code: str, *asked: Any) -> None:
    with pytest.raises(ApiError) as raised:
        await worker.subscribe(*asked)
    assert raised.value.code == code


def test_there_is_room_for_so_much(run: Callable[..., None], database: Database) -> None:
    async def scenario(_: Followed, worker: Worker) -> None:
        held = lambda: worker.subscriptions.counters().bytes  # noqa: E731
        quick = await worker.listen("story", "1")
        before = held()
        for number in range(6):
            title = f"{number}" * 1000
            database.execute(f"UPDATE stories SET title = '{title}' WHERE id = 1")
            await quick.until(lambda rebuilt, title=title: rebuilt.rows and rebuilt.rows[0]["title"] == title)
        assert before + 5000 < held() < 20_000
        second = await worker.listen("story", "2")
        lingering = await worker.listen("story", "3")
        await lingering.close()
        database.execute(f"UPDATE stories SET title = '{'x' * 4000}' WHERE id = 2")
        # The one that lingers goes, then logs are shortened, then the one that grows ends.
        await second.until(lambda rebuilt: rebuilt.reason or len(rebuilt.rows[0]["title"]) == 4000)
        assert worker.subscriptions.counters().topics <= 2
        database.execute(f"UPDATE stories SET title = '{'x' * 9000}' WHERE id = 2")
        assert "room" in (await second.until(lambda rebuilt: rebuilt.reason)).reason
        assert held() < 20_000
        await quick.close()
        third = await worker.listen("story", "4")
        await third.until(lambda rebuilt: rebuilt.rows)

    run(scenario, {"memory": 20_000})


def test_draining(run: Callable[..., None]) -> None:
    async def scenario(_: Followed, worker: Worker) -> None:
        listeners = [await worker.listen("story", str(n % 3)) for n in range(9)]
        for listener in listeners:
            await listener.until(lambda rebuilt: rebuilt.kinds)
        await worker.subscriptions.close()
        await until(lambda: all(listener.ended for listener in listeners))
        assert all(listener.rebuilt.kinds == [EventKind.SNAPSHOT] for listener in listeners)
        await refused(worker, "engine_unavailable", "story", "1")

    run(scenario)


def test_views_that_expire_whole_ones_and_bounds_of_rows(run: Callable[..., None], database: Database) -> None:
    async def scenario(followed: Followed, worker: Worker) -> None:
        await put(followed, "expiring", "SELECT id, title FROM stories WHERE id = :id", tier="ttl", ttl_s=0.2)
        await put(followed, "whole", "SELECT id, title FROM stories WHERE title = :title", materialization="full")
        await until(lambda: followed.runtime.registry.views["whole"].status == "ready")
        expiring = await worker.listen("expiring", "1")
        whole, none = await worker.listen("whole", "title 1"), await worker.listen("whole", "none")
        first, counted = await worker.listen("first", "4"), await worker.listen("counted")
        nothing = await worker.listen("story", None)
        for listener, ids in ((expiring, [1]), (whole, [1]), (none, []), (first, [5, 6, 7]), (nothing, [])):
            await listener.until(lambda r, ids=ids: r.kinds and [row["id"] for row in r.rows] == ids)
        database.execute("UPDATE stories SET title = 'none' WHERE id = 1", "DELETE FROM stories WHERE id = 6")
        await expiring.until(lambda rebuilt: rebuilt.rows == [{"id": 1, "title": "none"}])
        await whole.until(lambda rebuilt: rebuilt.rows == [])
        await none.until(lambda rebuilt: [row["id"] for row in rebuilt.rows] == [1])
        await first.until(lambda rebuilt: [row["id"] for row in rebuilt.rows] == [5, 7, 8])
        await counted.until(lambda rebuilt: rebuilt.rows == [{"n": 19}])
        assert nothing.rebuilt.kinds == [EventKind.SNAPSHOT]
        # The whole view is a hole, and comes back with what has happened.
        evict_all(followed, "whole")
        database.execute("UPDATE stories SET title = 'none' WHERE id = 2")
        await none.until(lambda rebuilt: len(rebuilt.rows) == 2)

    run(scenario)


def engine_of(followed: Followed) -> Any:
    return followed.runtime.dispatcher.engine


def evict_all(followed: Followed, name: str) -> None:
    """Makes a hole of a view that is kept whole."""
    installed = followed.runtime.registry.views[name].installed
    assert installed is not None
    followed.runtime.dispatcher.step(EvictKey(installed.id, ()))
