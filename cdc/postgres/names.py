"""How a table's qualified name is written: the one spelling that the stream, the catalog and SQL agree on.

An identifier is quoted unless it is plain lower case. Keywords are not quoted: behind a schema, any word is a name.
"""

import re

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)


def quote_identifier(name: str) -> str:
    """The identifier as it is written in SQL behind a dot."""
    if _PLAIN.fullmatch(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def qualified_name(schema: str, table: str) -> str:
    """``public.stories``, ``public."Stories"``."""
    return f"{quote_identifier(schema)}.{quote_identifier(table)}"
