"""Versions as clients see them: ``pg:0/16B3748`` is a position in PostgreSQL's stream, ``mysql:12:345`` one in file 12
of a binary log (of MariaDB or MySQL)."""

from functools import lru_cache

from cdc.mysql.position import KIND, format_position, parse_position
from cdc.position import format_lsn, parse_lsn
from dataflow.types import Position
from service.errors import ApiError

_POSTGRES, _BINLOG = "pg:", "mysql:"


@lru_cache(maxsize=16)
def version_text(position: Position) -> str:
    """The version of answers that are exact at `position`."""
    return _BINLOG + format_position(position) if position & KIND else _POSTGRES + format_lsn(position)


def parse_version(text: str) -> Position:
    """The position of a version of ours, of a ``pg_current_wal_insert_lsn()``, or of a place in a binary log.

    ApiError ``bad_request``.
    """
    try:
        if "/" in text:
            return parse_lsn(text.removeprefix(_POSTGRES))
        return parse_position(text.removeprefix(_BINLOG))
    except ValueError:
        raise ApiError(
            "bad_request",
            f"Upquery-Min-Version is not a version: {text[:80]!r}.",
            "Send the version of an earlier answer; or, after a commit, what SELECT pg_current_wal_insert_lsn() "
            "printed (PostgreSQL), or SHOW MASTER STATUS, as in binlog.000012:345 (MariaDB, MySQL).",
        ) from None


def refuse_foreign(asked: Position, applied: Position) -> None:
    """A version of another kind of database never comes. ApiError ``bad_request``."""
    if applied and (asked ^ applied) & KIND:
        raise ApiError(
            "bad_request",
            f"Upquery-Min-Version {version_text(asked)} is of another kind of database than {version_text(applied)}.",
        )
