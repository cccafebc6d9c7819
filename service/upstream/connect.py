"""Connections to the upstream: a bounded pool, pinned session settings, classified errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg import AsyncConnection


class UpstreamError(Exception):
    """The upstream could not do what was asked. Holds no credentials; `detail` is for logs and the user alike.

    `code`: ``unavailable`` (no connection), ``credentials``, ``denied`` (rights), ``timeout``, ``missing`` (table,
    column, database …), ``invalid`` (a value or statement it does not take), ``overloaded`` (no connection free in
    time), ``failed``.
    """

    def __init__(self, code: str, detail: str, hint: str | None = None, retryable: bool = False) -> None:
        super().__init__(detail if hint is None else f"{detail} {hint}")
        self.code = code
        self.detail = detail
        self.hint = hint
        self.retryable = retryable


class UpstreamPool:
    """At most `size` connections, made when needed, thrown away when broken."""

    def __init__(
        self, conninfo: str, size: int = 8, statement_timeout_s: float = 30.0, connect_timeout_s: float = 10.0
    ) -> None: ...

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """A connection in autocommit mode, back in the pool afterwards. psycopg's errors become `UpstreamError`."""
        raise NotImplementedError
        yield

    async def close(self) -> None:
        """Close all connections; those in use when they come back."""
        raise NotImplementedError
