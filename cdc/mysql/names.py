"""How tables of MariaDB and MySQL are named here: ``database.table``, a part quoted by backticks unless it is plain.

*Invariant*: one spelling per table; names are as the server stores them, never folded.

Not here: how names in a statement are looked up (`dataflow.sql`).
"""

import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*\Z", re.ASCII)


def quote_name(name: str) -> str:
    """One identifier, quoted if it has to be in order to be read back. (Reserved words are plain behind a dot.)"""
    return name if _PLAIN.match(name) else f"`{name.replace('`', '``')}`"


def qualified_name(database: str, table: str) -> str:
    """A table's name: ``shop.orders``, ``shop.`my orders` ``."""
    return f"{quote_name(database)}.{quote_name(table)}"
