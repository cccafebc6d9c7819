"""Many subscriptions over one WebSocket, of the pods of all shards: ``/v1/subscribe``.

*Theory*: for a client's socket there is one to a pod of each shard that it follows keys of. What the client says goes
to the shard of the key, and what pods say goes to the client, both as they are: the ids are the client's. The first pod
is connected before the client is let in, so that it is a pod that says who is.

*Invariants*: what is followed at a pod that goes away is told to be fetched anew. To a shard there is one socket at
a time. One message at a time is on its way to the client; pods are not read faster than it reads.

Not here: what the messages mean (a pod's `service.subscriptions.websocket`).
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from service.auth.guard import refuse
from service.auth.principal import principal_of, require_read
from service.errors import ApiError
from service.gateway.counting import GatewayCounters
from service.gateway.finding import Finding
from service.gateway.homes import slot_of
from service.gateway.known import KnownViews
from service.gateway.pods import ShardPods
from service.gateway.replica import Replica
from service.gateway.topology import Topology
from service.http.messages import Receive, Scope, Send
from service.subscriptions.entries import Kind

#: Headers of the client's request that a pod looks at.
_PASSED_ON = frozenset({b"authorization", b"cookie", b"user-agent", b"x-request-id"})
_OF_REFUSAL = frozenset({"cache-control", "content-type", "retry-after", "www-authenticate"})
_TYPE = b',"type":"'
_START = b'{"id":'
_OVER = frozenset({Kind.MUST_REFETCH.value.encode(), b"unsubscribed"})
_PROBLEM = b"problem"
#: A refusal that leaves what there is under the same id as it was.
_HARMLESS = "bad_request"
_MOST_QUEUED = 4


class Sockets:
    """Serves them."""

    def __init__(
        self, topology: Topology, known: KnownViews, counters: GatewayCounters, connect_timeout_s: float
    ) -> None:
        self.topology = topology
        self.known = known
        self._counters = counters
        self._timeout_s = connect_timeout_s

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One, from its opening to its end."""
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
        """A socket to a pod, which is asked for what the client has asked for. ApiError, InvalidStatus."""
        for replica in pods.order(slot):
            try:
                return await self._connected(replica, scope)
            except InvalidStatus:
                raise
            except (OSError, WebSocketException) as error:
                replica.lose(error)
        raise ApiError("engine_unavailable", f"No pod of shard {pods.number} can be reached.", "Try again in a moment.")

    async def _connected(self, replica: Replica, scope: Scope) -> ClientConnection:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        query = scope["query_string"].decode("latin-1")
        target = scope.get("raw_path", b"").decode("latin-1") or scope["path"]
        host, port = replica.place
        return await connect(
            # Pods compare what the client calls this server with the page that it comes from.
            f"ws://{headers.get(b'host', replica.netloc)}{target}{'?' + query if query else ''}",
            host=host,
            port=port,
            origin=headers.get(b"origin"),
            additional_headers=[(name.decode(), headers[name]) for name in _PASSED_ON & headers.keys()],
            user_agent_header=None,
            compression=None,
            proxy=None,
            open_timeout=self._timeout_s,
            max_size=None,
            max_queue=_MOST_QUEUED,
        )


@dataclass(slots=True)
class _Followed:
    """A subscription, and where it is. `message` is what it was asked for with, until it is answered; `socket`, what
    that was said over last."""

    finding: Finding
    message: str | None
    socket: ClientConnection | None = None


@dataclass(slots=True)
class _Session:
    """One client. *State*: `_sockets` to shards, each read by a task of `_readers`; `_followed` by the ids, as JSON."""

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
        """Connect to a pod of any shard. ApiError, InvalidStatus."""
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
        """Until the client goes away."""
        # That it connects.
        await receive()
        await self.send({"type": "websocket.accept"})
        with suppress(OSError):
            while (message := await receive())["type"] == "websocket.receive":
                text = message.get("text")
                # Pods are told what was looked at here, not what it may be read as.
                await self._take(text if text is not None else (message.get("bytes") or b"").decode("utf-8", "replace"))

    async def close(self) -> None:
        """End all that there is."""
        for reader in list(self._readers):
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        for socket in self._sockets.values():
            socket.transport.abort()

    async def _take(self, text: str) -> None:
        """A message of the client's."""
        message = _parsed(text)
        number = orjson.dumps(message.get("id"))
        followed = self._followed.get(number)
        try:
            self._require_read(message)
            if followed is None:
                followed = self._new(message, text)
                if followed is not None:
                    self._followed[number] = followed
            # Whatever is wrong with what is about nothing, a pod says so.
            await self._say(followed, text)
        except (ApiError, InvalidStatus) as error:
            if followed is not None and followed.message is text:
                self._followed.pop(number, None)
            await self._refuse(number, error)

    def _require_read(self, message: dict[str, Any]) -> None:
        """ApiError ``forbidden``, also of what is followed: a pod may have ended that meanwhile."""
        view = message.get("view")
        if message.get("type") == "subscribe" and isinstance(view, str):
            require_read(principal_of(self.scope), view)

    def _new(self, message: dict[str, Any], text: str) -> _Followed | None:
        """What a message wants to follow; None if that is not to be understood."""
        view, params = message.get("view"), message.get("params", {})
        if message.get("type") != "subscribe" or not isinstance(view, str) or not isinstance(params, dict):
            return None
        known, topology = self.sockets.known, self.sockets.topology
        slot = slot_of(view, params, known.asker(view, self.scope["headers"]))
        return _Followed(Finding(topology, known, view, topology.home(slot)), text)

    async def _say(self, followed: _Followed | None, text: str) -> None:
        """To where it is followed; None: to any. ApiError, InvalidStatus."""
        if followed is not None:
            socket = followed.socket = await self._socket(followed.finding.shard)
        else:
            found = next(iter(self._sockets.values()), None)
            socket = found or await self._socket(self._slot % len(self.sockets.topology.shards))
        with suppress(WebSocketException):
            # One that is closed is told of by who reads it.
            await socket.send(text)

    async def _socket(self, shard: int) -> ClientConnection:
        """The one to a shard. ApiError, InvalidStatus."""
        if (found := self._sockets.get(shard)) is not None:
            return found
        # What the client says may need it as well as what a pod says.
        async with self._connecting:
            if (found := self._sockets.get(shard)) is None:
                pods = self.sockets.topology.pods(shard)
                found = self._sockets[shard] = await self.sockets.connection(pods, self._slot, self.scope)
                reader = asyncio.ensure_future(self._read(shard, found))
                self._readers.add(reader)
                reader.add_done_callback(self._readers.discard)
            return found

    async def _read(self, shard: int, socket: ClientConnection) -> None:
        """What a pod says."""
        with suppress(OSError):
            try:
                while True:
                    await self._hear(await socket.recv(decode=False))
            except WebSocketException:
                pass
            del self._sockets[shard]
            gone = [number for number, followed in self._followed.items() if followed.socket is socket]
            for number in gone:
                del self._followed[number]
                await self._tell(number, Kind.MUST_REFETCH.value, b'"token":"","reason":"The pod has gone."')

    async def _hear(self, message: bytes) -> None:
        """A message of a pod's."""
        head, _, rest = message.partition(_TYPE)
        number, kind = head.removeprefix(_START), rest[: rest.find(b'"')]
        followed = self._followed.get(number)
        if followed is not None:
            if kind == _PROBLEM:
                code = orjson.loads(message)["problem"]["code"]
                if followed.message is not None and followed.finding.refused(code):
                    await self._ask_next(number, followed)
                    return
                if followed.message is not None or code != _HARMLESS:
                    del self._followed[number]
            elif kind in _OVER:
                del self._followed[number]
            elif followed.message is not None:
                followed.message = None
                followed.finding.answered()
        async with self._sending:
            await self.send({"type": "websocket.send", "text": message.decode()})

    async def _ask_next(self, number: bytes, followed: _Followed) -> None:
        """Another shard may have it."""
        assert followed.message is not None
        try:
            await self._say(followed, followed.message)
        except (ApiError, InvalidStatus) as error:
            self._followed.pop(number, None)
            await self._refuse(number, error)

    async def _refuse(self, number: bytes, error: ApiError | InvalidStatus) -> None:
        if isinstance(error, InvalidStatus):
            error = ApiError("engine_unavailable", "A pod does not take WebSockets just now.", "Try again in a moment.")
        await self._tell(number, "problem", b'"problem":' + orjson.dumps(error.problem(self.scope["path"])))

    async def _tell(self, number: bytes, kind: str, members: bytes) -> None:
        said = b"".join((_START, number, _TYPE, kind.encode(), b'",', members, b"}"))
        async with self._sending:
            await self.send({"type": "websocket.send", "text": said.decode()})


def _parsed(text: str) -> dict[str, Any]:
    """A message; empty if it is none."""
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return message if isinstance(message, dict) else {}


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
