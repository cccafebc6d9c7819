"""One connection to MariaDB or MySQL: several statements in one round trip, each text one statement.

Commands are sent together and answered in order, so a transaction of four statements waits for the network once.
(The protocol could also take several statements in one text; then a text from outside could be several, too.)

PyMySQL makes the connection, in a thread: TLS and all the ways to log in are its business. From then on the socket is
ours: reading replies packet by packet through asyncio's streams took twice the CPU of this (`README.md`).

*Invariants*: one caller at a time. A connection on which anything but an error of the server happened, or whose caller
has gone, is `broken` and of no use any more.

Not here: what the packets say (`packets`), how many connections there are (`connect`).
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
#: Of a reply that is taken while it comes: about so much at a time, however few rows that is.
_STREAM_BYTES = 16 << 20
#: What a socket of TLS or not says when there is nothing to be done now.
_LATER = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ConnectionBroken(Exception):
    """The connection is gone."""


class Wire:
    """A connection after its log in.

    *State*: `_waiting` is set while replies are awaited; what arrives otherwise breaks the connection, as does more
    than `_most`. `_most_rows`, of a reply that is taken while it comes: from so many on, or after so many
    `_read_bytes`, nothing more is read, and `_is_held` until they are taken.
    """

    def __init__(self, connected: Any) -> None:
        """`connected`: PyMySQL's connection, which nobody else uses any more."""
        self._connected = connected
        self._socket: socket = connected._sock
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        #: Whether it is encrypted.
        self.secured = isinstance(self._socket, ssl.SSLSocket)
        self._unsent = memoryview(b"")
        self._replies: Replies | None = None
        self._waiting: asyncio.Future[None] | None = None
        self.thread_id: int = connected.thread_id()
        self.version: str = connected.get_server_info()
        self.in_transaction = False
        self.broken = False
        #: How long replies may be waited for; what else is done with the connection takes what it takes.
        self.limit_s: float | None = None
        self._problem: Exception = ConnectionBroken("The connection is closed.")
        self._most = UNLIMITED
        self._most_rows: int | None = None
        self._read_bytes = 0
        self._is_held = False
        self._loop.add_reader(self._socket, self._readable)

    @property
    def busy(self) -> bool:
        """Whether the server may still be at something."""
        return self._replies is not None

    async def ask(self, *statements: str, most: AnswerSize = UNLIMITED) -> list[ServerReply]:
        """The reply to each statement, in order; errors of the server are in them. Raises ConnectionBroken, and
        UpstreamError ``too_large`` if they are together more than `most`; the connection is broken then, too."""
        data = b"".join(command(COMMAND_QUERY, statement.encode()) for statement in statements)
        self._most, self._read_bytes = most, 0
        try:
            return await self._exchange(data, Replies(len(statements)))
        finally:
            self._most = UNLIMITED

    async def query(self, statement: str) -> ServerReply:
        """The reply to one statement. Raises ServerError, ConnectionBroken."""
        (reply,) = await self.ask(statement)
        if reply.error is not None:
            raise reply.error
        return reply

    async def query_all(self, statements: Sequence[str]) -> list[ServerReply]:
        """The replies to several statements. Raises ServerError for the first that fails, ConnectionBroken."""
        replies = await self.ask(*statements)
        for reply in replies:
            if reply.error is not None:
                raise reply.error
        return replies

    async def stream(self, statement: str, rows: int) -> AsyncGenerator[ServerReply]:
        """The rows of one statement as they come, `rows` or some more at a time; what is not taken stays with the
        server. Raises ServerError, ConnectionBroken; left before its end, the connection is busy."""
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
        """Reads what is left of a stream, and forgets it. Raises ConnectionBroken."""
        while (replies := self._replies) is not None:
            replies.take_rows()
            if self._is_held:
                self._go_on()
            await self._until_told()

    def _go_on(self) -> None:
        """What was read has been taken."""
        if self.broken:
            raise self._problem
        self._is_held = False
        self._loop.add_reader(self._socket, self._readable)
        # TLS may hold what the socket does not tell of.
        self._readable()

    async def prepare(self, statement: str) -> ServerReply:
        """What the server says of a statement without running it: parameters and columns. Raises as `query`."""
        (reply,) = await self._exchange(command(COMMAND_PREPARE, statement.encode()), Replies(1, prepared=True))
        if reply.error is not None:
            raise reply.error
        # Nothing is answered to this.
        await self._exchange(command(COMMAND_CLOSE, reply.statement.to_bytes(4, "little")), Replies(0))
        return reply

    def close(self) -> None:
        """Close the socket. The server is not told: it notices."""
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
        """Until all is there, or as much as is to be taken at once. TimeoutError after `limit_s`."""
        if self._replies is None or self._is_held:
            return
        if self.broken:
            raise self._problem
        self._waiting = self._loop.create_future()
        try:
            # Cancelled here, the replies go on to be awaited: `busy` stays.
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
                # TLS may hold more than the socket tells of.
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
            # The server notices that nobody reads on.
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
