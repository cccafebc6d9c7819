"""Reads the demo's views over HTTP, as any client of the service does."""

from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import httpx

JsonRow = dict[str, Any]


class ReadError(Exception):
    """The service did not answer with rows; the message says what it said instead."""


@dataclass(frozen=True, slots=True)
class DemoAnswer:
    """Answer of the service."""

    rows: list[JsonRow]
    version: str
    #: ``Cache-Status``: answered from memory, or by asking the database.
    hit: bool
    #: How far the answer may be behind the database, by the service's own account; None if it gave none.
    age_ms: float | None
    elapsed_ms: float


@dataclass(frozen=True, slots=True)
class Totals:
    """Answers to all readers since the start, as the service counts them."""

    hits: int
    misses: int
    #: How far the service may be behind the database.
    age_ms: float


class Client:
    """Connections to one service: its views and its admin port."""

    def __init__(self, url: str, admin_url: str, headers: dict[str, str] | None = None) -> None:
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=30.0)
        self._admin_url = admin_url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def read(self, view: str, parameters: dict[str, str], at_least: str | None = None) -> DemoAnswer:
        """The rows of a view, at the version `at_least` or a newer one. Raises `ReadError`."""
        headers = {"Upquery-Min-Version": at_least, "Prefer": "wait=10"} if at_least else {}
        started = perf_counter()
        try:
            reply = await self._http.get(f"/v1/views/{view}", params=parameters, headers=headers)
        except httpx.HTTPError as error:
            raise ReadError(f"{view}: {error or type(error).__name__}") from error
        elapsed_ms = (perf_counter() - started) * 1000
        if reply.status_code != httpx.codes.OK:
            raise ReadError(f"{view}{parameters}: {reply.status_code} {reply.text}")
        body = reply.json()
        age = reply.headers.get("upquery-age-ms")
        return DemoAnswer(
            rows=body["rows"],
            version=body["version"],
            hit="; hit" in reply.headers.get("cache-status", ""),
            age_ms=None if age is None else float(age),
            elapsed_ms=elapsed_ms,
        )

    async def totals(self) -> Totals | None:
        """Return the totals so far; None while the service does not answer."""
        try:
            reply = await self._http.get(f"{self._admin_url}/v1/stats", timeout=2.0)
            stats = reply.raise_for_status().json()
        except httpx.HTTPError:
            return None
        views = stats["views"].values()
        return Totals(sum(view["hits"] for view in views), sum(view["misses"] for view in views), stats["age_ms"])
