"""The connections to a pod: responses of all shapes, connections that are kept, and those that are closed meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from service.gateway.incoming import Incoming, PodGone
from service.gateway.replica import PodTimeouts, Replica
from service.ground.errors import ApiError
from tests.service.gateway.scripted import Client, Script, Scripted, answering, response, scripted, until
from tests.service.gateway.test_sockets import no_more_files

REQUEST = b"GET /v1/views/story?id=7 HTTP/1.1\r\nhost: pod\r\n\r\n"
HEAD = b"HEAD /v1/views/story?id=7 HTTP/1.1\r\nhost: pod\r\n\r\n"
SOON = PodTimeouts(connections=2, connect_timeout_s=2.0, probe_s=0.01, silent_s=5.0, waiting_s=5.0)


def run(script: Script, test: Callable[[Replica, Scripted], Awaitable[None]], reach: PodTimeouts = SOON) -> None:
    async def all_of_it() -> None:
        async with scripted(script) as pod:
            replica = Replica(pod.address, reach)
            try:
                async with asyncio.timeout(30):
                    await test(replica, pod)
            finally:
                replica.close(now=True)

    asyncio.run(all_of_it())


async def asked(replica: Replica, request: bytes = REQUEST) -> tuple[int, bytes]:
    incoming = await replica.ask(request, is_head=request.startswith(b"HEAD"))
    return incoming.status, await incoming.whole()


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nx-trailer: 1\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "request_bytes", "expected"),
    [
        (response(b"abc"), REQUEST, (200, b"abc")),
        (response(b""), REQUEST, (200, b"")),
        (CHUNKED, REQUEST, (200, b"abcde")),
        (b'HTTP/1.1 304 Not Modified\r\netag: W/"1"\r\n\r\n', REQUEST, (304, b"")),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 3\r\n\r\n", REQUEST, (304, b"")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", REQUEST, (204, b"")),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 300\r\n\r\n", HEAD, (200, b"")),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", HEAD, (200, b"")),
        (b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + response(b"abc"), REQUEST, (200, b"abc")),
    ],
    ids=["length", "empty", "chunked", "304", "304-length", "204", "head", "head-chunked", "hints"],
)
def test_a_connection_is_used_again_after(said: bytes, request_bytes: bytes, expected: tuple[int, bytes]) -> None:
    async def test(replica: Replica, pod: Scripted) -> None:
        assert await asked(replica, request_bytes) == expected
        assert await asked(replica) == (200, b"next")
        assert len(pod.clients) == 1

    run(answering(said, response(b"next")), test)


@pytest.mark.parametrize("size", [1, 7])
def test_a_response_may_come_in_small_pieces(size: int) -> None:
    async def script(client: Client) -> None:
        await client.request()
        for start in range(0, len(CHUNKED), size):
            await client.say(CHUNKED[start : start + size])
            await asyncio.sleep(0)
        await client.request()

    async def test(replica: Replica, _: Scripted) -> None:
        assert await asked(replica) == (200, b"abcde")

    run(script, test)


def test_without_a_length_the_end_is_the_end() -> None:
    async def test(replica: Replica, pod: Scripted) -> None:
        assert await asked(replica) == (200, b"all of it")
        assert await asked(replica) == (200, b"all of it")
        assert len(pod.clients) == 2

    run(answering(b"HTTP/1.1 200 OK\r\n\r\nall of it"), test)


def test_a_connection_that_the_pod_will_close_is_not_used_again() -> None:
    async def test(replica: Replica, pod: Scripted) -> None:
        for _ in range(2):
            assert await asked(replica) == (200, b"abc")
        assert [len(client.requests) for client in pod.clients] == [1, 1]

    run(answering(response(b"abc", b"200 OK", b"connection: close"), response(b"never")), test)


@pytest.mark.parametrize(
    ("said", "began"),
    [
        (b"", False),
        (b"HTTP/1.1 200 OK\r\ncontent-le", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", True),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", True),
        (b"SSH-2.0-OpenSSH\r\n", True),
    ],
    ids=["nothing", "head", "length", "chunked", "other"],
)
def test_a_response_that_is_not_all_there_is_none(said: bytes, began: bool) -> None:
    async def test(replica: Replica, pod: Scripted) -> None:
        with pytest.raises(PodGone) as gone:
            await asked(replica)
        assert gone.value.began is began
        assert len(pod.clients) == 1

    run(answering(said), test)


def test_a_connection_that_was_closed_while_idle_is_replaced() -> None:
    async def script(client: Client) -> None:
        await client.request()
        await client.say(response(b"abc"))
        # The next request is read, and not answered: as if it crossed the end of the connection.
        await client.request()

    async def test(replica: Replica, pod: Scripted) -> None:
        assert await asked(replica) == (200, b"abc")
        assert await asked(replica) == (200, b"abc")
        assert [len(client.requests) for client in pod.clients] == [2, 1]

    run(script, test)


def test_a_pod_that_says_nothing_is_given_up() -> None:
    async def script(client: Client) -> None:
        await client.request()
        assert await client.ended()

    async def test(replica: Replica, _: Scripted) -> None:
        with pytest.raises(PodGone, match="sent nothing"):
            await asked(replica)

    run(script, test, PodTimeouts(silent_s=0.05))


def test_nobody_reads_faster_than_whoever_wants_it() -> None:
    size = 64 << 20
    sent = 0

    async def script(client: Client) -> None:
        nonlocal sent
        await client.request()
        await client.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        while sent < size:
            await client.say(bytes(1 << 16))
            sent += 1 << 16

    async def test(replica: Replica, _: Scripted) -> None:
        incoming = await replica.ask(REQUEST)
        await settled(lambda: sent)
        assert sent < size // 2
        assert len(await incoming.whole()) == size

    run(script, test)


async def settled(value: Callable[[], int]) -> None:
    """Wait until it does not change any more."""
    loop, seen, since = asyncio.get_running_loop(), -1, 0.0
    while loop.time() - since < 0.2:
        if value() != seen:
            seen, since = value(), loop.time()
        await asyncio.sleep(0)


def test_who_leaves_closes_the_connection() -> None:
    ended: list[bool] = []

    async def script(client: Client) -> None:
        await client.request()
        await client.say(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc")
        ended.append(await client.ended())

    async def test(replica: Replica, _: Scripted) -> None:
        incoming = await replica.ask(REQUEST)
        assert await incoming.read() == b"abc"
        incoming.leave()
        await until(lambda: ended)
        with pytest.raises(PodGone):
            await incoming.read()

    run(script, test)


def test_who_is_cancelled_closes_the_connection() -> None:
    ended: list[bool] = []

    async def script(client: Client) -> None:
        await client.request()
        ended.append(await client.ended())

    async def test(replica: Replica, pod: Scripted) -> None:
        asking = asyncio.ensure_future(replica.ask(REQUEST))
        await until(lambda: pod.requests)
        asking.cancel()
        await until(lambda: ended)

    run(script, test)


def test_requests_wait_for_their_turn() -> None:
    async def test(replica: Replica, pod: Scripted) -> None:
        answers = await asyncio.gather(*(asked(replica) for _ in range(20)))
        assert answers == [(200, b"abc")] * 20
        assert len(pod.clients) == 2

    run(answering(*[response(b"abc")] * 20), test)


def test_nobody_waits_for_ever_for_a_turn() -> None:
    async def script(client: Client) -> None:
        await client.request()
        await client.ended()

    async def test(replica: Replica, pod: Scripted) -> None:
        held = asyncio.ensure_future(replica.ask(REQUEST))
        await until(lambda: pod.requests)
        with pytest.raises(ApiError, match="overloaded"):
            await replica.ask(REQUEST)
        stream = asyncio.ensure_future(replica.ask(REQUEST, counted=False))
        await until(lambda: len(pod.requests) == 2)
        for task in (held, stream):
            task.cancel()
        await asyncio.gather(held, stream, return_exceptions=True)
        again = asyncio.ensure_future(replica.ask(REQUEST))
        await until(lambda: len(pod.requests) == 3)
        again.cancel()

    run(script, test, PodTimeouts(connections=1, waiting_s=0.05))


def test_who_does_not_read_has_no_turn() -> None:
    size = 1 << 24

    async def test(replica: Replica, pod: Scripted) -> None:
        unread = [await replica.ask(REQUEST) for _ in range(3)]
        assert [len(await incoming.whole()) for incoming in unread] == [size] * 3
        assert await asyncio.gather(*(asked(replica) for _ in range(3))) == [(200, b"abc")] * 3
        assert len(pod.clients) == 3, "what had its turn gives it back once"

    run(answering(response(bytes(size)), *[response(b"abc")] * 3), test, PodTimeouts(connections=1, waiting_s=2.0))


def test_a_pod_that_is_away_is_found_when_it_is_back() -> None:
    async def test(replica: Replica, pod: Scripted) -> None:
        assert await asked(replica) == (200, b"abc")
        await pod.stop()
        with pytest.raises(PodGone):
            await asked(replica)
        assert replica.is_away
        port = int(pod.address.rpartition(":")[2])
        async with scripted(answering(response(b"{}", b"404 Not Found"), response(b"abc")), port):
            await until(lambda: not replica.is_away)
            assert await asked(replica) == (200, b"abc")

    run(answering(response(b"abc")), test)


def test_a_pod_that_is_not_ready_is_weak_until_it_is() -> None:
    problem = response(b'{"code":"engine_unavailable"}', b"503 Service Unavailable")

    async def test(replica: Replica, pod: Scripted) -> None:
        replica.weaken()
        await until(lambda: not replica.is_weak)
        assert len(pod.requests) == 3

    run(answering(problem, problem, response(b"{}", b"404 Not Found")), test)


def test_of_a_pod_that_wants_a_token_the_admin_port_says_whether_it_is_ready() -> None:
    says = [b"503 Service Unavailable", b"200 OK"]

    async def admin(client: Client) -> None:
        await client.request()
        await client.say(response(b"{}", says.pop(0)))

    async def all_of_it() -> None:
        wants_token = answering(*[response(b"{}", b"401 Unauthorized")] * 4)
        async with scripted(wants_token) as pod, scripted(admin) as at:
            replica = Replica(pod.address, SOON, at.address)
            assert not await replica.is_ready()
            assert replica.is_weak
            assert await replica.is_ready()
            await at.stop()
            assert not await replica.is_ready(), "it is not known"
            replica.close(now=True)

    asyncio.run(all_of_it())


def test_what_is_read_can_be_read_again() -> None:
    async def test(replica: Replica, _: Scripted) -> None:
        incoming: Incoming = await replica.ask(REQUEST)
        assert await incoming.whole() == b"abc"
        assert not incoming.is_read
        assert await incoming.read() == b"abc"
        assert incoming.is_read

    run(answering(response(b"abc")), test)


def test_a_pod_whose_machine_has_gone_is_found_out() -> None:
    """Connections are made, and nothing is said any more."""

    async def script(client: Client) -> None:
        if len(pod_of[0].clients) == 1:
            await client.request()
            await client.say(response(b"abc"))
        await client.reader.read()

    async def test(replica: Replica, pod: Scripted) -> None:
        pod_of.append(pod)
        assert await asked(replica) == (200, b"abc")
        with pytest.raises(PodGone):
            await asked(replica)
        assert replica.is_away
        assert len(pod.clients) == 2, "it was asked again"

    pod_of: list[Scripted] = []
    run(script, test, PodTimeouts(probe_s=5.0, silent_s=20.0, suspect_s=0.05))


def test_a_pod_that_only_takes_long_is_waited_for() -> None:
    async def script(client: Client) -> None:
        if b"/v1/views/-" in await client.request():
            probes.append(client)
            await client.say(response(b"{}", b"404 Not Found"))
            return
        await until(lambda: len(probes) > 2)
        await client.say(response(b"abc"))

    async def test(replica: Replica, _: Scripted) -> None:
        assert await asked(replica) == (200, b"abc")
        assert not replica.is_away

    probes: list[Client] = []
    run(script, test, PodTimeouts(silent_s=20.0, suspect_s=0.05))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_pod_is_not_away_because_there_are_no_more_files(host: str) -> None:
    async def test(_: Replica, pod: Scripted) -> None:
        other, replica = (Replica(pod.address.replace("127.0.0.1", host), SOON) for _ in range(2))
        # Names have been looked up before; what that takes is there.
        assert await asked(other) == (200, b"abc")
        with no_more_files():
            with pytest.raises(ApiError, match="overloaded"):
                await asked(replica)
            assert not await replica.is_ready()
            assert not replica.is_away
        assert await asked(replica) == (200, b"abc")
        for each in (other, replica):
            each.close()

    run(answering(*[response(b"abc")] * 2), test)


def test_while_a_request_waits_other_connections_are_kept() -> None:
    async def script(client: Client) -> None:
        while True:
            request = await client.request()
            if request == REQUEST:
                await client.say(response(b"abc"))
            elif b"/v1/views/-" in request:
                probes.append(client)
                await client.say(response(b"{}", b"404 Not Found", b"connection: close"))
                return
            else:
                await until(lambda: len(probes) > 2)
                await client.say(response(b"late"))

    async def test(replica: Replica, pod: Scripted) -> None:
        slow = asyncio.ensure_future(asked(replica, HEAD.replace(b"HEAD", b"POST")))
        await until(lambda: pod.requests)
        assert await asked(replica) == (200, b"abc")
        assert await slow == (200, b"late")
        assert await asked(replica) == await asked(replica) == (200, b"abc")
        assert all(probe.requests[0].endswith(b"connection: close\r\n\r\n") for probe in probes)
        assert len(pod.clients) == 2 + len(probes)

    probes: list[Client] = []
    run(script, test, PodTimeouts(silent_s=20.0, suspect_s=0.05))
