"""PostgreSQL's values in the JSON forms of our contract, so that all sides answer alike: psycopg's loaders for orjson.

*Not here*: intervals, bytea and infinite dates, which no workload reads; they come as PostgreSQL prints them.
"""

from typing import Any

import orjson
from psycopg import AsyncConnection
from psycopg.adapt import Buffer, Loader
from psycopg.types.string import TextLoader

#: Strings of exactly PostgreSQL's text.
_VERBATIM = ("numeric", "date", "time", "uuid", "interval", "bytea", "timetz")


class _TimestampLoader(Loader):
    """RFC 3339 without a zone."""

    def load(self, data: Buffer) -> str:
        return bytes(data).replace(b" ", b"T", 1).decode()


class _TimestamptzLoader(Loader):
    """RFC 3339; the session's zone is UTC."""

    def load(self, data: Buffer) -> str:
        return bytes(data).replace(b" ", b"T", 1).replace(b"+00", b"Z").decode()


class _JsonLoader(Loader):
    def load(self, data: Buffer) -> Any:
        return orjson.Fragment(bytes(data))


def register(connection: AsyncConnection[Any]) -> None:
    """Have a connection load values so."""
    for name in _VERBATIM:
        connection.adapters.register_loader(name, TextLoader)
    connection.adapters.register_loader("timestamp", _TimestampLoader)
    connection.adapters.register_loader("timestamptz", _TimestamptzLoader)
    connection.adapters.register_loader("json", _JsonLoader)
    connection.adapters.register_loader("jsonb", _JsonLoader)
