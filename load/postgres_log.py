"""Positions in PostgreSQL's write-ahead log, as ``0/16B3748``."""

from typing import Any

import psycopg


def log_end(connection: "psycopg.Connection[Any]") -> str:
    """Returns the end of the log: the version to wait for in order to read what is committed now."""
    row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return str(row[0])


def log_position(lsn: str) -> int:
    """Converts a position into bytes since the log's beginning; an answer's version begins with ``pg:``."""
    high, _, low = lsn.removeprefix("pg:").partition("/")
    return (int(high, 16) << 32) + int(low, 16)
