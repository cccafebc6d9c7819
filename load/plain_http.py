"""One persistent HTTP connection with little of its own cost, for measuring latencies."""

import json
from collections.abc import Mapping
from http.client import HTTPConnection
from time import perf_counter
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from load.sides.side import SideError


class PlainClient:
    """Reads, one after another, on one connection."""

    def __init__(self, base: str) -> None:
        parts = urlsplit(base)
        assert parts.hostname is not None
        self._connection = HTTPConnection(parts.hostname, parts.port, timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def read(self, target: str, headers: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """The rows of a view, by path and query. Raises `SideError`."""
        self._connection.request("GET", target, headers=headers or {})
        reply = self._connection.getresponse()
        body = reply.read()
        if reply.status != 200:
            raise SideError(f"{target}: {reply.status} {body.decode(errors='replace')}")
        rows: list[dict[str, Any]] = json.loads(body)["rows"]
        return rows

    def timed_read(self, target: str) -> tuple[float, bool]:
        """How many seconds a read took, and whether it was a hit."""
        started = perf_counter()
        self._connection.request("GET", target)
        reply = self._connection.getresponse()
        body = reply.read()
        elapsed = perf_counter() - started
        if reply.status != 200:
            raise SideError(f"{target}: {reply.status} {body.decode(errors='replace')}")
        return elapsed, "; hit" in (reply.headers["Cache-Status"] or "")
