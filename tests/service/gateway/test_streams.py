"""Events and long polls through a gateway, from pods that say what the test tells them to."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest

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
