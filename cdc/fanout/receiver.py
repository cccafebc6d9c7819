"""One process that listens to a hub, as the hub sees it: a connection, and what it has said so far.

*Invariants*: `JoinReply` is the first frame that it gets; what it is told before that comes behind it.

Not here: what it is told (`hub`).
"""

import asyncio

from cdc.fanout.frames import FollowRequest, Frames, JoinReply, Message, frame_of

#: Bytes that wait for a receiver before the stream is read on.
AHEAD_BYTES = 8 << 20
_READ_BYTES = 1 << 16


class Receiver:
    """*State*: `follows`, what it said last; `settled`, whether it is followed; `acknowledged`, what it will not ask
    for again; `gone`, whether it was let go; `_early`, what it is told before it has joined, None afterwards."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.follows = FollowRequest(0, {})
        self.settled = False
        self.acknowledged = 0
        self.gone = False
        self._reader = reader
        self._writer = writer
        self._frames = Frames()
        self._early: list[bytes] | None = []
        # One that takes a little at a time takes something.
        writer.transport.set_write_buffer_limits(high=AHEAD_BYTES, low=AHEAD_BYTES - _READ_BYTES)

    @property
    def joined(self) -> bool:
        """Whether it gets batches."""
        return self._early is None

    @property
    def full(self) -> bool:
        """Whether so much waits for it that the stream has to."""
        return self._writer.transport.get_write_buffer_size() > AHEAD_BYTES

    async def messages(self) -> list[Message] | None:
        """What it says next; None at its end."""
        data = await self._reader.read(_READ_BYTES)
        if not data:
            return None
        return [message for message in self._frames.feed(data) if isinstance(message, Message)]

    def join(self, joined: JoinReply) -> None:
        """It gets everything from here on."""
        assert self._early is not None
        early, self._early = self._early, None
        self.acknowledged = joined.position
        for frame in (frame_of(joined), *early):
            self.send(frame)

    def send(self, frame: bytes) -> None:
        """Sends a frame, without waiting for it to go. A connection that is gone is noticed by `messages`."""
        if self._early is not None:
            self._early.append(frame)
        elif not self._writer.is_closing():
            self._writer.write(frame)

    def refuse(self, frame: bytes) -> None:
        """The last frame, joined or not."""
        if not self._writer.is_closing():
            self._writer.write(frame)
        self.close()

    async def drained(self, limit_s: float) -> bool:
        """Waits until it has taken enough. False: it has taken nothing for that long."""
        while True:
            waits_bytes = self._writer.transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(limit_s):
                    await self._writer.drain()
            except TimeoutError:
                if self._writer.transport.get_write_buffer_size() >= waits_bytes:
                    return False
            except ConnectionError:
                return True
            else:
                return True

    def abort(self) -> None:
        """Lets it go at once."""
        self.gone = True
        self._writer.transport.abort()

    def close(self) -> None:
        """Its connection has ended, or ends when what was sent has gone."""
        self.gone = True
        self._writer.close()
