"""Versions as clients see them: ``pg:0/16B3748`` is a position in PostgreSQL's stream."""

from functools import lru_cache

from cdc.position import format_lsn, parse_lsn
from dataflow.types import Position
from service.errors import ApiError

_PREFIX = "pg:"


@lru_cache(maxsize=16)
def version_text(position: Position) -> str:
    """The version of answers that are exact at `position`."""
    return _PREFIX + format_lsn(position)


def parse_version(text: str) -> Position:
    """The position of a version of ours, or of a ``pg_current_wal_insert_lsn()``. ApiError ``bad_request``."""
    try:
        return parse_lsn(text.removeprefix(_PREFIX))
    except ValueError:
        raise ApiError(
            "bad_request",
            f"Upquery-Min-Version is not a version: {text[:80]!r}.",
            "Send the version of an earlier answer, or what SELECT pg_current_wal_insert_lsn() printed.",
        ) from None
