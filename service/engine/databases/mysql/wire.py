"""One connection to MariaDB or MySQL, with several statements per round trip; each text is one statement.

Commands are sent together and answered in order, so a transaction of four statements waits for the network once. (The
protocol's multi-statements are off: a text from a user could then contain several.)

PyMySQL connects, in a thread, and handles TLS and authentication. After that the socket is read here: asyncio's
streams, packet by packet, took twice the CPU (`README.md`).

*Invariants*: one caller at a time. A connection after any failure other than an error reported by the server, or whose
caller was cancelled, is `broken` and unusable.

Not here: decoding (`packets`), the number of connections (`connect`).
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from socket import socket
from typing import Any

from service.engine.databases.mysql.packets import (
    COMMAND_CLOSE,
    COMMAND_PREPARE,
    COMMAND_QUERY,
    ProtocolError,
    Replies,
    ServerError,
    ServerReply,
    command,
)
from service.engine.upstream.results import UNLIMITED, AnswerSize, UpstreamError

_READ_BYTES = 256 * 1024
#: Approximate bytes read at a time of a streamed reply, however few rows that is.
_STREAM_BYTES = 16 << 20
#: Exceptions of plain and TLS sockets when no data is available.
_LATER = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ConnectionBroken(Exception):
    """Connection lost."""


class Wire:
    """Authenticated connection.

    *State*: `_waiting` is set while replies are awaited; data at other times breaks the connection, as does more than
    `_most`. `_most_rows`, for a streamed reply: after that many rows, or `_read_bytes`, reading stops, and `_is_held`
    is True until the rows are taken.
    """

    def __init__(self, connected: Any) -> None:
        """`connected`: PyMySQL's connection, owned by this object from now on."""
        self._connected = connected
        self._socket: socket = connected._sock
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        #: True if encrypted.
        self.secured = isinstance(self._socket, ssl.SSLSocket)
        self._unsent = memoryview(b"")
        self._replies: Replies | None = None
        self._waiting: asyncio.Future[None] | None = None
        self.thread_id: int = connected.thread_id()
        self.version: str = connected.get_server_info()
        self.in_transaction = False
        self.broken = False
        #: Time limit for replies; other operations have none.
        self.limit_s: float | None = None
        self._problem: Exception = ConnectionBroken("The connection is closed.")
        self._most = UNLIMITED
        self._most_rows: int | None = None
        self._read_bytes = 0
        self._is_held = False
        self._loop.add_reader(self._socket, self._readable)

    @property
    def fileno(self) -> int:
        """Descriptor of the socket."""
        return self._socket.fileno()

    @property
    def busy(self) -> bool:
        """True if the server may still be working."""
        return self._replies is not None

    async def ask(self, *statements: str, most: AnswerSize = UNLIMITED) -> list[ServerReply]:
        """Returns the reply to each statement, in order, including errors of the server. Raises ConnectionBroken, and
        UpstreamError ``too_large`` if the replies together exceed `most`; both break the connection."""
        data = b"".join(command(COMMAND_QUERY, statement.encode()) for statement in statements)
        self._most, self._read_bytes = most, 0
        try:
            return await self._exchange(data, Replies(len(statements)))
        finally:
            self._most = UNLIMITED

    async def query(self, statement: str) -> ServerReply:
        """Runs one statement. Raises ServerError, ConnectionBroken."""
        (reply,) = await self.ask(statement)
        if reply.error is not None:
            raise reply.error
        return reply

    async def query_all(self, statements: Sequence[str]) -> list[ServerReply]:
        """Runs several statements. Raises ServerError for the first that fails, ConnectionBroken."""
        replies = await self.ask(*statements)
        for reply in replies:
            if reply.error is not None:
                raise reply.error
        return replies

    async def stream(self, statement: str, rows: int) -> AsyncGenerator[ServerReply]:
        """Yields the rows of one statement as they arrive, about `rows` at a time; rows not consumed stay on the
        server. Raises ServerError, ConnectionBroken; if left early, the connection is busy."""
        replies = Replies(1)
        self._most_rows, self._read_bytes = rows, 0
        try:
            self._send(command(COMMAND_QUERY, statement.encode()), replies)
            while not replies.done:
                await self._until_told()
                if not replies.done:
                    yield replies.take_rows()
                    self._go_on()
        finally:
            self._most_rows = None
        (reply,) = replies.replies
        if reply.error is not None:
            raise reply.error
        yield reply

    async def drop(self) -> None:
        """Reads and discards the rest of a stream. Raises ConnectionBroken."""
        while (replies := self._replies) is not None:
            replies.take_rows()
            if self._is_held:
                self._go_on()
            await self._until_told()

    def _go_on(self) -> None:
        """Resumes reading after the rows were taken."""
        if self.broken:
            raise self._problem
        self._is_held = False
        self._loop.add_reader(self._socket, self._readable)
        # TLS may have buffered data that the socket does not signal.
        self._readable()

    async def prepare(self, statement: str) -> ServerReply:
        """Prepares a statement: returns its parameters and columns without running it. Raises like `query`."""
        (reply,) = await self._exchange(command(COMMAND_PREPARE, statement.encode()), Replies(1, prepared=True))
        if reply.error is not None:
            raise reply.error
        # This command has no reply.
        await self._exchange(command(COMMAND_CLOSE, reply.statement.to_bytes(4, "little")), Replies(0))
        return reply

    def close(self) -> None:
        """Closes the socket without a message to the server."""
        if not self.broken or self._connected is not None:
            self._break(ConnectionBroken("The connection is closed."))

    async def _exchange(self, data: bytes, replies: Replies) -> list[ServerReply]:
        self._send(data, replies)
        await self._until_told()
        return replies.replies

    def _send(self, data: bytes, replies: Replies) -> None:
        if self.broken:
            raise self._problem
        assert self._replies is None, "one caller at a time"
        self._unsent = memoryview(data)
        self._replies = replies
        self._writable()
        if replies.done and not self._unsent:
            self._replies = None

    async def _until_told(self) -> None:
        """Waits until all replies have arrived, or enough rows of a stream. Raises TimeoutError after `limit_s`."""
        if self._replies is None or self._is_held:
            return
        if self.broken:
            raise self._problem
        self._waiting = self._loop.create_future()
        try:
            # Cancelled here: replies are still outstanding, so `busy` stays True.
            async with asyncio.timeout(self.limit_s):
                await self._waiting
        finally:
            self._waiting = None

    def _writable(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except _LATER:
            self._loop.add_writer(self._socket, self._write_more)
        except OSError as problem:
            self._break(problem)

    def _write_more(self) -> None:
        self._loop.remove_writer(self._socket)
        self._writable()

    def _readable(self) -> None:
        try:
            while not (self.broken or self._is_held):
                data = self._socket.recv(_READ_BYTES)
                if not data:
                    raise ConnectionBroken("The server closed the connection.")
                self._received(data)
                # TLS may have buffered data that the socket does not signal.
                if len(data) < _READ_BYTES and not self.secured:
                    return
        except _LATER:
            return
        except (OSError, ProtocolError, ConnectionBroken, UnicodeDecodeError, IndexError) as problem:
            self._break(problem)

    def _received(self, data: bytes) -> None:
        replies = self._replies
        if replies is None:
            raise ConnectionBroken("The server ended the connection.")
        replies.feed(data)
        self._read_bytes += len(data)
        if self._most_rows is not None and (
            replies.rows_read >= self._most_rows or (self._read_bytes >= _STREAM_BYTES and replies.rows_read)
        ):
            self._is_held = True
            self._read_bytes = 0
            self._loop.remove_reader(self._socket)
            self._tell()
        too_large = self._most.problem(replies.rows_held, self._read_bytes)
        if too_large is not None:
            # The server notices that its client has stopped reading.
            self._break(too_large)
        elif replies.done and not self._unsent:
            self.in_transaction = replies.in_transaction
            self._replies = None
            self._tell()

    def _tell(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _break(self, problem: Exception) -> None:
        if self.broken:
            return
        self.broken = True
        self._problem = _broken(problem)
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._connected._force_close()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(self._problem)


def _broken(problem: Exception) -> Exception:
    if isinstance(problem, ConnectionBroken | UpstreamError):
        return problem
    if isinstance(problem, UnicodeDecodeError):
        return ConnectionBroken("The server sent a text that is not UTF-8.")
    return ConnectionBroken(str(problem) or type(problem).__name__)


__all__ = ["ConnectionBroken", "ServerError", "ServerReply", "Wire"]
