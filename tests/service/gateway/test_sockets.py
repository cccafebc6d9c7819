"""WebSockets through a gateway, to pods that say what the test tells them to."""

import asyncio
import json
import os
import resource
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import InvalidStatus
from websockets.http11 import Request, Response

from service.gateway.homes import home_of
from service.gateway.opening import Gateway
from service.ground.errors import ApiError
from service.settings.auth import AuthSettings
from service.web.auth.tokens import entry_text
from tests.service.gateway.conftest import section_at, served_gateway
from tests.service.gateway.scripted import until

LIMIT_S = 30


class Told:
    """Pods of two shards that take WebSockets, and remember what they are told. The view ``whole`` is with the second
    one only."""

    def __init__(self) -> None:
        self.messages: list[list[dict[str, Any]]] = [[], []]
        self.connections: list[list[ServerConnection]] = [[], []]
        self.servers: list[Server] = []
        self.refused = False
        #: What connects waits for it, once asked to.
        self.lets_in: asyncio.Event | None = None
        self.waiting = 0
        #: Whether who unsubscribes is told nothing.
        self.is_mute = False

    async def start(self, number: int) -> str:
        async def handle(connection: ServerConnection) -> None:
            self.connections[number].append(connection)
            async for text in connection:
                message = json.loads(text)
                self.messages[number].append(message)
                if not self.is_mute or message["type"] != "unsubscribe":
                    await connection.send(self._answer(number, message))

        server = await serve(handle, "127.0.0.1", 0, process_request=self._opened, compression=None)
        self.servers.append(server)
        return f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"

    async def _opened(self, connection: ServerConnection, request: Request) -> Response | None:
        self.opened = request
        if self.lets_in is not None:
            self.waiting += 1
            await self.lets_in.wait()
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


def sockets(
    test: Callable[[Told, ClientConnection, Gateway], Awaitable[None]],
    *,
    refused: bool = False,
    auth: AuthSettings | None = None,
    connect_timeout_s: float = 1.0,
    opens_late_s: float = 0.0,
) -> None:
    async def main() -> None:
        told = Told()
        told.refused = refused
        if opens_late_s:
            told.lets_in = asyncio.Event()
            asyncio.get_running_loop().call_later(opens_late_s, told.lets_in.set)
        section = section_at(tuple([(await told.start(number),) for number in (0, 1)]))
        section = section.model_copy(update={"connect_timeout_s": connect_timeout_s})
        async with asyncio.timeout(LIMIT_S), served_gateway(section, auth) as (gateway, served, _):
            url = f"ws://127.0.0.1:{served.port}/v1/subscribe"
            async with connect(
                url, proxy=None, origin=None, additional_headers={"Authorization": "Bearer t"}
            ) as client:
                await test(told, client, gateway)
            await until(lambda: not gateway.counters.streams)
        for server in told.servers:
            server.close()

    asyncio.run(main())


def key_at(shard: int, view: str = "story") -> dict[str, int]:
    return next({"id": n} for n in range(1000) if home_of(2, view, {"id": n}) == shard)


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


def test_what_is_found_at_a_shard_that_the_client_asks_too_is_followed_over_one_socket() -> None:
    async def test(told: Told, client: ClientConnection, _: Gateway) -> None:
        told.lets_in = asyncio.Event()
        await client.send(json.dumps(subscribe(1, "whole", **key_at(0, "whole"))))
        # The first pod has said where it is not.
        await until(lambda: told.waiting)
        await client.send(json.dumps(subscribe(2, "story", **key_at(1))))
        # The gateway has heard that.
        await (await client.ping())
        told.lets_in.set()
        assert {json.loads(await client.recv())["id"] for _ in range(2)} == {1, 2}
        assert [len(connections) for connections in told.connections] == [1, 1]
        told.connections[1][0].transport.abort()
        gone = [json.loads(await client.recv()) for _ in range(2)]
        assert {(each["id"], each["type"]) for each in gone} == {(1, "must-refetch"), (2, "must-refetch")}

    sockets(test)


def test_an_id_is_another_subscriptions_once_the_one_before_is_over() -> None:
    async def test(told: Told, client: ClientConnection, _: Gateway) -> None:
        leaving = {"type": "unsubscribe", "id": 1}
        for message in (subscribe(1, "story", **key_at(0)), leaving, subscribe(1, "story", **key_at(1)), leaving):
            await client.send(json.dumps(message))
        answers = [json.loads(await client.recv()) for _ in range(4)]
        assert [(each["type"], each.get("token")) for each in answers] == [
            ("snapshot", "t0"),
            ("unsubscribed", None),
            ("snapshot", "t1"),
            ("unsubscribed", None),
        ]
        assert [messages[-1] for messages in told.messages] == [leaving, leaving]

    sockets(test)


def test_what_is_left_while_it_is_looked_for_is_not_asked_for_any_more() -> None:
    async def test(told: Told, client: ClientConnection, _: Gateway) -> None:
        told.lets_in = asyncio.Event()
        await client.send(json.dumps(subscribe(1, "whole", **key_at(0, "whole"))))
        await until(lambda: told.waiting)
        await client.send(json.dumps({"type": "unsubscribe", "id": 1}))
        await (await client.ping())
        told.lets_in.set()
        assert json.loads(await client.recv()) == {"id": 1, "type": "unsubscribed"}
        assert (await said(client, subscribe(1, "story", **key_at(1))))["token"] == "t1"
        assert [len(messages) for messages in told.messages] == [1, 1]

    sockets(test)


def test_what_was_left_is_over_when_the_pod_goes() -> None:
    async def test(told: Told, client: ClientConnection, _: Gateway) -> None:
        await said(client, subscribe(1, "story", **key_at(1)))
        told.is_mute = True
        for message in ({"type": "unsubscribe", "id": 1}, subscribe(1, "story", **key_at(1))):
            await client.send(json.dumps(message))
        await until(lambda: len(told.messages[1]) == 2)
        told.connections[1][0].transport.abort()
        answers = [json.loads(await client.recv()) for _ in range(2)]
        assert [each["type"] for each in answers] == ["unsubscribed", "snapshot"]

    sockets(test)


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[1]",
        '{"id":1,"type":"follow"}',
        '{"id":2,"type":"subscribe","view":7}',
        '{"id":2,"type":"unsubscribe"}',
        json.dumps({"type": "subscribe", "id": 1, "view": "story"}),
        json.dumps({"type": "subscribe", "id": [2], "view": "story"}),
        '{"id":' + "[" * 300 + "]" * 300 + ',"type":"subscribe","view":"story"}',
    ],
)
def test_what_is_about_no_subscription_is_refused_and_harms_none(text: str) -> None:
    async def test(told: Told, client: ClientConnection, _: Gateway) -> None:
        await said(client, subscribe(1, "story", **key_at(1)))
        await client.send(text)
        assert json.loads(await client.recv())["problem"]["code"] == "bad_request"
        assert (await said(client, {"type": "unsubscribe", "id": 1}))["type"] == "unsubscribed"
        assert [len(messages) for messages in told.messages] == [0, 2]

    sockets(test)


@contextmanager
def no_more_files() -> Iterator[None]:
    """This process may open none."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_pod_is_not_away_because_the_gateway_has_no_more_files() -> None:
    async def test(_: Told, client: ClientConnection, gateway: Gateway) -> None:
        with no_more_files():
            answer = await said(client, subscribe(1, "story", **key_at(1)))
        assert answer["problem"]["code"] == "overloaded"
        assert gateway.topology.away == []
        assert (await said(client, subscribe(1, "story", **key_at(1))))["token"] == "t1"

    sockets(test)


@pytest.mark.parametrize("host", ["a#b", "127.0.0.1:99999", "[::1", "localhost:8080", "a b"])
def test_what_a_client_calls_the_gateway_says_nothing_of_pods(host: str) -> None:
    async def test(told: Told, client: ClientConnection, gateway: Gateway) -> None:
        reader, writer = await asyncio.open_connection(*client.remote_address)
        writer.write(
            f"GET /v1/subscribe?x=1 HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        assert gateway.topology.away == []
        if b" 101 " in head:
            assert told.opened.headers.get_all("host") == [host]
        else:
            # It was refused before a pod was asked.
            assert head.split(b" ")[1].startswith(b"4"), head
            assert told.opened.headers["host"] != host

    sockets(test)


def test_a_pod_that_thinks_about_a_handshake_is_not_away() -> None:
    async def test(_: Told, client: ClientConnection, gateway: Gateway) -> None:
        assert gateway.topology.away == []
        assert (await said(client, subscribe(1, "story", **key_at(1))))["token"] == "t1"

    sockets(test, connect_timeout_s=0.1, opens_late_s=0.5)


def test_who_may_not_connect_is_told_by_a_pod() -> None:
    async def test(*_: object) -> None:
        raise AssertionError

    with pytest.raises(InvalidStatus) as refused:
        sockets(test, refused=True)
    assert refused.value.response.status_code == 401
    assert refused.value.response.headers["www-authenticate"] == "Bearer"
    assert b"unauthenticated" in refused.value.response.body


@pytest.mark.parametrize("number", ["1", '"\xff"'])
def test_a_token_counts_at_the_gateway_too(tmp_path: Path, number: str) -> None:
    """Whatever the pods let in: however it is written, and of an id that a pod may have forgotten."""
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(entry_text("some", "t", {"rights": '["read"]', "views": '["story"]'}))

    async def test(told: Told, client: ClientConnection, _: Gateway) -> None:
        await client.send(json.dumps(subscribe(1, "story", **key_at(0))))
        assert json.loads(await client.recv())["type"] == "snapshot"
        await client.send(f'{{"id":{number},"type":"subscribe","view":"whole"}}'.encode("latin-1"), text=False)
        assert json.loads(await client.recv())["problem"]["code"] == "forbidden"
        assert [len(messages) for messages in told.messages] == [1, 0]

    sockets(test, auth=AuthSettings(tokens_file=tokens))


def test_a_client_that_goes_takes_its_sockets_along() -> None:
    async def test(told: Told, client: ClientConnection, _: Gateway) -> None:
        await said(client, subscribe(1, "story", **key_at(1)))
        await client.close()
        for connection in told.connections[0] + told.connections[1]:
            await connection.wait_closed()

    sockets(test)
