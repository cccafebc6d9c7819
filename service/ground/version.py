"""Versions as clients see them: ``pg:0/16B3748`` is a position in PostgreSQL's stream, ``mysql:12:345`` one in file
12 of a binary log (of MariaDB or MySQL).

A request's minimum version may also be transactions, by global ids: MariaDB's ``0-1-42``, MySQL's ``uuid:7``.
"""

from functools import lru_cache
from typing import TypeAlias

from cdc.gtid import Gtids, looks_like_gtids, parse_gtids
from cdc.mysql.position import KIND, format_position, parse_position
from cdc.postgres.position import format_lsn, parse_lsn
from dataflow.types import Position
from service.ground.errors import ApiError

_POSTGRES, _BINLOG = "pg:", "mysql:"
#: Minimum version of a request.
Minimum: TypeAlias = Position | Gtids


@lru_cache(maxsize=16)
def version_text(position: Position) -> str:
    """Return the version of answers that are exact at `position`."""
    return _BINLOG + format_position(position) if position & KIND else _POSTGRES + format_lsn(position)


def parse_version(text: str) -> Position:
    """Parse a version, the result of ``pg_current_wal_insert_lsn()``, or a place in a binary log.

    Raises ApiError(bad_request).
    """
    try:
        if "/" in text:
            return parse_lsn(text.removeprefix(_POSTGRES))
        return parse_position(text.removeprefix(_BINLOG))
    except ValueError:
        raise ApiError(
            "bad_request",
            f"Upquery-Min-Version is not a version: {text[:80]!r}.",
            "Send the version of an earlier answer; or, after a commit, the result of pg_current_wal_insert_lsn() "
            "(PostgreSQL), @@last_gtid (MariaDB), a GTID (MySQL), or SHOW MASTER STATUS, as in binlog.000012:345.",
        ) from None


def parse_minimum(text: str) -> Minimum:
    """Parse ``Upquery-Min-Version``: as `parse_version`, or one or many global ids. Raises ApiError(bad_request)."""
    if not looks_like_gtids(text):
        return parse_version(text)
    try:
        return parse_gtids(text)
    except ValueError:
        raise ApiError(
            "bad_request",
            f"Upquery-Min-Version has no global transaction ids: {text[:80]!r}.",
            "They are what SELECT @@last_gtid printed, as 0-1-42, or @@gtid_binlog_pos (MariaDB); "
            "or one of MySQL's with its number, or a set of them, as uuid:1-7.",
        ) from None


def refuse_foreign(asked: Minimum, applied: Position) -> None:
    """Refuse a minimum of another kind of database, which would never be reached. Raises ApiError(bad_request)."""
    if not isinstance(asked, Position):
        if applied and not applied & KIND:
            raise ApiError(
                "bad_request",
                "Upquery-Min-Version has global transaction ids of MariaDB or MySQL; the database is PostgreSQL.",
                "Send what SELECT pg_current_wal_insert_lsn() printed after the commit.",
            )
    elif applied and (asked ^ applied) & KIND:
        raise ApiError(
            "bad_request",
            f"Upquery-Min-Version {version_text(asked)} is of another kind of database than {version_text(applied)}.",
        )
