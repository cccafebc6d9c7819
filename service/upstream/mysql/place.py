"""Where a consistent snapshot is in the binary log.

*Theory*: ``binlog_snapshot_file`` and ``_position`` are how far the log was when the snapshot was taken, with no commit
in between (MariaDB Knowledge Base, "START TRANSACTION", "Enhancements for START TRANSACTION WITH CONSISTENT SNAPSHOT").
So a snapshot is a prefix of the log, and its place a version.

Not here: what is read at it (`lookups`).
"""

from cdc.mysql.position import BinlogSnapshot, position_of
from service.upstream.mysql.wire import Reply, Wire
from service.upstream.words import UpstreamError

BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
PLACE = "SHOW STATUS LIKE 'binlog_snapshot_%'"
END = "COMMIT"
END_OF_LOG = "SHOW MASTER STATUS"


async def place(wire: Wire) -> BinlogSnapshot:
    """A snapshot of now, which nothing is read at. Raises ServerError, ConnectionBroken, UpstreamError."""
    _, found, _ = await wire.query_all([BEGIN, PLACE, END])
    return snapshot_of(found)


def snapshot_of(found: Reply) -> BinlogSnapshot:
    """The snapshot whose transaction answered so to `PLACE`. Raises UpstreamError."""
    values = {str(name).lower(): str(value) for name, value in found.rows}
    file = values.get("binlog_snapshot_file", "")
    if not file:
        raise UpstreamError(
            "failed", "The server writes no binary log: its snapshots have no place in it.", "Start it with log_bin."
        )
    return BinlogSnapshot(position_of(file, int(values["binlog_snapshot_position"])))
