"""Redis and memcached for a side: in memory only, on loopback."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from load.programs import MEMCACHED, REDIS, require
from load.sides.child import free_port, running, wait_until

_START_S = 30.0
_REPLY_BYTES = 1 << 16
_HOST = "127.0.0.1"
#: memcached's limits: bytes of a value, and of all if nothing else is said (in MiB).
_LARGEST_ITEM = "16m"
_MEMCACHED_MIB = 1024


@dataclass(frozen=True, slots=True)
class CacheServer:
    """A running cache, spoken to in its own protocol."""

    pid: int
    port: int
    #: Commands, each with the end of its reply.
    stats: tuple[bytes, bytes]
    flush: tuple[bytes, bytes]
    #: What stands before the number of bytes in use, among the statistics.
    used: bytes

    @property
    def address(self) -> tuple[str, int]:
        return _HOST, self.port

    def state_bytes(self) -> int:
        """Memory that it says its entries and their bookkeeping take."""
        return int(self._ask(*self.stats).partition(self.used)[2].split(None, 1)[0])

    def clear(self) -> None:
        self._ask(*self.flush)

    def answers(self) -> bool:
        try:
            self._ask(*self.stats)
        except OSError:
            return False
        return True

    def _ask(self, command: bytes, end: bytes) -> bytes:
        reply = b""
        with socket.create_connection(self.address, timeout=_START_S) as connection:
            connection.sendall(command + b"\r\n")
            while not reply.endswith(end):
                if not (more := connection.recv(_REPLY_BYTES)):
                    raise ConnectionError("the cache closed the connection")
                reply += more
        return reply


@contextmanager
def running_redis(memory_mib: int | None = None) -> Iterator[CacheServer]:
    """A Redis; with a limit of memory it evicts by LRU. Raises `MissingProgramError`, `SideError`."""
    port = free_port()
    command = [require(REDIS), "--port", str(port), "--bind", _HOST, "--save", "", "--appendonly", "no"]
    if memory_mib is not None:
        command += ["--maxmemory", f"{memory_mib}mb", "--maxmemory-policy", "allkeys-lru"]
    with running(command, output=subprocess.DEVNULL) as process:
        server = CacheServer(
            process.pid, port, (b"INFO memory", b"\r\n\r\n"), (b"FLUSHALL", b"+OK\r\n"), b"used_memory:"
        )
        wait_until(server.answers, "Redis", process, _START_S)
        yield server


@contextmanager
def running_memcached(memory_mib: int | None = None) -> Iterator[CacheServer]:
    """Start a memcached. Raises `MissingProgramError`, `SideError`."""
    port = free_port()
    command = [require(MEMCACHED), "-l", _HOST, "-p", str(port), "-U", "0", "-u", "nobody", "-I", _LARGEST_ITEM]
    command += ["-m", str(memory_mib or _MEMCACHED_MIB)]
    with running(command, output=subprocess.DEVNULL) as process:
        server = CacheServer(process.pid, port, (b"stats", b"END\r\n"), (b"flush_all", b"OK\r\n"), b"STAT bytes ")
        wait_until(server.answers, "memcached", process, _START_S)
        yield server
