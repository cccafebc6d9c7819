"""Events of the connectors of MariaDB and MySQL, which read the binary log."""

import re
from typing import Any

from cdc.debezium.events import RowEvent
from cdc.debezium.mysql_values import converter
from cdc.debezium.source_database import SourceDatabase
from cdc.mysql.position import position_of

_FILE_AND_OFFSET = re.compile(r"file=(.+),pos=(\d+)")


def _place(source: dict[str, Any], transaction: dict[str, Any] | None) -> tuple[str, str | None, int]:
    named = None if transaction is None else transaction["id"]
    return f"{source['db']}.{source['table']}", named, position_of(source["file"], source["pos"])


def _transaction(text: str) -> tuple[str, int]:
    found = _FILE_AND_OFFSET.fullmatch(text)
    return text, 0 if found is None else position_of(found[1], int(found[2]))


def _identity(event: RowEvent) -> int:
    """Return the event's position and the row's number within the log's event.

    ``total_order`` restarts with the connector. A changed key is a delete and an insert of one row, in this order.
    """
    row: int = event.source.get("row") or 0
    return (event.position << 32 | row) << 1 | (event.op == "c")


MYSQL = SourceDatabase(
    connectors=frozenset({"mysql", "mariadb"}),
    place=_place,
    transaction=_transaction,
    identity=_identity,
    transactional_truncate=False,
    ends_at_commit=False,
    overlapping=False,
    restarts_counts=True,
    needs_watermark=True,
    converter=converter,
    null_ambiguity=lambda _kind, _field, _modes: None,
    incomplete_rows=False,
    lost_identity="the server logs partial row images. Run: SET GLOBAL binlog_row_image = 'FULL'; and reconnect",
)
