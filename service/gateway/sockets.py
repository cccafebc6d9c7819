"""Many subscriptions over one WebSocket, at the pods of all shards: ``/v1/subscribe``.

*Theory*: a client's socket has one to a pod of each shard of its keys. The client's messages go to the shard of the
key, and the pods' messages to the client, unchanged: the ids are the client's. Messages without a subscription are
refused here. The first pod is connected before the client is accepted, so that the pod authenticates it.

*Invariants*: an id belongs to one subscription until a pod has ended it; the next one with that id waits for that.
Subscriptions at a pod that goes away get must-refetch. Each shard has at most one socket. One message at a time is
sent to the client; pods are read at the client's pace.

Not here: the meaning of messages (a pod's `service.worker.subscriptions.websocket`).
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.typing import Origin

from service.gateway.counting import GatewayCounters
from service.gateway.finding import ViewSearch
from service.gateway.homes import slot_of
from service.gateway.known import LearnedViews
from service.gateway.pod_connection import PodConnection
from service.gateway.pods import ShardPods
from service.gateway.replica import Replica
from service.gateway.shortage import refuse_shortage
from service.gateway.topology import Topology
from service.ground.errors import ApiError
from service.web.auth.guard import refuse
from service.web.messages import Receive, Scope, Send
from service.web.principal import principal_of, require_read
from service.worker.subscriptions.entries import EventKind
from service.worker.subscriptions.messages import (
    PATH,
    SUBSCRIBE,
    Id,
    id_in_use,
    id_of,
    no_socket_at,
    parsed,
    type_of,
    unknown_id,
    wanted_of,
)

#: Headers of the client's request that a pod uses.
_PASSED_ON = frozenset({b"authorization", b"cookie", b"user-agent", b"x-request-id"})
_OF_REFUSAL = frozenset({"cache-control", "content-type", "retry-after", "www-authenticate"})
_TYPE = b',"type":"'
_START = b'{"id":'
_UNSUBSCRIBED, _PROBLEM, _MUST_REFETCH = b"unsubscribed", b"problem", EventKind.MUST_REFETCH.value.encode()
#: A pod's problem for an unsubscribe of an ended subscription.
_NOT_THERE = "bad_request"
_MOST_QUEUED = 4
#: Time limit of a pod's handshake: it may have to fetch the keys of tokens.
_HANDSHAKE_S = 15.0


class Sockets:
    """Serves WebSockets."""

    def __init__(
        self, topology: Topology, known: LearnedViews, counters: GatewayCounters, connect_timeout_s: float
    ) -> None:
        self.topology = topology
        self.known = known
        self._counters = counters
        self._timeout_s = connect_timeout_s

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket from its opening to its end."""
        if scope["path"] != PATH:
            await refuse(scope, send, no_socket_at(scope["path"]))
            return
        session = _Session(self, scope, send)
        self._counters.streams += 1
        try:
            await session.open()
            await session.run(receive)
        except InvalidStatus as refused:
            await _pass_refusal_on(refused, send)
        except ApiError as error:
            await refuse(scope, send, error)
        finally:
            self._counters.streams -= 1
            await session.close()

    async def connection(self, pods: ShardPods, slot: int, scope: Scope) -> ClientConnection:
        """Return a socket to a pod, opened with the client's headers. Raises ApiError, InvalidStatus."""
        for replica in pods.order(slot):
            if (found := await self._connected(replica, scope)) is not None:
                return found
        raise ApiError("engine_unavailable", f"No pod of shard {pods.number} can be reached.", "Try again in a moment.")

    async def _connected(self, replica: Replica, scope: Scope) -> ClientConnection | None:
        """Return a socket, or None: without a connection, the replica is away; without an answer, it may be. Raises
        ApiError, InvalidStatus."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        loop, reached, limit = asyncio.get_running_loop(), False, asyncio.timeout(self._timeout_s)

        def connected() -> None:
            nonlocal reached
            reached = True
            limit.reschedule(loop.time() + _HANDSHAKE_S)

        try:
            async with limit:
                return await connect(
                    f"ws://{replica.netloc}{PATH}",
                    origin=cast("Origin | None", headers.get(b"origin")),
                    additional_headers=[(name.decode(), headers[name]) for name in _PASSED_ON & headers.keys()],
                    user_agent_header=None,
                    compression=None,
                    proxy=None,
                    open_timeout=None,
                    max_size=None,
                    max_queue=_MOST_QUEUED,
                    create_connection=cast(
                        "type[ClientConnection]",
                        partial(PodConnection, host=headers.get(b"host", replica.netloc), connected=connected),
                    ),
                )
        except InvalidStatus:
            raise
        except (OSError, WebSocketException) as error:
            refuse_shortage(error)
            if reached:
                replica.suspect()
            else:
                replica.lose(str(error) or "it did not answer in time")
        return None


@dataclass(slots=True)
class _Followed:
    """A subscription and its shard. `message` is the client's request until it is answered; `socket`, the one it was
    sent over; `left`, if the client has unsubscribed, is set at its end."""

    finding: ViewSearch
    message: str | None
    socket: ClientConnection | None = None
    left: asyncio.Event | None = None


@dataclass(slots=True)
class _Session:
    """One client. *State*: `_sockets` to shards, each read by a task of `_readers`; `_followed`, subscriptions by
    their ids as JSON."""

    sockets: Sockets
    scope: Scope
    send: Send
    _sockets: dict[int, ClientConnection] = field(default_factory=dict)
    _readers: set[asyncio.Task[None]] = field(default_factory=set)
    _followed: dict[bytes, _Followed] = field(default_factory=dict)
    _sending: asyncio.Lock = field(default_factory=asyncio.Lock)
    _connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _slot: int = 0

    async def open(self) -> None:
        """Connect to a pod of any shard. Raises ApiError, InvalidStatus."""
        topology = self.sockets.topology
        self._slot = topology.any_slot()
        shards = len(topology.shards)
        for n in range(shards):
            try:
                await self._socket((self._slot + n) % shards)
            except ApiError:
                if n == shards - 1:
                    raise
            else:
                return

    async def run(self, receive: Receive) -> None:
        """Serve until the client disconnects."""
        # The `websocket.connect` message.
        await receive()
        await self.send({"type": "websocket.accept"})
        with suppress(OSError):
            while (message := await receive())["type"] == "websocket.receive":
                text = message.get("text")
                # Pods get the text that was checked here.
                await self._take(text if text is not None else (message.get("bytes") or b"").decode("utf-8", "replace"))

    async def close(self) -> None:
        """End all tasks and sockets."""
        for reader in list(self._readers):
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        for socket in self._sockets.values():
            socket.transport.abort()

    async def _take(self, text: str) -> None:
        """Handle a message of the client."""
        number: Id = None
        try:
            message = parsed(text)
            number = id_of(message)
            if type_of(message) == SUBSCRIBE:
                await self._subscribe(number, message, text)
            else:
                await self._unsubscribe(number, text)
        except (ApiError, InvalidStatus) as error:
            await self._refuse(orjson.dumps(number), error)

    async def _subscribe(self, number: Id, message: dict[str, Any], text: str) -> None:
        view, params, _ = wanted_of(message)
        require_read(principal_of(self.scope), view)
        key = orjson.dumps(number)
        before = self._followed.get(key)
        if before is not None:
            if before.left is None:
                raise id_in_use(number)
            await before.left.wait()
        known, topology = self.sockets.known, self.sockets.topology
        slot = slot_of(view, params, known.asker(view, self.scope["headers"]))
        followed = self._followed[key] = _Followed(ViewSearch(topology, known, view, topology.home(slot)), text)
        try:
            followed.socket = await self._socket(followed.finding.shard)
        except (ApiError, InvalidStatus):
            self._end(key, followed)
            raise
        await _say(followed.socket, text)

    async def _unsubscribe(self, number: Id, text: str) -> None:
        followed = self._followed.get(orjson.dumps(number))
        if followed is None or followed.left is not None:
            raise unknown_id(number)
        followed.left = asyncio.Event()
        if followed.socket is not None:
            await _say(followed.socket, text)

    def _end(self, number: bytes, followed: _Followed) -> None:
        """End a subscription; idempotent."""
        if self._followed.get(number) is followed:
            del self._followed[number]
        if followed.left is not None:
            followed.left.set()

    async def _socket(self, shard: int) -> ClientConnection:
        """Return the socket to a shard. Raises ApiError, InvalidStatus."""
        if (found := self._sockets.get(shard)) is not None:
            return found
        # Messages of the client and of pods may need it at the same time.
        async with self._connecting:
            if (found := self._sockets.get(shard)) is None:
                pods = self.sockets.topology.pods(shard)
                found = self._sockets[shard] = await self.sockets.connection(pods, self._slot, self.scope)
                reader = asyncio.ensure_future(self._read(shard, found))
                self._readers.add(reader)
                reader.add_done_callback(self._readers.discard)
            return found

    async def _read(self, shard: int, socket: ClientConnection) -> None:
        """Forward the messages of a pod."""
        try:
            while True:
                await self._hear(socket, await socket.recv(decode=False))
        except WebSocketException:
            del self._sockets[shard]
            await self._tell_of_end(socket)
        except OSError:
            # The client has disconnected.
            pass
        finally:
            for number, followed in self._at(socket):
                self._end(number, followed)

    async def _tell_of_end(self, socket: ClientConnection) -> None:
        """End the subscriptions of a closed socket."""
        with suppress(OSError):
            for number, followed in self._at(socket):
                self._end(number, followed)
                if followed.left is not None:
                    await self._tell(number, _UNSUBSCRIBED)
                else:
                    await self._tell(number, _MUST_REFETCH, b',"token":"","reason":"The pod has gone."')

    def _at(self, socket: ClientConnection) -> list[tuple[bytes, _Followed]]:
        return [(number, followed) for number, followed in self._followed.items() if followed.socket is socket]

    async def _hear(self, socket: ClientConnection, message: bytes) -> None:
        """Handle a message of a pod."""
        head, _, rest = message.partition(_TYPE)
        number, kind = head.removeprefix(_START), rest[: rest.find(b'"')]
        followed = self._followed.get(number)
        if followed is not None and followed.socket is socket:
            if kind == _PROBLEM:
                code = orjson.loads(message)["problem"]["code"]
                if followed.message is not None and followed.left is None and followed.finding.refused(code):
                    await self._ask_next(number, followed)
                    return
                # If it had ended before the client left it, the pod reports the end, and then an unknown id.
                if followed.left is None or (followed.message is None and code == _NOT_THERE):
                    self._end(number, followed)
                followed.message = None
            elif kind == _UNSUBSCRIBED or (kind == _MUST_REFETCH and followed.left is None):
                self._end(number, followed)
            elif followed.message is not None:
                followed.message = None
                followed.finding.answered()
        async with self._sending:
            await self.send({"type": "websocket.send", "text": message.decode()})

    async def _ask_next(self, number: bytes, followed: _Followed) -> None:
        """Subscribe at another shard, which may have the view."""
        assert followed.message is not None
        followed.socket = None
        try:
            socket = await self._socket(followed.finding.shard)
        except (ApiError, InvalidStatus) as error:
            self._end(number, followed)
            await self._refuse(number, error)
            return
        if followed.left is not None:
            self._end(number, followed)
            await self._tell(number, _UNSUBSCRIBED)
            return
        followed.socket = socket
        await _say(socket, followed.message)

    async def _refuse(self, number: bytes, error: ApiError | InvalidStatus) -> None:
        if isinstance(error, InvalidStatus):
            error = ApiError(
                "engine_unavailable", "A pod accepts no WebSockets at the moment.", "Try again in a moment."
            )
        await self._tell(number, _PROBLEM, b',"problem":' + orjson.dumps(error.problem(self.scope["path"])))

    async def _tell(self, number: bytes, kind: bytes, members: bytes = b"") -> None:
        text = b"".join((_START, number, _TYPE, kind, b'"', members, b"}"))
        async with self._sending:
            await self.send({"type": "websocket.send", "text": text.decode()})


async def _say(socket: ClientConnection, text: str) -> None:
    with suppress(WebSocketException):
        # The reader of a closed socket reports it.
        await socket.send(text)


async def _pass_refusal_on(refused: InvalidStatus, send: Send) -> None:
    response = refused.response
    headers = [
        (name.lower().encode(), value.encode("latin-1"))
        for name, value in response.headers.raw_items()
        if name.lower() in _OF_REFUSAL
    ]
    body = bytes(response.body or b"")
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "websocket.http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
