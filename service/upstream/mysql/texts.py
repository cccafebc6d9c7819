"""Texts inside of statements, and names taken apart.

Not here: values of views' parameters (`dataflow.sql.filling`).
"""

import re
from collections.abc import Iterable

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def quoted(text: str) -> str:
    """A text as a literal, of sessions that take a backslash for an escape."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"


def unqualified(name: str) -> tuple[str, str]:
    """Database and table of a name as `cdc.mysql.names.qualified_name` writes it."""
    first, second = (quoted_part.replace("``", "`") or plain for quoted_part, plain in _PART.findall(name))
    return first, second


def listed_names(names: Iterable[tuple[str, str]]) -> str:
    """``('shop','orders'),…`` for ``(table_schema, table_name) IN (…)``; of nothing a list that matches nothing."""
    return ", ".join(f"({quoted(schema)}, {quoted(table)})" for schema, table in names) or "(NULL, NULL)"
