"""Many subscriptions over one WebSocket: ``/v1/subscribe``.

A client sends ``{"type": "subscribe", "id", "view", "params", "after"}`` and ``{"type": "unsubscribe", "id"}``;
every message to it has the id of its subscription. Messages are JSON texts: ``snapshot``, ``change`` (each complete
in itself), ``up-to-date``, ``must-refetch``, ``problem`` and ``unsubscribed``; after one of the last three, no more
messages of that id follow.

*Theory*: each subscription is a task that waits for its entries and then for its turn to send. One message is made
at a time, and the next one when the transport has room: a client that does not read holds one message, whatever the
number of its subscriptions, and its unread entries stay in shared logs.

*Invariants*: an invalid message affects no subscription.

Not here: parsing (`messages`).
"""

import asyncio
from contextlib import suppress
from typing import Any

import orjson

from service.ground.errors import ApiError
from service.web.messages import Receive, Send
from service.web.principal import Principal
from service.worker.reads.known_views import KnownViews
from service.worker.subscriptions.messages import PATH, SUBSCRIBE, Id, id_in_use, id_of, parsed, type_of, unknown_id
from service.worker.subscriptions.requests import asked_of_message
from service.worker.subscriptions.topics import Entry, EventKind, Subscribes

_TYPES = {
    EventKind.SNAPSHOT: b"snapshot",
    EventKind.CHANGE: b"change",
    EventKind.UP_TO_DATE: b"up-to-date",
    EventKind.MUST_REFETCH: b"must-refetch",
}


class SocketSession:
    """One connection. *State*: `_following` has the tasks of its subscriptions, by the client's ids."""

    def __init__(
        self, subscriptions: Subscribes, reads: KnownViews, send: Send, most: int, principal: Principal | None
    ) -> None:
        self._subscriptions = subscriptions
        self._principal = principal
        self._reads = reads
        self._send = send
        self._most = most
        self._following: dict[Id, asyncio.Task[None]] = {}
        self._sending = asyncio.Lock()

    async def run(self, receive: Receive) -> None:
        """Serve until the client disconnects or the worker stops."""
        # The `websocket.connect` message.
        await receive()
        await self._send({"type": "websocket.accept"})
        try:
            while (message := await receive())["type"] == "websocket.receive":
                await self._take(message.get("text") or message.get("bytes") or "")
        except OSError:
            # The client disconnected during a send.
            pass
        finally:
            tasks = list(self._following.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, text: str | bytes) -> None:
        """Handle one message of the client."""
        number: Id = None
        try:
            message = parsed(text)
            number = id_of(message)
            if type_of(message) == SUBSCRIBE:
                self._subscribe(number, message)
            else:
                await self._unsubscribe(number)
        except ApiError as error:
            await self._refuse(number, error)

    def _subscribe(self, number: Id, message: dict[str, Any]) -> None:
        if number in self._following:
            raise id_in_use(number)
        if len(self._following) >= self._most:
            raise ApiError(
                "rate_limited",
                f"This connection has {self._most} subscriptions.",
                "Unsubscribe from some, or open another connection.",
            )
        self._following[number] = task = asyncio.ensure_future(self._follow(number, message))
        task.add_done_callback(lambda _: self._following.pop(number, None))

    async def _unsubscribe(self, number: Id) -> None:
        task = self._following.get(number)
        if task is None:
            raise unknown_id(number)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._write(number, b"unsubscribed")

    async def _follow(self, number: Id, message: dict[str, Any]) -> None:
        with suppress(OSError):
            try:
                await self._entries(number, message)
            except ApiError as error:
                await self._refuse(number, error)

    async def _entries(self, number: Id, message: dict[str, Any]) -> None:
        asked = asked_of_message(self._reads, message, self._principal)
        subscription = await self._subscriptions.subscribe(asked.wanted, asked.after, self._principal)
        try:
            while entries := await subscription.next():
                for entry in entries:
                    await self._write(number, _TYPES[entry.kind], entry)
                    if entry.kind is EventKind.MUST_REFETCH:
                        return
        finally:
            subscription.close()

    async def _refuse(self, number: Id, error: ApiError) -> None:
        await self._write(number, b"problem", problem=orjson.dumps(error.problem(PATH)))

    async def _write(self, number: Id, kind: bytes, entry: Entry | None = None, problem: bytes | None = None) -> None:
        async with self._sending:
            parts = [b'{"id":', orjson.dumps(number), b',"type":"', kind, b'"']
            if problem is not None:
                parts += [b',"problem":', problem]
            if entry is not None:
                parts += [b',"token":', orjson.dumps(entry.token), b",", entry.json[1:-1]]
            parts.append(b"}")
            await self._send({"type": "websocket.send", "text": b"".join(parts).decode()})
