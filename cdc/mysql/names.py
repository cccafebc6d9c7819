"""Qualified names of MariaDB's and MySQL's tables: ``database.table``, with backticks around parts that need them.

*Invariant*: a table has one spelling; names are as the server stores them, never folded.

Not here: resolving names in queries (`dataflow.sql`).
"""

import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*\Z", re.ASCII)


def quote_name(name: str) -> str:
    """Quote an identifier if necessary. (Reserved words need no quotes after a dot.)"""
    return name if _PLAIN.match(name) else f"`{name.replace('`', '``')}`"


def qualified_name(database: str, table: str) -> str:
    """Return a name such as ``shop.orders`` or ``shop.`my orders` ``."""
    return f"{quote_name(database)}.{quote_name(table)}"
