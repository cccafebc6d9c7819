"""The hub's side of one receiver: its connection and state.

*Invariant*: `JoinReply` is the first frame sent; earlier frames are sent after it.

Not here: the content of messages (`hub`).
"""

import asyncio

from cdc.fanout.frames import FollowRequest, Frames, JoinReply, Request, frame_of
from cdc.stream import StreamPlace

#: Maximum bytes buffered for a receiver while the stream is read.
AHEAD_BYTES = 8 << 20
_READ_BYTES = 1 << 16


class Receiver:
    """One receiver.

    *State*: `follows`, the last request; `settled`, whether it is in effect; `place`, where it asked to continue;
    `acknowledged`, its acknowledged position; `gone`, whether it was disconnected; `_early`, frames from before it
    joined, None afterwards.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.follows = FollowRequest(0, {})
        self.settled = False
        self.place: StreamPlace | None = None
        self.acknowledged = 0
        self.gone = False
        self._reader = reader
        self._writer = writer
        self._frames = Frames()
        self._early: list[bytes] | None = []
        # A receiver that reads slowly is not stalled: the buffer drains at once below the limit.
        writer.transport.set_write_buffer_limits(high=AHEAD_BYTES, low=AHEAD_BYTES - _READ_BYTES)

    @property
    def joined(self) -> bool:
        """True if it receives batches."""
        return self._early is None

    @property
    def full(self) -> bool:
        """True if its buffer exceeds the limit, so that the stream has to wait."""
        return self._writer.transport.get_write_buffer_size() > AHEAD_BYTES

    async def requests(self) -> list[Request] | None:
        """Wait for requests; return None at the end of the connection."""
        data = await self._reader.read(_READ_BYTES)
        if not data:
            return None
        return [message for message in self._frames.feed(data) if isinstance(message, Request)]

    def join(self, joined: JoinReply) -> None:
        """Send the reply to its first request; batches follow."""
        assert self._early is not None
        early, self._early = self._early, None
        self.acknowledged = joined.position
        for frame in (frame_of(joined), *early):
            self.send(frame)

    def send(self, frame: bytes) -> None:
        """Send a frame without waiting; `requests` reports a closed connection."""
        if self._early is not None:
            self._early.append(frame)
        elif not self._writer.is_closing():
            self._writer.write(frame)

    def refuse(self, frame: bytes) -> None:
        """Send the last frame, joined or not, and close the connection."""
        if not self._writer.is_closing():
            self._writer.write(frame)
        self.close()

    async def drained(self, limit_s: float) -> bool:
        """Wait until its buffer has room; return False if it has read nothing for `limit_s`."""
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
        """Close the connection at once."""
        self.gone = True
        self._writer.transport.abort()

    def close(self) -> None:
        """Close the connection after all buffered frames."""
        self.gone = True
        self._writer.close()
