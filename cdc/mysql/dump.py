"""A connection on which the server sends its binary log.

The library (mysql-replication) opens the connection and requests the log: authentication, checksums, MariaDB's
capabilities, the request itself. Its socket is then read directly, without a thread, and packets are passed to the
assembler inside the receive buffer. (The library's objects for packets, events and rows are several times slower:
``load/micro/binlog_decoder.py``.)

*Invariants*: `receive` never blocks; after an error or the end a dump is unusable.

Not here: events (`assembler`), reconnecting (`stream`).
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

#: Interval of the server's heartbeats on an idle log.
HEARTBEAT_S = 1
#: ``net_write_timeout``: the process does not read while one step fills a view of millions of rows.
PATIENCE_S = 600
RECEIVE_BYTES = 1 << 18
#: A packet of this size is continued in the next one.
_LARGEST = 0xFFFFFF
_U32 = Struct("<I").unpack_from
_EVENT, _ERROR, _END = 0x00, 0xFF, 0xFE


class DumpEnded(Exception):
    """The server has ended the log."""


class Dump:
    """One connection that receives the log.

    *State*: `_buffer` from `_at` on, received and not consumed; `_parts`, pieces of a packet above 16 MB.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._socket: socket.socket = connection._sock
        self._socket.setblocking(False)
        self._buffer = _read_ahead(connection)
        self._at = 0
        self._parts: list[bytes] = []

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def receive(self) -> bool:
        """Receive available data; return False if there is none. Raises OSError, DumpEnded."""
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
        """Yield complete events: a buffer, and the event's start and end in it. Raises the server's error.

        An event is consumed when it is yielded: a later call continues with the next one.
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
        self._connection._force_close()


def open_dump(options: Mapping[str, Any], timeout_s: float, file: str, offset: int) -> Dump:
    """Request the log from a position on. Blocks; raises pymysql's errors and OSError."""
    opened: list[Any] = []

    def connect(db: str | None = None, **settings: Any) -> Any:
        if db is not None:
            settings["database"] = db  # The current name of PyMySQL's parameter.
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
        # The server ends the older of two connections with the same number.
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
        reader.fetchone()  # Connects, requests, and returns the first event, a ROTATE.
        stream = opened[0]
        for other in opened[1:]:  # The library's second connection, for column names.
            other._force_close()
        return Dump(stream)
    except BaseException:
        for connection in opened:
            connection._force_close()
        raise


def _read_ahead(connection: Any) -> bytes:
    """Return data that the library's buffer has already read from the socket."""
    try:
        return bytes(connection._rfile.peek())
    except (BlockingIOError, ssl.SSLWantReadError):
        return b""
