"""Many subscriptions over one WebSocket; and what ends all of them: an engine that dies, a service that is stopped."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from load.subscribers import boards
from load.subscribers.rows import SubscriberRows
from load.subscribers.stream import StreamEvent
from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.service import LIMIT_S, alive
from tests.fixtures.service import until as wait_until
from tests.integration.subscribers import (
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

LIMITS = {"per_connection": 8, "log_entries": 64, "log_bytes": 1 << 19, "origins": ["https://app.example"]}


@pytest.fixture(scope="module")
def place(postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Stopped by the last test."""
    directory = tmp_path_factory.mktemp("sockets")
    with place_of(postgres_server, "sockets", directory / "service", subscriptions=LIMITS) as running:
        yield running


class Socket:
    """A client of ``/v1/subscribe``: rows by the id of a subscription, and what else was said."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.rows: dict[int | str, SubscriberRows] = {}
        self.tokens: dict[int | str, str] = {}
        self.problems: list[tuple[Any, str]] = []
        self.unsubscribed: list[int | str] = []

    def say(self, **message: Any) -> None:
        """A message to the service."""
        self.connection.send(json.dumps(message))

    def subscribe(self, number: int | str, view: str, after: str | None = None, **params: Any) -> None:
        """Follow a view."""
        self.say(type="subscribe", id=number, view=view, params=params, after=after)

    def hear(self) -> None:
        """The next message."""
        message = json.loads(self.connection.recv(LIMIT_S))
        number, kind = message.pop("id"), message.pop("type")
        if kind == "problem":
            self.problems.append((number, message["problem"]["code"]))
        elif kind == "unsubscribed":
            self.unsubscribed.append(number)
        else:
            self.tokens[number] = message.pop("token")
            self.rows.setdefault(number, SubscriberRows()).hear(StreamEvent(kind, message))

    def hear_until(self, condition: Any) -> None:
        """All messages until then; each of them comes within the limit."""
        while not condition():
            self.hear()


@contextlib.contextmanager
def socket_of(place: Place, path: str = "/v1/subscribe", **options: Any) -> Iterator[Socket]:
    with connect(place.service.http.replace("http", "ws", 1) + path, **options) as connection:
        yield Socket(connection)


def now(place: Place) -> dict[str, str]:
    """Headers of a read that sees all that is committed."""
    ((position,),) = place.database.query("SELECT pg_current_wal_insert_lsn()::text")
    return {"Upquery-Min-Version": position, "Prefer": "wait=20"}


def right(place: Place, socket: Socket, number: int | str, view: str, board: int) -> bool:
    rows = socket.rows.get(number)
    return rows is not None and comparable(rows.rows) == comparable(place.expected(view, board))


def test_many_subscriptions_over_one_connection(place: Place) -> None:
    with socket_of(place) as socket:
        followed = {n: (view, 1 + n % 3) for n, view in enumerate(("board", "first", "counted", "refreshed") * 2)}
        for number, (view, board) in followed.items():
            socket.subscribe(number, view, board=board)
        socket.hear_until(lambda: len(socket.rows) == len(followed))
        make_changes(place, 60, 1)
        for number, (view, board) in followed.items():
            socket.hear_until(lambda n=number, v=view, b=board: right(place, socket, n, v, b))  # type: ignore[misc]
        assert {rows.snapshots for rows in socket.rows.values()} == {1}
        # One too many; then there is room again.
        socket.subscribe("more", "board", board=4)
        socket.hear_until(lambda: socket.problems == [("more", "rate_limited")])
        socket.say(type="unsubscribe", id=0)
        socket.hear_until(lambda: socket.unsubscribed == [0])
        token = socket.tokens.pop(0)
        make_changes(place, 30, 2)
        socket.subscribe("again", "board", after=token, board=followed[0][1])
        socket.rows["again"] = socket.rows.pop(0)
        socket.hear_until(lambda: right(place, socket, "again", *followed[0]))
        assert socket.rows["again"].snapshots == 1


def test_mistakes_harm_no_other_subscription(place: Place) -> None:
    with socket_of(place) as socket:
        socket.subscribe(1, "board", board=1)
        socket.connection.send("{")
        socket.connection.send("[]")
        socket.connection.send(b"\xff")
        socket.say(type="subscribe", view="board")
        socket.say(type="shout", id=2)
        socket.say(type="unsubscribe", id=3)
        socket.subscribe(1, "board", board=1)
        socket.subscribe(4, "nothing", board=1)
        socket.subscribe(5, "board", bored=1)
        socket.subscribe(6, "board", after="pg:0/1", board=1)
        socket.subscribe(7, "board", after="yesterday", board=1)
        socket.say(type="subscribe", id=8, view="board", params=[1])
        socket.hear_until(lambda: len(socket.problems) == 12)
        assert sorted(socket.problems, key=lambda problem: problem[0] or 9) == [
            (1, "bad_request"),
            (2, "bad_request"),
            (3, "bad_request"),
            (4, "view_not_found"),
            (5, "parameter_unknown"),
            (6, "must_refetch"),
            (7, "bad_request"),
            (8, "bad_request"),
            *[(None, "bad_request")] * 4,
        ]
        make_changes(place, 20, 3)
        socket.hear_until(lambda: right(place, socket, 1, "board", 1))


def test_who_does_not_read_costs_no_more_than_a_bound(place: Place) -> None:
    """Four connections with eight subscriptions each, to each of which 5 MB of changes come."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket_of(place, max_queue=1)) for _ in range(4)]
        for socket in sockets:
            for number in range(8):
                socket.subscribe(number, "board", board=boards.HEAVY)
            socket.hear_until(lambda s=socket: len(s.rows) == 8)  # type: ignore[misc]
        before = worker_bytes(place)
        change_heavy(place, 125)
        wait_until(lambda: place.service.read("board", board=boards.HEAVY, headers=now(place)).status_code == 200)
        assert worker_bytes(place) - before < 20 << 20
        for socket in sockets:
            socket.hear_until(lambda s=socket: all(rows.over for rows in s.rows.values()))  # type: ignore[misc]
            socket.subscribe("again", "board", board=boards.HEAVY)
            socket.hear_until(lambda s=socket: right(place, s, "again", "board", boards.HEAVY))  # type: ignore[misc]


def test_who_may_connect(place: Place) -> None:
    host = place.service.http.removeprefix("http://")
    for origin in (f"http://{host}", "https://app.example"):
        with socket_of(place, origin=origin) as socket:
            socket.subscribe(1, "board", board=1)
            socket.hear_until(lambda s=socket: s.rows)  # type: ignore[misc]
    for path, origin, status in (
        ("/v1/subscribe", "https://elsewhere.example", 403),
        ("/v1/subscribe", "null", 403),
        ("/v1/views/board?board=1", None, 404),
        ("/v1/views/board", None, 404),
        ("/nothing", None, 404),
    ):
        with pytest.raises(InvalidStatus) as refused, socket_of(place, path, origin=origin):
            pass
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body)["status"] == status


def say_too_much(socket: Socket) -> None:
    socket.say(type="subscribe", id=1, view="board", params={"board": "1" * (1 << 21)})
    socket.connection.recv(LIMIT_S)


def test_a_message_that_is_too_long_ends_the_connection(place: Place) -> None:
    with socket_of(place) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            say_too_much(socket)
        # What is still being sent may have the connection reset before the reason is read.
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1009


def test_another_engine_is_another_beginning(place: Place) -> None:
    async def main() -> None:
        follower = Follower(place, "board", 1)
        async with following([follower]):
            engine = place.service.stats()["pid"]
            os.kill(engine, signal.SIGKILL)
            assert follower.source is not None
            await asyncio.wait_for(follower.source.ended, LIMIT_S)
            assert follower.kinds[-1] == "must-refetch"
            await asyncio.to_thread(wait_until, lambda: place.service.read("board", board=1).status_code == 200)
            await follower.open(resume=True)
            make_changes(place, 10, 4)
            await until(follower.is_right)
            assert follower.rows.snapshots == 2

    asyncio.run(main())


def test_streams_end_well_when_the_service_is_stopped(place: Place) -> None:
    async def main() -> None:
        followers = [Follower(place, "board", 1 + n % 3) for n in range(12)]
        stalled = [Follower(place, "board", boards.HEAVY) for _ in range(3)]
        async with following([*followers, *stalled]):
            for follower in stalled:
                assert follower.source is not None
                follower.source.stall()
            await asyncio.to_thread(change_heavy, place, 125)
            with socket_of(place) as socket:
                socket.subscribe(1, "board", board=1)
                socket.hear()
                code = await asyncio.to_thread(place.service.stop)
                with pytest.raises(ConnectionClosed) as closed:
                    socket.hear_until(lambda: False)
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1012
            assert code == 0
            for follower in followers:
                assert follower.source is not None
                await asyncio.wait_for(follower.source.ended, LIMIT_S)
                assert follower.source.complete
                assert follower.source.events.retry_ms is not None
                assert follower.source.events.last_id != ""
            assert not {"Traceback", "ERROR"} & set(place.service.log.read_text().replace(":", " ").split())

    asyncio.run(main())
    assert not alive(place.service.pid)
