"""Conversion of table names between layouts, events and topics.

Not here: quoting (`cdc.postgres.names`, `cdc.mysql.names`).
"""

import re

_QUOTED = re.compile(r'"(?:[^"]|"")*"|`(?:[^`]|``)*`|[^."`]+')
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")


def collection_of(table: str) -> str:
    """Return the name in END events: ``shop.Items`` for ``shop."Items"`` or ``shop.`Items```."""
    return ".".join(_unquoted(part) for part in _QUOTED.findall(table))


def topic_of(prefix: str, collection: str) -> str:
    """Return the topic of a table's events."""
    return _ILLEGAL.sub("_", f"{prefix}.{collection}")


def _unquoted(part: str) -> str:
    quote = part[0]
    if quote in '"`':
        return part[1:-1].replace(quote * 2, quote)
    return part
