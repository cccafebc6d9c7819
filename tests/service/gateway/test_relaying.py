"""Plain reads are passed on without a task; whatever turns out otherwise is answered as it is on the ordinary way, and
asked once."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson
import pytest

from service.gateway import relaying
from service.gateway.homes import home_of
from service.gateway.opening import Gateway
from service.gateway.worker import GatewayWorkerConfig
from service.ground.errors import ApiError
from service.settings.gateway import GatewaySettings
from service.settings.sections import HttpSettings, LogSettings
from service.web import direct_protocol
from service.web.deferred import DirectApp
from service.web.messages import Receive, Scope, Send, problem_reply, send_reply
from service.worker.process import wrapped
from tests.service.gateway.conftest import HTTP, Served, section_at
from tests.service.gateway.scripted import LIMIT_S, Client, Script, answering, response, scripted, until

GET = b"GET /v1/views/story?id=7 HTTP/1.1\r\nhost: test\r\n\r\n"
FIRST = response(b"first")
UNCHANGED = b'HTTP/1.1 304 Not Modified\r\netag: W/"1"\r\ncontent-length: 5\r\n\r\n'
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nall of it"
LARGE = bytes(200_000)
HOLDS = HttpSettings(**{**HTTP.model_dump(), "client_waiting_reads": 1})


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little of the machine this process gets, nothing is late."""
    monkeypatch.setattr(relaying, "_SOON_S", 60.0)
    monkeypatch.setattr(direct_protocol, "_TURN_S", 60.0)


def leave_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait for the first byte, and the time within which it has to be taken over."""
    monkeypatch.setattr(relaying, "_SOON_S", 0.01)
    monkeypatch.setattr(relaying, "_TAKEN_S", 0.01)


def problem(code: str, status: bytes) -> bytes:
    """A pod's refusal."""
    return response(orjson.dumps(ApiError(code, "No.").problem("/")), status)


class Noted:
    """An application, and how many requests went the ordinary way; `refusing`: these get no further."""

    def __init__(self, app: DirectApp) -> None:
        self.app = app
        self.reads_body = app.reads_body
        self.answer = app.answer
        self.ordinary = 0
        self.refusing = False
        #: These wait for it, as for keys of tokens.
        self.held: asyncio.Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.ordinary += 1
        if self.held is not None:
            await self.held.wait()
        if self.refusing:
            await send_reply(send, problem_reply(ApiError("unauthenticated", "No."), scope["path"]))
        else:
            await self.app(scope, receive, send)


@dataclass
class Connected:
    """A client's connection to a gateway that has one to its pod."""

    gateway: Gateway
    noted: Noted
    served: Served
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def another(self) -> "Connected":
        """Another client's."""
        streams = await asyncio.open_connection("127.0.0.1", self.served.port)
        return Connected(self.gateway, self.noted, self.served, *streams)

    async def ask(self, request: bytes = GET) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer to a request."""
        self.writer.write(request)
        return await self.answer(has_body=not request.startswith(b"HEAD"))

    async def answer(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        """Those of the next one."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()[:-1]
        status = int(lines[0].split(" ")[1])
        headers = dict(line.split(": ", 1) for line in lines[1:])
        assert len(headers) == len(lines) - 1
        body = b""
        if headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readline(), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readline()
        elif has_body:
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return status, headers, body


@asynccontextmanager
async def connected(*addresses: str, http: HttpSettings = HTTP, slow_ms: float = 60_000) -> AsyncIterator[Connected]:
    """A client of a gateway of these shards; the first read has been asked, which goes the ordinary way."""
    section = section_at(tuple((address,) for address in addresses))
    settings = GatewaySettings(gateway=section, http=http, log=LogSettings(slow_ms=slow_ms))
    gateway = Gateway.of(settings)
    noted = Noted(wrapped(gateway.app, GatewayWorkerConfig(0, settings)))
    served = Served(noted, http)
    await served.start()
    try:
        async with asyncio.timeout(LIMIT_S):
            streams = await asyncio.open_connection("127.0.0.1", served.port)
            client = Connected(gateway, noted, served, *streams)
            assert (await client.ask())[::2] == (200, b"first")
            yield client
    finally:
        await served.stop()
        await gateway.topology.close()


Test = Callable[[Connected, list[bytes]], Awaitable[None]]


def run(script: Script, test: Test) -> None:
    """Runs `test` with a client, and the requests that the pod gets."""

    async def main() -> None:
        async with scripted(script) as pod, connected(pod.address) as client:
            await test(client, pod.clients[0].requests)

    asyncio.run(main())


def test_a_plain_read_needs_no_task() -> None:
    said = response(b"abc", b"200 OK", b'etag: W/"1"', b"date: never", b"connection: keep-alive", b"keep-alive: 5")

    async def test(client: Connected, requests: list[bytes]) -> None:
        status, headers, body = await client.ask()
        assert (status, body, headers["etag"]) == (200, b"abc", 'W/"1"')
        assert not headers.keys() & {"connection", "keep-alive", "date", "x-request-id"}
        assert requests[1] == GET[:-2] + b"x-forwarded-for: 127.0.0.1\r\n\r\n"
        assert client.gateway.counters.requests == {0: 2}
        assert client.noted.ordinary == 1

    run(answering(FIRST, said), test)


def test_what_has_not_changed_is_said_so() -> None:
    async def test(client: Connected, requests: list[bytes]) -> None:
        status, headers, body = await client.ask(GET[:-2] + b'if-none-match: W/"1"\r\n\r\n')
        assert (status, headers["etag"], "content-length" in headers, body) == (304, 'W/"1"', False, b"")
        assert b'if-none-match: W/"1"' in requests[1]
        assert (await client.ask())[2] == b"abc"
        assert client.noted.ordinary == 1

    run(answering(FIRST, UNCHANGED, response(b"abc")), test)


def test_an_answer_in_pieces_is_waited_for() -> None:
    said = response(b"abc" * 1000)

    async def script(client: Client) -> None:
        await client.request()
        await client.say(FIRST)
        await client.request()
        for start in range(0, len(said), 100):
            await client.say(said[start : start + 100])
            await asyncio.sleep(0)
        await client.ended()

    async def test(client: Connected, _: list[bytes]) -> None:
        assert (await client.ask())[2] == b"abc" * 1000
        assert client.noted.ordinary == 1

    run(script, test)


@pytest.mark.parametrize(
    ("said", "status", "body"),
    [
        (response(b"abc", b"422 Unprocessable Content"), 422, b"abc"),
        (response(b"abc", b"500 Internal Server Error"), 500, b"abc"),
        (problem("view_not_found", b"404 Not Found"), 404, b'"view_not_found"'),
        (problem("view_building", b"503 Service Unavailable"), 503, b'"view_building"'),
        (problem("misdirected", b"421 Misdirected Request"), 421, b'"misdirected"'),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc", 0, b""),
        (b"HTTP/1.1 200 OK\r\ncontent-le", 503, b'"engine_unavailable"'),
        (b"SSH-2.0-OpenSSH\r\n", 503, b'"engine_unavailable"'),
        (response(LARGE), 200, LARGE),
        (CHUNKED, 200, b"abcde"),
        (ENDLESS, 200, b"all of it"),
    ],
    ids=["422", "500", "404", "503", "421", "cut", "head", "other", "large", "chunked", "endless"],
)
def test_what_is_otherwise_goes_on_the_ordinary_way(said: bytes, status: int, body: bytes) -> None:
    async def test(client: Connected, requests: list[bytes]) -> None:
        if status:
            found, _, content = await client.ask()
            assert (found, body in content) == (status, True)
        else:
            client.writer.write(GET)
            assert (await client.reader.read()).endswith(b"\r\n\r\nabc")
        assert client.noted.ordinary == 2
        assert len(requests) == 2
        assert client.gateway.counters.requests == {0: 2}

    run(answering(FIRST, said), test)


def test_a_view_that_another_shard_keeps_is_asked_for_there() -> None:
    async def main() -> None:
        refusing = answering(FIRST, problem("misdirected", b"421 Misdirected Request"))
        async with scripted(refusing) as home, scripted(answering(*[response(b"there")] * 2)) as other:
            pods = [home, other] if home_of(2, "story", {"id": 7}) == 0 else [other, home]
            async with connected(*[pod.address for pod in pods]) as client:
                assert (await client.ask())[2] == b"there"
                # That is known from then on.
                assert (await client.ask())[2] == b"there"
                assert client.noted.ordinary == 2
                assert [len(pod.requests) for pod in (home, other)] == [2, 2]

    asyncio.run(main())


def test_a_connection_that_was_closed_meanwhile_is_replaced() -> None:
    async def script(client: Client) -> None:
        await client.request()
        await client.say(FIRST)
        await client.request()

    async def main() -> None:
        async with scripted(script) as pod, connected(pod.address) as client:
            assert (await client.ask())[2] == b"first"
            assert client.noted.ordinary == 2
            assert [len(each.requests) for each in pod.clients] == [2, 1]
            assert not client.gateway.topology.away

    asyncio.run(main())


def test_what_takes_longer_is_looked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends when its client goes."""
    monkeypatch.setattr(relaying, "_SOON_S", 0.01)
    ended = asyncio.Event()

    async def script(client: Client) -> None:
        await client.request()
        await client.say(FIRST)
        await client.request()
        assert await client.ended()
        ended.set()

    async def test(client: Connected, _: list[bytes]) -> None:
        client.writer.write(GET)
        await until(lambda: client.noted.ordinary == 2)
        client.writer.close()
        await ended.wait()

    run(script, test)


def test_what_takes_longer_is_answered_from_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaying, "_SOON_S", 0.01)
    goes_on = asyncio.Event()

    async def script(client: Client) -> None:
        for said in (FIRST, response(b"late")):
            await client.request()
            if said is not FIRST:
                await goes_on.wait()
            await client.say(said)
        await client.ended()

    async def test(client: Connected, requests: list[bytes]) -> None:
        client.writer.write(GET)
        await until(lambda: client.noted.ordinary == 2)
        goes_on.set()
        assert (await client.answer())[2] == b"late"
        assert len(requests) == 2

    run(script, test)


def test_who_goes_away_before_the_answer_harms_nobody() -> None:
    goes_on = asyncio.Event()

    async def script(client: Client) -> None:
        await client.request()
        await client.say(FIRST)
        await client.request()
        await goes_on.wait()
        await client.say(response(b"nobody's"))
        await client.request()
        await client.say(response(b"another's"))
        await client.ended()

    async def test(client: Connected, requests: list[bytes]) -> None:
        another = await client.another()
        client.writer.write(GET)
        await until(lambda: len(requests) == 2)
        client.writer.close()
        await until(lambda: client.served.open_connections == 1)
        goes_on.set()
        (pods,) = client.gateway.topology.shards
        await until(lambda: pods.replicas[0]._idle)
        assert (await another.ask())[2] == b"another's"
        assert client.noted.ordinary == 1

    run(script, test)


def test_what_was_begun_and_is_refused_then_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whoever stands before the gateway's application."""
    leave_early(monkeypatch)
    ended = asyncio.Event()

    async def script(client: Client) -> None:
        await client.request()
        await client.say(FIRST)
        await client.request()
        assert await client.ended()
        ended.set()

    async def test(client: Connected, _: list[bytes]) -> None:
        client.noted.refusing = True
        assert (await client.ask())[0] == 401
        await ended.wait()

    run(script, test)


def test_what_was_left_while_its_token_was_looked_up_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_early(monkeypatch)
    held = asyncio.Event()

    async def script(client: Client) -> None:
        await client.request()
        await client.say(FIRST)
        await client.request()
        if not held.is_set():
            # Nothing is said in time, and then it is left.
            assert await client.ended()
            held.set()
        else:
            await client.say(response(b"anew"))

    async def test(client: Connected, _: list[bytes]) -> None:
        client.noted.held = held
        client.writer.write(GET)
        assert (await client.answer())[2] in (b"anew", b"first")
        assert client.gateway.counters.as_dict()["failed"] == 0

    run(script, test)


def test_more_than_was_asked_for_is_nobodys_answer() -> None:
    """A body that is longer than it said may look like another response."""

    async def script(client: Client) -> None:
        await client.request()
        await client.say(FIRST)
        await client.request()
        await client.say(response(b"mine") + response(b"not yours"))
        assert await client.ended()

    async def test(client: Connected, _: list[bytes]) -> None:
        assert (await client.ask())[2] == b"mine"
        assert (await client.ask())[2] == b"first"

    run(script, test)


def test_requests_that_come_together_are_answered_in_order() -> None:
    async def test(client: Connected, _: list[bytes]) -> None:
        client.writer.write(GET * 20)
        assert [(await client.answer())[2] for _ in range(20)] == [b"%d" % n for n in range(20)]

    run(answering(FIRST, *[response(b"%d" % n) for n in range(20)]), test)


def test_a_request_for_the_head_goes_the_ordinary_way() -> None:
    async def test(client: Connected, _: list[bytes]) -> None:
        status, headers, _ = await client.ask(GET.replace(b"GET", b"HEAD"))
        assert (status, headers["content-length"]) == (200, "300")
        assert client.noted.ordinary == 2
        assert (await client.ask())[2] == b"abc"

    run(answering(FIRST, b"HTTP/1.1 200 OK\r\ncontent-length: 300\r\n\r\n", response(b"abc")), test)


def test_a_server_that_is_stopped_answers_what_was_begun() -> None:
    stopped = asyncio.Event()

    async def script(client: Client) -> None:
        await client.request()
        await client.say(FIRST)
        await client.request()
        await stopped.wait()
        await client.say(response(b"last"))
        await client.ended()

    async def test(client: Connected, requests: list[bytes]) -> None:
        client.writer.write(GET)
        await until(lambda: len(requests) == 2)
        (protocol,) = client.served._connections
        protocol.shutdown()
        stopped.set()
        _, headers, body = await client.answer()
        assert (headers["connection"], body) == ("close", b"last")
        assert not await client.reader.read()

    run(script, test)


def test_clients_are_bounded() -> None:
    goes_on = asyncio.Event()

    async def script(client: Client) -> None:
        await client.request()
        await client.say(FIRST)
        await client.request()
        await goes_on.wait()
        for body in (b"abc", b"def"):
            await client.say(response(body))
            await client.request()

    async def main() -> None:
        async with scripted(script) as pod, connected(pod.address, http=HOLDS) as client:
            another = await client.another()
            client.writer.write(GET)
            await until(lambda: len(pod.requests) == 2)
            assert (await another.ask())[0] == 429
            goes_on.set()
            assert (await client.answer())[2] == b"abc"
            assert (await another.ask())[2] == b"def"

    asyncio.run(main())


def test_what_is_large_is_compressed() -> None:
    body = orjson.dumps({"rows": ["abc"] * 5000})
    said = response(body, b"200 OK", b"content-type: application/json")

    async def test(client: Connected, _: list[bytes]) -> None:
        for accepted, coding in ((b"gzip", "gzip"), (b"identity;q=1", None)):
            _, headers, content = await client.ask(GET[:-2] + b"accept-encoding: " + accepted + b"\r\n\r\n")
            assert (headers.get("content-encoding"), headers["vary"]) == (coding, "Accept-Encoding")
            assert (gzip.decompress(content) if coding else content) == body
        assert client.noted.ordinary == 1

    run(answering(FIRST, said, said), test)


def test_what_is_logged_as_slow_has_an_id() -> None:
    async def main() -> None:
        async with scripted(answering(FIRST, response(b"abc"))) as pod, connected(pod.address, slow_ms=0) as client:
            _, headers, body = await client.ask()
            assert body == b"abc"
            assert "x-request-id" in headers
            assert client.noted.ordinary == 2

    asyncio.run(main())
