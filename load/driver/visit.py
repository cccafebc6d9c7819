"""A visitor's page as a generator that yields requests and is sent their replies. No I/O here.

Every side speaks the same HTTP: reads as `docs` of the service have them, writes as ``POST /writes/{name}`` of the
application in front of the database. So one page is loaded from all sides alike.
"""

from collections.abc import Generator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

import orjson

#: Which of a side's two servers is meant.
READS, WRITES = 0, 1


class HttpCall(NamedTuple):
    """One HTTP/1.1 request, ready to send."""

    server: int
    request: bytes


class HttpReply(NamedTuple):
    """A reply. `hit` is its ``Cache-Status``; None without that header."""

    status: int
    body: bytes
    hit: bool | None


#: Yields calls to make at once, is sent their replies in the same order. Returning ends the visit.
Visit = Generator[Sequence[HttpCall], Sequence[HttpReply], None]


class VisitSource(Protocol):
    """Visitors of a site. Made in each generator process from a `Spec`."""

    def visit(self, random: Random) -> tuple[str, Visit]:
        """The next visit: the page's name, by which latencies are grouped, and what it does."""
        ...


class Spec(Protocol):
    def start(self, process: int, processes: int) -> VisitSource:
        """The workload in one of several generator processes."""
        ...


def get(view: str, parameters: Mapping[str, Any]) -> HttpCall:
    """Reads one key of a view."""
    query = urlencode({name: str(value) for name, value in parameters.items()})
    return HttpCall(READS, f"GET /v1/views/{quote(view)}?{query} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())


def read_many(reads: Sequence[tuple[str, Mapping[str, Any]]], newer_than: str | None = None) -> HttpCall:
    """Reads several views in one request, all as new as a token if one is given."""
    body = orjson.dumps({"reads": [{"view": view, "params": parameters} for view, parameters in reads]})
    return _post(READS, "/v1/read", body, newer_than)


def checkpoint() -> HttpCall:
    """Asks for the database's version now. Its reply is ``{"version": token}``."""
    return _post(READS, "/v1/checkpoint", b"", None)


def read_keys(view: str, keys: Sequence[Mapping[str, Any]]) -> HttpCall:
    """Reads several keys of one view in one request."""
    return _post(READS, f"/v1/views/{quote(view)}/query", orjson.dumps({"keys": keys}), None)


def write(name: str, parameters: Mapping[str, Any]) -> HttpCall:
    """Has the application write. Its reply is ``{"version": token}``: a read as new as that shows it."""
    return _post(WRITES, f"/writes/{quote(name)}", orjson.dumps(parameters), None)


def _post(server: int, target: str, body: bytes, newer_than: str | None) -> HttpCall:
    newer = "" if newer_than is None else f"upquery-min-version: {newer_than}\r\nprefer: wait=5\r\n"
    head = (
        f"POST {target} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{newer}"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return HttpCall(server, head.encode() + body)
