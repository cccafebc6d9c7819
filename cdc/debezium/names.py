"""Names of tables: as layouts have them, as events have them, and as topics have them.

Not here: what is quoted in the first place (`cdc.postgres.names`, `cdc.mysql.names`).
"""

import re

_QUOTED = re.compile(r'"(?:[^"]|"")*"|`(?:[^`]|``)*`|[^."`]+')
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")


def collection_of(table: str) -> str:
    """``shop.Items`` for ``shop."Items"`` or ``shop.`Items```: how END events name the table."""
    return ".".join(_unquoted(part) for part in _QUOTED.findall(table))


def topic_of(prefix: str, collection: str) -> str:
    """The topic that Debezium writes the table's events to."""
    return _ILLEGAL.sub("_", f"{prefix}.{collection}")


def _unquoted(part: str) -> str:
    quote = part[0]
    if quote in '"`':
        return part[1:-1].replace(quote * 2, quote)
    return part
