"""A connection that the server sends its binary log on, from a place in it.

The library (mysql-replication) makes the connection and asks for the log: authentication, checksums, what MariaDB wants
to be told, the request itself. Then its socket is read directly, without a thread: packets go to the assembler as they
lie in the buffer. (Through the library's objects for packets, events and rows, the same costs many times as much: see
``load/micro/binlog_decoder.py``.)

*Invariants*: `receive` never waits; after an error or the end a dump is of no use.

Not here: what events mean (`assembler`), beginning anew (`stream`).
"""

import logging
import secrets
import socket
import ssl
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any

import pymysql
from pymysqlreplication import BinLogStreamReader  # type: ignore[import-untyped]
from pymysqlreplication.event import RotateEvent  # type: ignore[import-untyped]

from cdc.mysql.connection import open_connection

#: How often the server says where it is when there is nothing to send.
HEARTBEAT_S = 1
#: How long the server waits for us to read: nobody does while one step fills a view of millions of rows.
PATIENCE_S = 600
RECEIVE_BYTES = 1 << 18
#: A packet of this size goes on in the next one.
_LARGEST = 0xFFFFFF
_U32 = Struct("<I").unpack_from
_EVENT, _ERROR, _END = 0x00, 0xFF, 0xFE


class DumpEnded(Exception):
    """The server sends no more."""


class Dump:
    """One connection, in the middle of the log.

    *State*: `_buffer` from `_at` on is what came and was not taken; `_parts`, pieces of a packet above 16 MB.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._socket: socket.socket = connection._sock
        self._socket.setblocking(False)
        self._buffer = _read_ahead(connection)
        self._at = 0
        self._parts: list[bytes] = []

    def fileno(self) -> int:
        """To wait for."""
        return self._socket.fileno()

    def receive(self) -> bool:
        """Take what has arrived; False if nothing has. Raises OSError, DumpEnded."""
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        if not data:
            raise DumpEnded("the server closed it")
        self._buffer = self._buffer[self._at :] + data if self._at < len(self._buffer) else data
        self._at = 0
        return True

    def events(self) -> Iterator[tuple[bytes, int, int]]:
        """Whole events that have arrived: bytes, and where in them it begins and ends. Raises the server's error.

        What was taken is gone: whoever stops in between goes on with the next event.
        """
        buffer, at = self._buffer, self._at
        available = len(buffer)
        while available - at >= 4:
            size = _U32(buffer, at)[0] & _LARGEST
            start, end = at + 4, at + 4 + size
            if end > available:
                return
            self._at = at = end
            if size == _LARGEST or self._parts:
                self._parts.append(buffer[start:end])
                if size == _LARGEST:
                    continue
                packet = b"".join(self._parts)
                self._parts = []
                yield self._checked(packet, 0, len(packet))
            else:
                yield self._checked(buffer, start, end)

    @staticmethod
    def _checked(data: bytes, start: int, end: int) -> tuple[bytes, int, int]:
        if data[start] == _EVENT:
            return data, start + 1, end
        if data[start] == _ERROR:
            pymysql.err.raise_mysql_exception(data[start:end])
        raise DumpEnded("the server ended the log")

    def close(self) -> None:
        """Let go of the connection."""
        self._connection._force_close()


def open_dump(options: Mapping[str, Any], timeout_s: float, file: str, offset: int) -> Dump:
    """Ask for the log from there. Blocks; raises pymysql's errors and OSError."""
    opened: list[Any] = []

    def connect(db: str | None = None, **settings: Any) -> Any:
        if db is not None:
            settings["database"] = db  # As PyMySQL calls it by now.
        opened.append(open_connection(**settings))
        return opened[-1]

    settings = {
        "connect_timeout": max(1, round(timeout_s)),
        **options,
        "charset": "utf8mb4",
        "init_command": f"SET SESSION net_write_timeout = {PATIENCE_S}",
    }
    logging.getLogger("pymysqlreplication").setLevel(logging.ERROR)
    reader = BinLogStreamReader(
        settings,
        # Two with the same number throw each other out.
        server_id=1 + secrets.randbelow((1 << 32) - 1),
        log_file=file,
        log_pos=offset,
        resume_stream=True,
        blocking=True,
        only_events=[RotateEvent],
        slave_heartbeat=HEARTBEAT_S,
        pymysql_wrapper=connect,
        enable_logging=False,
    )
    try:
        reader.fetchone()  # Connects, asks, and returns the first event: which file it is.
        stream = opened[0]
        for other in opened[1:]:  # The library's second one, for the names of columns.
            other._force_close()
        return Dump(stream)
    except BaseException:
        for connection in opened:
            connection._force_close()
        raise


def _read_ahead(connection: Any) -> bytes:
    """What the library's buffer has taken from the socket already."""
    try:
        return bytes(connection._rfile.peek())
    except (BlockingIOError, ssl.SSLWantReadError):
        return b""
