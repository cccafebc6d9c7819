"""A request's body that two applications can read, one after the other."""

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from service.web.messages import Receive

_Message = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The messages of a body. `content` is None if it is incomplete: the client has left, or the body is too large."""

    messages: list[_Message]
    content: bytes | None

    @classmethod
    async def read(cls, receive: Receive, max_bytes: int) -> "RequestBody":
        """Receive the complete body, or stop after `max_bytes`."""
        messages: list[_Message] = []
        size, more = 0, True
        while more and size <= max_bytes:
            message = await receive()
            messages.append(message)
            if message["type"] != "http.request":
                return cls(messages, None)
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        whole = None if more or size > max_bytes else b"".join([message.get("body", b"") for message in messages])
        return cls(messages, whole)

    def replayed(self, receive: Receive) -> Receive:
        """Return a `receive` that begins with the messages of this body."""
        left = iter(self.messages)

        async def received() -> _Message:
            message = next(left, None)
            return await receive() if message is None else message

        return received
