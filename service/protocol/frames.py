"""Frames of the Unix sockets between processes: a 4-byte big-endian length and a JSON body; errors within them."""

import asyncio
from typing import Any

from service.ground.errors import ApiError

_LENGTH_BYTES = 4
#: A frame that claims to be longer was not sent by a process of this service.
MAX_FRAME_BYTES = 256 << 20


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The body of the next frame. Raises IncompleteReadError at the end of the stream, ConnectionError if it is no
    frame."""
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    if length > MAX_FRAME_BYTES:
        raise ConnectionError(f"a frame of {length} bytes")
    return await reader.readexactly(length)


def write_frame(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Writes a frame, unless the peer has closed: uvloop raises RuntimeError where asyncio discards what is written."""
    if not writer.is_closing():
        writer.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)


class FrameWriter:
    """Sends the frames of one turn of the loop in one write: each write is a system call and wakes the peer, which then
    reads all of them in one turn, too.

    *State*: `_gathered` has the bytes of this turn's frames, `unsent_bytes` in all.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._gathered: list[bytes] = []
        self.unsent_bytes = 0

    def write(self, body: bytes) -> None:
        """Send a frame at the end of this turn, unless the peer has closed by then."""
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._flush)
        self._gathered += (len(body).to_bytes(_LENGTH_BYTES, "big"), body)
        self.unsent_bytes += _LENGTH_BYTES + len(body)

    def _flush(self) -> None:
        gathered, self._gathered, self.unsent_bytes = self._gathered, [], 0
        if not self._writer.is_closing():
            self._writer.write(b"".join(gathered))


def error_fields(error: ApiError) -> dict[str, Any]:
    """The JSON form of an error."""
    return {
        "code": error.code,
        "detail": error.detail,
        "hint": error.hint,
        "retryable": error.retryable,
        "members": error.members,
    }


def error_of(fields: dict[str, Any]) -> ApiError:
    """The error that `error_fields` describes."""
    return ApiError(
        fields["code"], fields["detail"], fields["hint"], retryable=fields["retryable"], members=fields["members"]
    )
