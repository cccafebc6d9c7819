"""One connection, one request after another."""

import asyncio
from collections.abc import Iterator

import pytest

from load.driver.connection import Broken, Pool, ReplyParser, SingleConnection
from load.driver.visit import HttpReply, Visit, get, read_keys, write
from load.sides.side import Side
from tests.load.driver.echo_server import running_echo


@pytest.fixture(scope="module")
def echo() -> Iterator[tuple[Side, list[str]]]:
    with running_echo() as side_and_requests:
        yield side_and_requests


@pytest.fixture
def connection(echo: tuple[Side, list[str]]) -> Iterator[SingleConnection]:
    side, requests = echo
    requests.clear()
    with SingleConnection(side.reads_url, side.writes_url, timeout_s=0.5) as single:
        yield single


def test_a_request_is_answered(connection: SingleConnection, echo: tuple[Side, list[str]]) -> None:
    assert connection.ask(get("hit", {"name": "a b&c"})) == HttpReply(200, b'{"rows": []}', True)
    assert connection.ask(get("miss", {})).hit is False
    assert connection.ask(get("chunked", {})) == HttpReply(200, b"abcde", None)
    assert connection.ask(read_keys("votes", [{"id": 1}])).body == b'{"keys":[{"id":1}]}'
    assert connection.ask(write("vote", {"id": 1})).body == b'{"id":1}'
    assert echo[1][0] == "/v1/views/hit?name=a+b%26c"


def test_a_connection_that_was_closed_is_opened_again(connection: SingleConnection) -> None:
    for _ in range(2):
        assert connection.ask(get("last", {})).status == 200
        with pytest.raises(Broken):
            connection.ask(get("gone", {}))
        with pytest.raises(TimeoutError):
            connection.ask(get("silent", {}))


def test_a_whole_visit_is_made(connection: SingleConnection) -> None:
    seen: list[int] = []

    def page() -> Visit:
        first = yield [get("hit", {}), get("miss", {})]
        (last,) = yield [get("refused", {})]
        seen.extend(reply.status for reply in (*first, last))

    assert [reply.hit for reply in connection.make(page())] == [True, False, None]
    assert seen == [200, 200, 503]


def test_a_reply_has_its_own_index_although_another_request_waits_for_the_connection(
    echo: tuple[Side, list[str]],
) -> None:
    async def ask() -> dict[int, bytes]:
        pool = Pool(echo[0].reads_url, limit=1, timeout_s=5.0)
        replies: dict[int, bytes] = {}
        done = asyncio.Event()

        class Asker:
            def replied(self, index: int, reply: HttpReply) -> None:
                replies[index] = reply.body
                if len(replies) == 2:
                    done.set()

            def broke(self, index: int, reason: str) -> None:
                raise AssertionError((index, reason))

        for index, view in ((0, "hit"), (1, "chunked")):
            pool.send(get(view, {}).request, Asker(), index)
        async with asyncio.timeout(5):
            await done.wait()
        pool.close()
        return replies

    assert asyncio.run(ask()) == {0: b'{"rows": []}', 1: b"abcde"}


def test_replies_in_pieces_are_put_together() -> None:
    parser = ReplyParser()
    answer = b"HTTP/1.1 200 OK\r\nCACHE-STATUS: x; hit\r\ncontent-length: 5\r\n\r\nhello"
    for end in range(1, len(answer)):
        assert parser.feed(answer[end - 1 : end]) is None
    assert parser.feed(answer[-1:]) == HttpReply(200, b"hello", True)
    assert parser.keeps
    with pytest.raises(Broken, match="not HTTP"):
        parser.feed(b"220 smtp ready\r\n")
