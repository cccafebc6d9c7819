"""A gateway over real services, under writers: every answer is the database's, at one version, whatever pods do.

See `consistency` for what is compared, `subscribers` for what is followed.
"""

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from load.subscribers import boards
from load.subscribers.rows import SubscriberRows
from service.demo.postgres_server import EmbeddedPostgres
from service.gateway.homes import home_of
from tests.fixtures.postgres import Database
from tests.fixtures.service import (
    LIMIT_S,
    RunningGateway,
    RunningService,
    alive,
    processes_of,
    running_gateway,
    running_service,
    until,
)
from tests.integration.consistency import Load
from tests.integration.news_setups import Setup, all_ready, postgres_direct
from tests.integration.news_workload import VIEWS as NEWS_VIEWS
from tests.integration.subscribers import BOARDS, VIEWS, Follower, Place, following, make_changes
from tests.integration.subscribers import until as until_heard
from tests.integration.test_subscription_sockets import (
    Socket,
    right,
    socket_of,
    test_mistakes_harm_no_other_subscription,
    test_who_may_connect,
)

pytestmark = pytest.mark.postgres
__all__ = ["postgres_direct", "test_mistakes_harm_no_other_subscription", "test_who_may_connect"]


def news_pod(directory: Path, setup: Setup, number: int, of: int) -> RunningService:
    """A pod of the news site, not started."""
    views = {name: sql for name, (sql, _, _, _) in NEWS_VIEWS.items()}
    return RunningService(directory / str(number), setup.news.url, views, shard={"number": number, "of": of})


@contextmanager
def news_site(
    directory: Path, setup: Setup, shards: int, **gateway: Any
) -> Iterator[tuple[RunningGateway, list[RunningService]]]:
    """A gateway over so many pods, which have all views."""
    with ExitStack() as running:
        pods = [news_pod(directory, setup, number, shards) for number in range(shards)]
        for pod in pods:
            start(running, pod)
        for pod in pods:
            until(lambda p=pod: all_settled(p))  # type: ignore[misc]
        found = running.enter_context(running_gateway(directory / "gateway", [[pod] for pod in pods], gateway=gateway))
        until(lambda: all_ready(found))
        yield found, pods


def start(running: ExitStack, pod: RunningService) -> None:
    running.callback(pod.discard)
    pod.start()
    pod.keep_ports()


def all_settled(pod: RunningService) -> bool:
    """Return whether it has all views that it keeps."""
    views = pod.call("GET", "/v1/catalog/views").json()["views"]
    return len(views) == len(NEWS_VIEWS) and {view["status"] for view in views} <= {"ready", "elsewhere"}


def kill(pod: RunningService) -> None:
    """All of it at once."""
    children = processes_of(pod.pid)
    pod.stop(signal.SIGKILL)
    until(lambda: not any(map(alive, children)))


def counted(gateway: RunningService) -> dict[str, Any]:
    """Return the counters of its one worker."""
    found: dict[str, Any] = gateway.stats()["gateway"]["0"]
    return found


def test_every_answer_is_the_databases(postgres_direct: Setup, tmp_path: Path) -> None:
    with news_site(tmp_path, postgres_direct, 2) as (gateway, pods), Load(postgres_direct.news, gateway) as load:
        for _ in range(3):
            load.compare(each=True)
            load.pause(0.5)
        load.spare()
        load.disturb(lambda: kill(pods[1]), lambda: pods[1].start() and None)
        load.compare(each=True)
        sys.stdout.write(f"{load.summary()} {counted(gateway)}\n")
        assert counted(gateway)["outcomes"]["met"], "no answers of two shards were ever of one version"


def test_another_shard_takes_its_keys_while_all_are_read(postgres_direct: Setup, tmp_path: Path) -> None:
    with (
        ExitStack() as running,
        news_site(tmp_path, postgres_direct, 2, move_s=3.0) as (gateway, pods),
        Load(postgres_direct.news, gateway) as load,
    ):
        load.compare(each=True)
        load.spare()
        pods.append(news_pod(tmp_path, postgres_direct, 2, 3))
        start(running, pods[2])
        gateway.follow([[pod] for pod in pods])
        until(lambda: counted(gateway)["moving"])
        while counted(gateway)["moving"]:
            load.compare(each=True)
        load.compare(each=True)
        sys.stdout.write(f"{load.summary()} {counted(gateway)}\n")
        assert counted(gateway)["requests"]["2"]
        assert counted(gateway)["moved_slots"] > 1000


LIMITS = {"per_connection": 8, "log_entries": 64, "log_bytes": 1 << 19, "origins": ["https://app.example"]}


@pytest.fixture(scope="module")
def pods(postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningService]]:
    """Two shards over the boards."""
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE boards_of_shards")
    url = postgres_server.database_url("boards_of_shards")
    database = Database("boards_of_shards", url, postgres_server)
    database.execute(boards.SCHEMA)
    boards.load(BOARDS)(url)
    directory = tmp_path_factory.mktemp("boards")
    cdc = {"set_replica_identity": True}
    with ExitStack() as running:
        found = []
        for number in (0, 1):
            shard = {"number": number, "of": 2}
            pod = running_service(directory / str(number), url, VIEWS, cdc=cdc, shard=shard, subscriptions=LIMITS)
            found.append(running.enter_context(pod))
            found[-1].keep_ports()
        yield found


@pytest.fixture(scope="module")
def place(
    postgres_server: EmbeddedPostgres, pods: list[RunningService], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """The boards, through a gateway."""
    database = Database("boards_of_shards", postgres_server.database_url("boards_of_shards"), postgres_server)
    with running_gateway(tmp_path_factory.mktemp("gateway"), [[pod] for pod in pods]) as gateway:
        yield Place(gateway, database)


def test_events_are_passed_on_and_begin_anew_where_a_pod_has_gone(place: Place, pods: list[RunningService]) -> None:
    async def main() -> None:
        followers = [Follower(place, view, board) for view in ("board", "counted") for board in range(1, BOARDS + 1)]
        async with following(followers):
            await asyncio.to_thread(make_changes, place, 60, 1, evict=True)
            await until_heard(lambda: all(f.is_right() for f in followers), what="everybody is right")
            assert {f.rows.snapshots for f in followers} == {1}
            await asyncio.to_thread(kill, pods[1])
            there = [f for f in followers if home_of(2, f.view, {"board": f.board}) == 0]
            gone = [f for f in followers if f not in there]
            await until_heard(lambda: all(f.source is not None and f.source.ended.done() for f in gone))
            await asyncio.to_thread(make_changes, place, 40, 2)
            await until_heard(lambda: all(f.is_right() for f in there), what="who is elsewhere goes on")
            assert {f.rows.snapshots for f in there} == {1}
        await asyncio.to_thread(pods[1].start)
        await asyncio.to_thread(until, lambda: not counted(place.service)["away"])
        again = [Follower(place, f.view, f.board) for f in gone]
        async with following(again):
            await until_heard(lambda: all(f.is_right() for f in again), what="who began anew is right")

    asyncio.run(main())


class Boards:
    """All boards followed over one socket; what is over is followed anew."""

    def __init__(self, place: Place, socket: Socket) -> None:
        self._place = place
        self._socket = socket
        self.begun = 0

    def hear_until_right(self) -> None:
        """Every board is what the database has."""
        deadline = time.monotonic() + 3 * LIMIT_S
        for board in range(1, BOARDS + 1):
            while not right(self._place, self._socket, board, "board", board):
                assert time.monotonic() < deadline, f"board {board} is not right in time"
                rows = self._socket.rows.get(board)
                if rows is None or rows.over:
                    self._begin(board)
                self._socket.hear()

    def _begin(self, board: int) -> None:
        self._socket.rows[board] = SubscriberRows()
        self._socket.subscribe(board, "board", board=board)
        self.begun += 1


def test_many_subscriptions_over_one_connection(place: Place, pods: list[RunningService]) -> None:
    with socket_of(place) as socket:
        boards_followed = Boards(place, socket)
        boards_followed.hear_until_right()
        make_changes(place, 40, 2)
        boards_followed.hear_until_right()
        kill(pods[1])
        deadline = time.monotonic() + LIMIT_S
        while not any(rows.over for rows in socket.rows.values()):
            assert time.monotonic() < deadline, "nobody is told that a pod has gone"
            socket.hear()
        begun = boards_followed.begun
        pods[1].start()
        until(lambda: place.service.read("board", board=board_at(1)).status_code == 200)
        make_changes(place, 40, 3)
        boards_followed.hear_until_right()
        assert boards_followed.begun > begun


def board_at(shard: int) -> int:
    return next(board for board in range(1, BOARDS + 1) if home_of(2, "board", {"board": board}) == shard)
