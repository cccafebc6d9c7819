"""Quoting of texts in statements, and parsing of qualified names.

Not here: values of views' parameters (`dataflow.sql.mysql.parameter_values`).
"""

import re
from collections.abc import Iterable

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def quoted(text: str) -> str:
    """Returns a text as a literal, for sessions in which a backslash is an escape."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"


def unqualified(name: str) -> tuple[str, str]:
    """Returns database and table of a name written by `cdc.mysql.names.qualified_name`."""
    first, second = (quoted_part.replace("``", "`") or plain for quoted_part, plain in _PART.findall(name))
    return first, second


def named(names: Iterable[tuple[str, str]], schema: str = "table_schema") -> str:
    """Returns a condition for queries of ``information_schema`` that selects these tables.

    The server uses its first two parts to find databases and tables before it opens any.
    """
    wanted = sorted(set(names))
    databases = ", ".join(quoted(database) for database in sorted({database for database, _ in wanted})) or "NULL"
    tables = ", ".join(quoted(table) for table in sorted({table for _, table in wanted})) or "NULL"
    among = f"({schema}, table_name) IN ({listed_names(wanted)})"
    return f"{schema} IN ({databases}) AND table_name IN ({tables}) AND {among}"


def listed_names(names: Iterable[tuple[str, str]]) -> str:
    """Returns ``('shop','orders'),…`` for ``(table_schema, table_name) IN (…)``; without names, a list that matches
    nothing."""
    return ", ".join(f"({quoted(schema)}, {quoted(table)})" for schema, table in names) or "(NULL, NULL)"
