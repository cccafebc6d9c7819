"""Events, long polls and WebSockets through a gateway, from pods that say what the test tells them to."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import InvalidStatus
from websockets.http11 import Request, Response

from service.errors import ApiError
from service.gateway.homes import home_of
from service.gateway.opening import Gateway
from tests.service.gateway.conftest import section_at, served_gateway
from tests.service.gateway.scripted import Client, Script, Scripted, scripted, until

EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LIMIT_S = 30


def chunk(text: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text), text)


def over(script: Script, test: Callable[[httpx.AsyncClient, Gateway, Scripted], Awaitable[None]]) -> None:
    """A gateway over one pod that does what the script says."""

    async def main() -> None:
        async with (
            asyncio.timeout(LIMIT_S),
            scripted(script) as pod,
            served_gateway(section_at(((pod.address,),))) as (gateway, _, http),
        ):
            await test(http, gateway, pod)

    asyncio.run(main())


def test_events_are_passed_on_as_they_come() -> None:
    said: asyncio.Queue[bytes] = asyncio.Queue()
    ended: list[bool] = []

    async def script(client: Client) -> None:
        await client.request()
        await client.say(EVENTS)
        while text := await said.get():
            await client.say(chunk(text))
        ended.append(await client.ended())

    async def test(http: httpx.AsyncClient, gateway: Gateway, pod: Scripted) -> None:
        headers = {"accept": "text/event-stream", "last-event-id": "pg:0/1"}
        async with http.stream("GET", "/v1/views/story?id=7", headers=headers) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            pieces = answer.aiter_raw()
            for text in (b": upquery\n\n", b"event: snapshot\nid: 1\ndata: {}\n\n"):
                said.put_nowait(text)
                assert await anext(pieces) == text
            assert gateway.counters.streams == 1
            assert b"last-event-id: pg:0/1" in pod.requests[0]
        said.put_nowait(b"")
        await until(lambda: ended)
        assert gateway.counters.streams == 0

    over(script, test)


@pytest.mark.parametrize(("last", "told"), [(b"data: 1\n\n", True), (b"data: 1\nda", False)])
def test_events_end_whole_when_the_worker_is_stopped(last: bytes, told: bool) -> None:
    async def script(client: Client) -> None:
        await client.request()
        await client.say(EVENTS + chunk(last))
        await client.ended()

    async def test(http: httpx.AsyncClient, gateway: Gateway, _: Scripted) -> None:
        async with http.stream("GET", "/v1/views/story/subscribe?id=7") as answer:
            pieces = answer.aiter_raw()
            assert await anext(pieces) == last
            await gateway.app.drain()
            rest = b"".join([piece async for piece in pieces])
            assert rest.startswith(b"retry: ") is told

    over(script, test)


def test_a_poll_without_an_answer_is_refused_when_the_worker_is_stopped() -> None:
    async def script(client: Client) -> None:
        await client.request()
        await client.ended()

    async def test(http: httpx.AsyncClient, gateway: Gateway, pod: Scripted) -> None:
        polling = asyncio.ensure_future(http.get("/v1/views/story?id=7&live=poll&after=x"))
        await until(lambda: pod.requests)
        await gateway.app.drain()
        answer = await polling
        assert (answer.status_code, answer.json()["code"]) == (503, "engine_unavailable")
        assert answer.headers["retry-after"] == "1"

    over(script, test)


def test_a_stream_that_the_pod_does_not_finish_is_not_finished() -> None:
    async def script(client: Client) -> None:
        await client.request()
        await client.say(EVENTS + chunk(b"data: 1\n\n"))

    async def test(http: httpx.AsyncClient, _: Gateway, __: Scripted) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get("/v1/views/story?id=7", headers={"accept": "text/event-stream"})

    over(script, test)


def test_who_does_not_read_is_not_read_for() -> None:
    sent = 0

    async def script(client: Client) -> None:
        nonlocal sent
        await client.request()
        await client.say(EVENTS)
        while True:
            await client.say(chunk(bytes(1 << 16)))
            sent += 1 << 16

    async def test(http: httpx.AsyncClient, _: Gateway, __: Scripted) -> None:
        async with http.stream("GET", "/v1/views/story/subscribe?id=7"):
            seen, since, loop = -1, 0.0, asyncio.get_running_loop()
            while loop.time() - since < 0.3:
                if seen != sent:
                    seen, since = sent, loop.time()
                await asyncio.sleep(0)
            assert sent < 64 << 20

    over(script, test)


class Told:
    """Pods of two shards that take WebSockets, and remember what they are told. The view ``whole`` is with the second
    one only."""

    def __init__(self) -> None:
        self.messages: list[list[dict[str, Any]]] = [[], []]
        self.connections: list[list[ServerConnection]] = [[], []]
        self.servers: list[Server] = []
        self.refused = False

    async def start(self, number: int) -> str:
        async def handle(connection: ServerConnection) -> None:
            self.connections[number].append(connection)
            async for text in connection:
                message = json.loads(text)
                self.messages[number].append(message)
                await connection.send(self._answer(number, message))

        server = await serve(handle, "127.0.0.1", 0, process_request=self._opened, compression=None)
        self.servers.append(server)
        return f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"

    def _opened(self, connection: ServerConnection, request: Request) -> Response | None:
        self.opened = request
        if not self.refused:
            return None
        response = connection.respond(401, '{"code":"unauthenticated"}')
        response.headers["www-authenticate"] = "Bearer"
        return response

    def _answer(self, number: int, message: dict[str, Any]) -> str:
        head = f'{{"id":{json.dumps(message.get("id"))},"type":'
        if message["type"] == "unsubscribe":
            return head + '"unsubscribed"}'
        if message.get("view") == "whole" and number == 0:
            problem = ApiError("misdirected", "It is kept whole by another shard.", members={"view": "whole"})
            return head + f'"problem","problem":{json.dumps(problem.problem("/v1/subscribe"))}}}'
        return head + f'"snapshot","token":"t{number}","rows":[],"version":"pg:0/1"}}'


def sockets(test: Callable[[Told, ClientConnection, Gateway], Awaitable[None]], *, refused: bool = False) -> None:
    async def main() -> None:
        told = Told()
        told.refused = refused
        section = section_at(tuple([(await told.start(number),) for number in (0, 1)]))
        async with asyncio.timeout(LIMIT_S), served_gateway(section) as (gateway, served, _):
            url = f"ws://127.0.0.1:{served.port}/v1/subscribe"
            async with connect(
                url, proxy=None, origin=None, additional_headers={"Authorization": "Bearer t"}
            ) as client:
                await test(told, client, gateway)
            await until(lambda: not gateway.counters.streams)
        for server in told.servers:
            server.close()

    asyncio.run(main())


def key_at(shard: int) -> dict[str, int]:
    return next({"id": n} for n in range(1000) if home_of(2, "story", {"id": n}) == shard)


async def said(client: ClientConnection, message: dict[str, Any]) -> dict[str, Any]:
    await client.send(json.dumps(message))
    answer: dict[str, Any] = json.loads(await client.recv())
    return answer


def subscribe(number: int | str, view: str, **params: Any) -> dict[str, Any]:
    return {"type": "subscribe", "id": number, "view": view, "params": params}


def test_each_key_is_followed_at_its_home() -> None:
    async def test(told: Told, client: ClientConnection, _: Gateway) -> None:
        for shard in (0, 1):
            number = f'"odd",\\"type":"{shard}'
            answer = await said(client, subscribe(number, "story", **key_at(shard)))
            assert (answer["id"], answer["token"]) == (number, f"t{shard}")
            assert told.opened.headers["authorization"] == "Bearer t"
            gone = await said(client, {"type": "unsubscribe", "id": number})
            assert (gone["id"], gone["type"]) == (number, "unsubscribed")
        assert [len(messages) for messages in told.messages] == [2, 2]
        assert [len(connections) for connections in told.connections] == [1, 1]

    sockets(test)


def test_a_view_that_is_elsewhere_is_followed_there() -> None:
    async def test(told: Told, client: ClientConnection, _: Gateway) -> None:
        for number in range(8):
            answer = await said(client, subscribe(number, "whole", id=number))
            assert (answer["id"], answer["type"], answer["token"]) == (number, "snapshot", "t1")
        # Once that is known, nobody else is asked.
        assert len(told.messages[0]) <= 1

    sockets(test)


def test_what_a_pod_that_goes_has_told_is_fetched_anew() -> None:
    async def test(told: Told, client: ClientConnection, _: Gateway) -> None:
        for shard in (0, 1):
            await said(client, subscribe(shard, "story", **key_at(shard)))
        told.connections[1][0].transport.abort()
        gone = json.loads(await client.recv())
        assert (gone["id"], gone["type"], gone["token"]) == (1, "must-refetch", "")
        again = await said(client, subscribe(1, "story", **key_at(1)))
        assert again["token"] == "t1"
        assert (await said(client, {"type": "unsubscribe", "id": 0}))["type"] == "unsubscribed"

    sockets(test)


def test_who_may_not_connect_is_told_by_a_pod() -> None:
    async def test(*_: object) -> None:
        raise AssertionError

    with pytest.raises(InvalidStatus) as refused:
        sockets(test, refused=True)
    assert refused.value.response.status_code == 401
    assert refused.value.response.headers["www-authenticate"] == "Bearer"
    assert b"unauthenticated" in refused.value.response.body


def test_a_client_that_goes_takes_its_sockets_along() -> None:
    async def test(told: Told, client: ClientConnection, _: Gateway) -> None:
        await said(client, subscribe(1, "story", **key_at(1)))
        await client.close()
        for connection in told.connections[0] + told.connections[1]:
            await connection.wait_closed()

    sockets(test)
