"""Frames of the Unix sockets: those of one turn of the loop leave together."""

import asyncio
from typing import Any

from service.protocol.frames import FrameWriter, read_frame


class Recording(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed


def test_frames_of_a_turn_are_one_write_in_their_order() -> None:
    async def main() -> None:
        loop, transport = asyncio.get_running_loop(), Recording()
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        frames = FrameWriter(asyncio.StreamWriter(transport, protocol, None, loop))
        turns = [[b"a", b"", b"bcd"], [b"e" * 70_000]]
        for turn in turns:
            for body in turn:
                frames.write(body)
            assert frames.unsent_bytes == sum(4 + len(body) for body in turn)
            await asyncio.sleep(0)
            assert frames.unsent_bytes == 0
        assert len(transport.written) == len(turns)
        reader = asyncio.StreamReader()
        reader.feed_data(b"".join(transport.written))
        assert [await read_frame(reader) for turn in turns for _ in turn] == [body for turn in turns for body in turn]

        frames.write(b"late")
        transport.closed = True
        await asyncio.sleep(0)
        assert len(transport.written) == len(turns)

    asyncio.run(main())
