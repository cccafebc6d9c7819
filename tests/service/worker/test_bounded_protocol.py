"""Limits of a client's requests and of their duration: byte by byte, with small bounds."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.settings.sections import HttpSettings
from service.web.bounded_protocol import ConnectionLimits
from tests.service.worker.test_direct_protocol import GET, Client, connected, post

LIMITS = ConnectionLimits(
    HttpSettings(max_head_bytes=2000, max_headers=12, receive_timeout_s=0.2, keep_alive_s=20, max_connections=3)
)
CHUNKED = b"POST /v1/read HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
Talk = Callable[[Callable[[Client], Awaitable[None]]], None]


def talking(directory: Path, limits: ConnectionLimits) -> Talk:
    def run(test: Callable[[Client], Awaitable[None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(20), connected(directory, limits) as client:
                await test(client)

        asyncio.run(main())

    return run


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """Runs a coroutine function of a `Client`."""
    return talking(tmp_path, LIMITS)


@pytest.fixture
def talk_slowly(tmp_path: Path) -> Talk:
    """Return `talk` without a time limit."""
    return talking(tmp_path, ConnectionLimits(HttpSettings(max_head_bytes=2000, max_headers=12, receive_timeout_s=20)))


async def refused(client: Client, status: int, code: str) -> None:
    """Expect a refusal, and the end of the connection."""
    got, headers, body = await client.answer()
    assert (got, headers["connection"], headers["content-type"]) == (status, "close", "application/problem+json")
    assert json.loads(body)["code"] == code
    assert headers["cache-control"] == "no-store"
    assert await client.ended()


@pytest.mark.parametrize(
    "beginning",
    [
        pytest.param((GET % 7)[:4], id="in the method"),
        pytest.param((GET % 7)[:20], id="in the path"),
        pytest.param((GET % 7)[:-2], id="before the last line"),
        pytest.param(post([7])[:-3], id="in a short body"),
        pytest.param(post([7] * 5000)[:-3], id="in a long body"),
        pytest.param(
            post([7]).replace(b"content-length: 19", b"transfer-encoding: chunked")[:-19] + b"9\r\n", id="chunk"
        ),
    ],
)
def test_who_sends_slowly_is_not_waited_for(talk: Talk, beginning: bytes) -> None:
    """A byte now and then does not prolong the time."""

    async def test(client: Client) -> None:
        client.writer.write(beginning)
        answer = asyncio.create_task(refused(client, 408, "request_timeout"))
        started = asyncio.get_running_loop().time()
        while not answer.done():
            client.writer.write(b"a" if b"POST" not in beginning or b"chunked" in beginning else b"")
            await asyncio.wait([answer], timeout=0.02)
        await answer
        assert asyncio.get_running_loop().time() - started < 10
        # The server ends it also if this side does not.
        state = client.server.server_state
        while state.connections or state.tasks:
            await asyncio.sleep(0.01)

    talk(test)


def test_who_waits_for_an_answer_is_not_slow(talk: Talk) -> None:
    """A client with a whole request, or the beginning of the next one, is not slow."""

    async def test(client: Client) -> None:
        client.engine.gate = asyncio.Event()
        client.writer.write((GET % 99) + (GET % 7)[:10])
        (protocol,) = client.server.server_state.connections
        while len(client.engine.reads) < 3:
            await asyncio.sleep(0)
        client.writer.write((GET % 7)[10:15])
        while protocol._late is None:
            await asyncio.sleep(0)
        first = protocol._late
        # The time is over, and it was given more.
        while protocol._late in (first, None):
            await asyncio.sleep(0.01)
        client.engine.gate.set()
        client.writer.write((GET % 7)[15:])
        assert await client.titles() == [None]
        assert await client.titles() == ["Seven"]
        assert protocol._late is None

    talk(test)


def test_a_whole_request_leaves_no_timer(talk: Talk) -> None:
    async def test(client: Client) -> None:
        (protocol,) = client.server.server_state.connections
        for request in (GET % 7, post([7, 8])):
            for at in range(1, len(request)):
                client.writer.write(request[:at])
                while protocol._late is None:
                    await asyncio.sleep(0)
                client.writer.write(request[at:])
                assert (await client.titles())[0] == "Seven"
                assert protocol._late is None

    talk(test)


def test_a_connection_without_a_request_is_closed(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        assert await (await client.another()).ended()
        assert await client.ended()

    talking(tmp_path, ConnectionLimits(HttpSettings(keep_alive_s=0.1, receive_timeout_s=20)))(test)


def header(bytes_: int, name: bytes = b"x") -> bytes:
    return name + b": " + b"a" * (bytes_ - len(name) - 4) + b"\r\n"


HEADS: list[Any] = [
    pytest.param((GET % 7)[:-2] + header(2000) + b"\r\n", id="a long header"),
    pytest.param((GET % 7)[:-2] + header(100) * 20 + b"\r\n", id="many bytes"),
    pytest.param((GET % 7)[:-2] + b"x: a\r\n" * 12 + b"\r\n", id="many headers"),
    pytest.param(b"GET /v1/views/story?" + b"id=7&" * 500 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", id="a long query"),
    pytest.param(post([7], header(2000)), id="of a body"),
]


@pytest.mark.parametrize("request_", HEADS)
def test_heads_are_bounded_however_they_come(talk_slowly: Talk, request_: bytes) -> None:
    async def test(client: Client) -> None:
        # Behind another, so that it has its turn later.
        client.writer.write((GET % 7) + request_)
        assert await client.titles() == ["Seven"]
        await refused(client, 431, "head_too_large")
        another = await client.another()
        for at in range(0, len(request_), 40):
            another.writer.write(request_[at : at + 40])
            await asyncio.sleep(0)
        await refused(another, 431, "head_too_large")
        # Its beginning came with the end of another.
        third = await client.another()
        third.writer.write((GET % 7) + request_[:100])
        assert await third.titles() == ["Seven"]
        third.writer.write(request_[100:])
        await refused(third, 431, "head_too_large")

    talk_slowly(test)


def test_a_head_without_end_is_refused_before_it_ends(talk_slowly: Talk) -> None:
    async def test(client: Client) -> None:
        client.writer.write(GET[:10] + b"a" * 3000)
        await refused(client, 431, "head_too_large")

    talk_slowly(test)


def test_heads_up_to_the_bounds_are_served(talk_slowly: Talk) -> None:
    async def test(client: Client) -> None:
        for extra in (b"x: a\r\n" * 11, header(1900), b""):
            client.writer.write((GET % 7)[:-2] + extra + b"\r\n")
            assert await client.titles() == ["Seven"]
        # Together they are longer than one may be.
        client.writer.write(((GET % 7)[:-2] + header(1900) + b"\r\n") * 3)
        assert [await client.titles() for _ in range(3)] == [["Seven"]] * 3

    talk_slowly(test)


def test_trailers_are_bounded(talk_slowly: Talk) -> None:
    async def test(client: Client) -> None:
        client.writer.write(CHUNKED + b"0\r\n" + b"x: a\r\n" * 30)
        assert (await client.answer())[0] in (422, 431)
        assert await client.ended()

    talk_slowly(test)


@pytest.mark.parametrize("sent", [0, 1, 2999], ids=["nothing of it", "a byte of it", "all but a byte"])
def test_who_announces_too_much_is_told_that_the_connection_ends(tmp_path: Path, sent: int) -> None:
    async def test(client: Client) -> None:
        client.writer.write(
            b"POST /v1/read HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 3000\r\n\r\n"
        )
        await client.writer.drain()
        client.writer.write(b" " * sent)
        await refused(client, 413, "too_large")

    talking(tmp_path, ConnectionLimits(HttpSettings(max_body_bytes=2000, receive_timeout_s=20)))(test)


def test_a_body_without_end_is_not_read_for_ever(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        async def send() -> None:
            client.writer.write(CHUNKED)
            for _ in range(10_000):
                client.writer.write(b"8000\r\n" + b" " * 0x8000 + b"\r\n")
                await client.writer.drain()

        with pytest.raises(ConnectionError):
            await send()

    talking(tmp_path, ConnectionLimits(HttpSettings(max_body_bytes=1 << 20, receive_timeout_s=20)))(test)


def test_what_is_not_http_is_told_so(talk: Talk) -> None:
    async def test(client: Client) -> None:
        for nonsense in (b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nhost test\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"):
            another = await client.another()
            another.writer.write(nonsense)
            await refused(another, 400, "bad_request")
        client.writer.write(GET % 7)
        assert await client.titles() == ["Seven"]

    talk(test)


def test_one_connection_too_many_is_told_so_and_the_others_are_served(talk: Talk) -> None:
    async def test(client: Client) -> None:
        others = [await client.another() for _ in range(2)]
        for other in others:
            other.writer.write(GET % 7)
            assert await other.titles() == ["Seven"]
        for request in (GET % 7, post([7]), b"GET /v1/nothing HTTP/1.1\r\nhost: localhost\r\n\r\n"):
            crowd = await client.another()
            crowd.writer.write(request)
            await refused(crowd, 503, "overloaded")
        for served in (client, *others):
            served.writer.write(GET % 8)
            assert await served.titles() == ["Eight"]
        others[0].writer.close()
        while len(client.server.server_state.connections) > 2:
            await asyncio.sleep(0)
        another = await client.another()
        another.writer.write(GET % 7)
        assert await another.titles() == ["Seven"]

    talk(test)


def test_some_paths_are_served_on_one_connection_too_many(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        others = [await client.another() for _ in range(3)]
        crowd = others[-1]
        crowd.writer.write(GET % 7)
        assert await crowd.titles() == ["Seven"]
        crowd.writer.write(b"GET /v1/views/votes_of?author=ann&id=7 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await refused(crowd, 503, "overloaded")

    talking(tmp_path, replace(LIMITS, always_served=frozenset({"/v1/views/story"})))(test)


HEAD = b"GET /v1/views/story?id=7 HTTP/1.1\r\n"
OPEN = (b"localhost", b"LocalHost:8080", b"127.0.0.1", b"127.1.2.3:1", b"[::1]:8080", b"app.localhost:80")
FOREIGN = (
    b"evil.example",
    b"evil.example:8080",
    b"localhost.evil.example",
    b"127.0.0.1.evil.example",
    b"",
    b"0.0.0.0",
    b"10.0.0.1",
)


@pytest.mark.parametrize("host", OPEN + FOREIGN)
def test_without_access_control_only_names_of_this_machine_are_answered_to(tmp_path: Path, host: bytes) -> None:
    async def test(client: Client) -> None:
        reads = [HEAD + b"host: %b\r\n\r\n" % host, post([7]).replace(b"host: localhost", b"host: " + host)]
        for request in (*reads, *reads, HEAD.replace(b"GET", b"OPTIONS") + b"host: %b\r\n\r\n" % host):
            asked = await client.another()
            asked.writer.write(request)
            if host in FOREIGN:
                await refused(asked, 421, "host_refused")
            else:
                assert (await asked.answer())[0] in (200, 405)

    talking(tmp_path, ConnectionLimits(HttpSettings(receive_timeout_s=20), loopback_only=True))(test)


@pytest.mark.parametrize("host", FOREIGN)
def test_a_socket_is_opened_by_names_of_this_machine_only(tmp_path: Path, host: bytes) -> None:
    async def test(client: Client) -> None:
        client.writer.write(SOCKET % host)
        await refused(client, 421, "host_refused")

    talking(tmp_path, ConnectionLimits(HttpSettings(receive_timeout_s=20), loopback_only=True))(test)


SOCKET = (
    b"GET /v1/subscribe HTTP/1.1\r\nhost: %b\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"
)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(HEAD + b"\r\n", id="no Host"),
        pytest.param(HEAD + b"host: a\r\nhost: a\r\n\r\n", id="two Hosts"),
        pytest.param(HEAD + b"host: a\r\nx: y\r\nHost: b\r\n\r\n", id="other Hosts"),
        pytest.param(CHUNKED.replace(b"chunked", b"identity, chunked") + b"0\r\n\r\n", id="codings"),
        pytest.param(
            CHUNKED.replace(b"\r\n\r\n", b"\r\ntransfer-encoding: chunked\r\n\r\n") + b"0\r\n\r\n", id="two codings"
        ),
        pytest.param(b"GET /v1/views/story?id=7\r\n\r\n", id="HTTP/0.9"),
        pytest.param(b"CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n", id="a tunnel"),
        pytest.param(SOCKET % b"a" + b"\x81\x80\x00\x00\x00\x00", id="a frame before the handshake"),
    ],
)
def test_heads_of_two_meanings_are_refused(talk_slowly: Talk, head: bytes) -> None:
    async def test(client: Client) -> None:
        for _ in range(2):
            asked = await client.another()
            asked.writer.write(head)
            await refused(asked, 400, "bad_request")

    talk_slowly(test)


def test_trailers_are_no_headers(talk_slowly: Talk) -> None:
    async def test(client: Client) -> None:
        body = json.dumps({"reads": [{"view": "story", "params": {"id": 7}}]}).encode()
        head = CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-type: application/json\r\n\r\n")
        trailers = b"upquery-min-version: no version\r\nprefer: wait=no\r\nhost: other\r\ncontent-type: text/plain\r\n"
        for _ in range(2):
            client.writer.write(head + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailers))
        for _ in range(2):
            assert (await client.answer())[0] == 200

    talk_slowly(test)


@pytest.mark.parametrize("whole", [True, False])
def test_an_offer_of_another_protocol_is_ignored(talk_slowly: Talk, whole: bool) -> None:
    """And what is behind it is what it would be without."""

    async def test(client: Client) -> None:
        offer = b"\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARA\r\n\r\n"
        get, many = (GET % 7).replace(b"\r\n\r\n", offer), post([1, 2]).replace(b"\r\n\r\n", offer, 1)
        for requests in ([get, GET % 3], [many, GET % 3], [GET % 3, many, get, get, many]):
            asked = await client.another()
            sent = b"".join(requests)
            for n in range(0, len(sent), len(sent) if whole else 7):
                asked.writer.write(sent[n : n + (len(sent) if whole else 7)])
                await asked.writer.drain()
            for request in requests:
                assert len(await asked.titles()) == (2 if request is many else 1)

    talk_slowly(test)
