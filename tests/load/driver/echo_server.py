"""A server that answers over HTTP as a path asks it to, in a thread: the side of the driver's tests."""

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from load.sides.side import Side

REQUEST_HEAD = re.compile(rb"(GET|POST) (\S+) HTTP/1.1\r\n(.*?)\r\n\r\n", re.DOTALL)
LENGTH = re.compile(rb"content-length: (\d+)")


class Echo(asyncio.Protocol):
    """Views: ``hit``, ``miss``, ``slow`` (20 ms), ``refused`` (503), ``gone`` (closes), ``silent``, ``chunked``,
    ``last`` (closes after its answer)."""

    def __init__(self, requests: list[str]) -> None:
        self._requests = requests
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = REQUEST_HEAD.match(self._received)
        if head is None:
            return
        length = int(found[1]) if (found := LENGTH.search(head[3])) else 0
        if len(self._received) < head.end() + length:
            return
        body = self._received[head.end() : head.end() + length]
        self._received = self._received[head.end() + length :]
        target = head[2].decode()
        self._requests.append(f"{target} {body.decode()}".strip())
        self._answer(target.partition("?")[0].rpartition("/")[2], body)

    def _answer(self, view: str, body: bytes) -> None:
        answer = body or b'{"rows": []}'
        match view:
            case "slow":
                asyncio.get_running_loop().call_later(0.02, self._send, b"200 OK", answer)
            case "refused":
                self._send(b"503 Unavailable", b"busy")
            case "gone":
                self.transport.close()
            case "silent":
                pass
            case "chunked":
                head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
                self.transport.write(head + b"3\r\nabc\r\n")
                asyncio.get_running_loop().call_soon(self.transport.write, b"2\r\nde\r\n0\r\n\r\n")
            case "last":
                self._send(b"200 OK", answer, b"connection: close\r\n")
                self.transport.close()
            case "miss":
                self._send(b"200 OK", answer, b"Cache-Status: echo; fwd=miss\r\n")
            case _:
                self._send(b"200 OK", answer, b"Cache-Status: echo; hit\r\n")

    def _send(self, status: bytes, body: bytes, headers: bytes = b"") -> None:
        self.transport.write(b"HTTP/1.1 %s\r\n%scontent-length: %d\r\n\r\n%s" % (status, headers, len(body), body))


@contextmanager
def running_echo() -> Iterator[tuple[Side, list[str]]]:
    """The side, and the requests that it had so far: target and body."""
    requests: list[str] = []
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(lambda: Echo(requests), "127.0.0.1", 0))
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield Side("echo", url, url, list, lambda: 7 << 20, lambda: 3 << 20), requests
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
