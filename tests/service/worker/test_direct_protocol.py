"""The worker's side of a connection, byte by byte: what is answered while it is parsed, and what takes the ordinary
way, are the same to clients."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.settings.sections import HttpSettings
from service.web import bounded_protocol, direct_protocol
from service.web.bounded_protocol import ConnectionLimits
from service.web.deferred import DirectApp
from service.web.direct_protocol import DirectProtocol
from service.web.messages import Reply, Scope
from service.worker.process import server_of
from service.worker.routes.app import build_app
from tests.service.worker.conftest import Engine, Service, running

GET = b"GET /v1/views/story?id=%d HTTP/1.1\r\nhost: localhost\r\n\r\n"
LIMITS = HttpSettings(read_timeout_s=5.0, max_body_bytes=1 << 20, max_keys=1000)


class Client:
    """A connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server: uvicorn.Server,
        engine: Engine,
        port: int = 0,
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.server = server
        self.engine = engine
        self.port = port

    async def another(self) -> "Client":
        """A connection of another client."""
        return Client(*await asyncio.open_connection("127.0.0.1", self.port), self.server, self.engine, self.port)

    async def answer(self, *, body: bool = True) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status = int(head.split(" ", 2)[1])
        headers = dict(re.findall(r"^([\w-]+): (.*)\r$", head, re.MULTILINE))
        length = int(headers.get("content-length", 0)) if body else 0
        return status, headers, await self.reader.readexactly(length)

    async def titles(self) -> list[str | None]:
        """Return the title in the first row of each key of an answer."""
        status, _, body = await self.answer()
        assert status == 200
        content = json.loads(body)
        results = content.get("results", [content])
        return [result["rows"][0]["title"] if result["rows"] else None for result in results]

    async def ended(self) -> bool:
        return await self.reader.read() == b""


@asynccontextmanager
async def connected(directory: Path, limits: ConnectionLimits | None = None) -> AsyncIterator[Client]:
    async with running(directory, LIMITS) as service:
        app = build_app(service.engine.writer.reader, service.client, LIMITS)
        async with serving(service, app, limits) as client:
            # Filled, and the routes are known.
            for _ in range(2):
                for story in (7, 8):
                    client.writer.write(GET % story)
                    await client.answer()
            yield client


@asynccontextmanager
async def serving(service: Service, app: DirectApp, limits: ConnectionLimits | None = None) -> AsyncIterator[Client]:
    """A connection to a server of this application."""
    server = server_of(app, 1.0, limits)
    server.config.load()
    kind = server.config.http_protocol_class
    assert isinstance(kind, type)
    assert issubclass(kind, DirectProtocol)
    server.lifespan = server.config.lifespan_class(server.config)
    listener = await asyncio.get_running_loop().create_server(
        lambda: kind(server.config, server.server_state, {}), "127.0.0.1", 0
    )
    port = listener.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    yield Client(reader, writer, server, service.engine, port)
    writer.close()
    listener.close()


@pytest.fixture
def talk(tmp_path: Path) -> Callable[[Callable[[Client], Awaitable[None]]], None]:
    """Runs a coroutine function of a `Client`."""

    def run(test: Callable[[Client], Awaitable[None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(20), connected(tmp_path) as client:
                await test(client)

        asyncio.run(main())

    return run


Talk = Callable[[Callable[[Client], Awaitable[None]]], None]


def post(keys: list[int], *headers: bytes) -> bytes:
    body = json.dumps({"keys": [{"id": key} for key in keys]}).encode()
    head = [
        b"POST /v1/views/story/query HTTP/1.1",
        b"host: localhost",
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        *headers,
    ]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def test_the_server_has_the_place_where_requests_become_tasks() -> None:
    """Without it everything takes the ordinary way, and no answer would say so."""
    assert callable(getattr(HttpToolsProtocol, "_start_asgi_task", None))


def test_requests_that_come_together_are_answered_in_order_hits_and_misses(talk: Talk) -> None:
    async def test(client: Client) -> None:
        client.writer.write((GET % 7) + (GET % 99) + (GET % 8) + post([8, 7]) + post([98, 8]) + (GET % 7) + post([7]))
        expected = [["Seven"], [None], ["Eight"], ["Eight", "Seven"], [None, "Eight"], ["Seven"], ["Seven"]]
        assert [await client.titles() for _ in expected] == expected

    talk(test)


def test_many_requests_at_once(talk: Talk) -> None:
    """More than there may be frames on a stack, behind one that waits."""

    async def test(client: Client) -> None:
        client.writer.write((GET % 99) + (GET % 7 + post([8])) * 1000)
        assert await client.titles() == [None]
        for _ in range(1000):
            assert await client.titles() == ["Seven"]
            assert await client.titles() == ["Eight"]

    talk(test)


def test_a_request_in_pieces(talk: Talk) -> None:
    async def test(client: Client) -> None:
        for request in (GET % 7, post([7, 8])):
            for i in range(len(request)):
                client.writer.write(request[i : i + 1])
                await client.writer.drain()
            assert (await client.titles())[0] == "Seven"

    talk(test)


def test_head_and_not_modified_have_no_body(talk: Talk) -> None:
    async def test(client: Client) -> None:
        client.writer.write(GET % 7)
        _, headers, body = await client.answer()
        client.writer.write((GET % 7).replace(b"GET", b"HEAD"))
        status, again, _ = await client.answer(body=False)
        assert (status, again["content-length"]) == (200, str(len(body)))
        client.writer.write((GET % 7)[:-2] + b"if-none-match: " + headers["etag"].encode() + b"\r\n\r\n")
        status, again, _ = await client.answer()
        assert (status, again["etag"], "content-length" in again) == (304, headers["etag"], False)
        client.writer.write(GET % 8)
        assert await client.titles() == ["Eight"]

    talk(test)


def test_headers_are_those_of_the_ordinary_way(talk: Talk) -> None:
    async def test(client: Client) -> None:
        for fast in (GET % 7, post([7, 8])):
            client.writer.write(fast)
            _, direct, first = await client.answer()
            # With this header it is the application's own answer.
            client.writer.write(fast.replace(b"\r\n", b"\r\nexpect: 100-continue\r\n", 1))
            status, headers, second = await client.answer()
            while status == 100:
                status, headers, second = await client.answer()
            assert headers.keys() == direct.keys()
            assert first == second

    talk(test)


def test_who_wants_to_close_is_let_go(talk: Talk) -> None:
    async def test(client: Client) -> None:
        client.writer.write((GET % 7)[:-2] + b"connection: close\r\n\r\n")
        status, headers, _ = await client.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert await client.ended()

    talk(test)


class Failing:
    """A `DirectApp` with a mistake."""

    def reads_body(self, scope: Scope) -> bool:
        return scope["method"] == "PUT"

    def answer(self, scope: Scope, body: bytes | None) -> Reply | None:
        raise LookupError(scope["path"], body)


def test_a_mistake_on_the_short_way_leaves_the_ordinary_one(talk: Talk) -> None:
    async def test(client: Client) -> None:
        (protocol,) = client.server.server_state.connections
        protocol._direct = Failing()
        client.writer.write((GET % 7) + post([8]))
        assert await client.titles() == ["Seven"]
        assert await client.titles() == ["Eight"]

    talk(test)


def test_large_and_unannounced_bodies(talk: Talk) -> None:
    async def test(client: Client) -> None:
        head, _, body = post([7] * 900).partition(b"\r\n\r\n")
        client.writer.write(post([7] * 900))
        assert len(await client.titles()) == 900
        padded = body[:-1] + b" " * 100_000 + body[-1:]
        client.writer.write(head.replace(b"%d" % len(body), b"%d" % len(padded)) + b"\r\n\r\n" + padded)
        assert len(await client.titles()) == 900
        length = b"content-length: %d" % len(body)
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        client.writer.write(head.replace(length, b"transfer-encoding: chunked") + b"\r\n\r\n" + chunks)
        assert len(await client.titles()) == 900

    talk(test)


def test_who_goes_away_while_sending_a_body_is_forgotten(talk: Talk) -> None:
    async def test(client: Client) -> None:
        client.writer.write(post([7, 8])[:-5])
        client.writer.close()
        assert await client.ended()
        while client.server.server_state.connections:
            await asyncio.sleep(0)
        assert not client.server.server_state.tasks

    talk(test)


def test_a_client_that_reads_nothing_is_not_sent_more_and_more(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    # Until then all of it is answered at once, also where this process gets little of the machine.
    monkeypatch.setattr(direct_protocol, "_TURN_S", 60.0)

    async def test(client: Client) -> None:
        asked = 0
        (protocol,) = client.server.server_state.connections
        while not protocol.flow.write_paused:
            client.writer.write(GET % 7)
            asked += 1
            if asked % 100 == 0:
                await asyncio.sleep(0)
        held = protocol.transport.get_write_buffer_size()
        for _ in range(200):
            client.writer.write(GET % 7)
            await asyncio.sleep(0)
        assert protocol.transport.get_write_buffer_size() < held + 10_000
        for _ in range(asked + 200):
            assert await client.titles() == ["Seven"]

    talk(test)


class Counting:
    """Counts what is answered at once."""

    def __init__(self, direct: DirectApp) -> None:
        self.reads_body = direct.reads_body
        self._answer = direct.answer
        self.answered = 0

    def answer(self, scope: Scope, body: bytes | None) -> Reply | None:
        self.answered += 1
        return self._answer(scope, body)


def test_many_requests_at_once_leave_others_their_turn(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that take too long together are served by the application, one at a time."""
    thousandths = count()
    for module in (direct_protocol, bounded_protocol):
        monkeypatch.setattr(module, "perf_counter", lambda: next(thousandths) / 1000)

    async def test(client: Client) -> None:
        (protocol,) = client.server.server_state.connections
        protocol._direct = direct = Counting(protocol._direct)
        client.writer.write((GET % 7) * 100)
        assert [await client.titles() for _ in range(100)] == [["Seven"]] * 100
        assert 1 < direct.answered < 10

    talk(test)


def test_a_connection_that_waits_for_a_miss_behind_a_hit_is_not_idle(talk: Talk) -> None:
    async def test(client: Client) -> None:
        (protocol,) = client.server.server_state.connections
        client.engine.gate = asyncio.Event()
        client.writer.write((GET % 7) + (GET % 99))
        assert await client.titles() == ["Seven"]
        assert protocol._idle_since is None
        client.engine.gate.set()
        assert await client.titles() == [None]
        assert protocol._idle_since is not None

    talk(test)
