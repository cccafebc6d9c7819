"""Place of a MariaDB snapshot in the binary log: between two places, which are equal while nothing is written.

*Theory*: the status variables ``binlog_snapshot_file`` and ``_position`` should be exact (MariaDB Knowledge Base,
"START TRANSACTION", "Enhancements for START TRANSACTION WITH CONSISTENT SNAPSHOT"), and are if no other session reads
the status. But ``SHOW STATUS`` copies them to memory shared by all connections and reads them from there (``sql/log.cc:
TC_LOG_BINLOG::set_status_variables``), so a session may get another session's place. With 6 connections at once, 6 of
4005 snapshots had transactions missing (`README.md`).

Any reported place *is visible*: everything before it has committed. Therefore it is read before the snapshot, as a
lower bound of what this one sees, and the end of the log after it, as the upper bound. A place stays visible, so while
the log does not grow, or for a short time if it does, it is not read again: that saves two thirds of the server's work
for a lookup.

*Invariants*: a known place has committed, and every snapshot taken later sees it; a place read after a snapshot was
requested says nothing about that snapshot.

Not here: lookups (`lookups`), MySQL, which has no such variables (`bracketed_snapshot`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from cdc.mysql.position import BinlogSnapshot, position_of
from service.engine.databases.mysql.connect import Flavour
from service.engine.databases.mysql.wire import ServerReply, Wire
from service.engine.upstream.results import UpstreamError

BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
END = "COMMIT"
VISIBLE = "SHOW STATUS LIKE 'binlog_snapshot_%'"
_LOG_END = "SHOW MASTER STATUS"
#: Maximum age of the visible place while the log grows: everything written since is uncertain.
FRESH_S = 0.002


class VisiblePlace:
    """Highest place known to be visible.

    *State*: `_reported_s`, when it was reported; `_quiet`, True if it was the end of the log at the last check.
    """

    def __init__(self) -> None:
        self._place = -1
        self._reported_s = 0.0
        self._quiet = False

    def question(self) -> "PlaceQuestion":
        """Returns the queries for the next snapshot."""
        fresh = monotonic() - self._reported_s <= FRESH_S
        return PlaceQuestion(self, self._place, fresh, not fresh and not self._quiet)

    def record(self, place: int) -> None:
        """Records a visible place."""
        self._place = max(self._place, place)
        self._reported_s = monotonic()

    def record_end(self, quiet: bool) -> None:
        """Records whether the log's end equalled the place seen by a snapshot."""
        self._quiet = quiet

    def forget(self) -> None:
        """Discards the place: the server has another log."""
        self._place, self._reported_s, self._quiet = -1, 0.0, False


@dataclass(frozen=True, slots=True)
class PlaceQuestion:
    """Queries around one snapshot. `place` was visible before it; `fresh` if that was recently reported; otherwise
    `ask` for it first.
    """

    visible: VisiblePlace
    place: int
    fresh: bool
    ask: bool

    def statements(self, statements: Sequence[str]) -> list[str]:
        """Returns a transaction with these statements, and the query for the log's end after them."""
        return [*([VISIBLE] if self.ask else []), BEGIN, _LOG_END, *statements, _LOG_END, END]

    def answer(self, replies: list[ServerReply]) -> tuple[list[ServerReply], BinlogSnapshot | None, int]:
        """Returns the replies to the inner statements, their snapshot, and the log's end after them. Without a
        snapshot, the known place is too old: ask again.

        Raises ServerError, UpstreamError.
        """
        for reply in replies:
            if reply.error is not None:
                raise reply.error
        place = self.place
        if self.ask:
            reported = visible_place(replies[0])
            self.visible.record(reported)
            place = max(place, reported)
            replies = replies[1:]
        _, log_end, *found, bound, _ = replies
        end = end_place(log_end)
        if place > end:  # Of another server; or two connections' places in one.
            self.visible.forget()
            return found, None, end
        self.visible.record_end(place == end)
        known = place >= 0 and (self.ask or self.fresh or place == end)
        return found, BinlogSnapshot(end, place) if known else None, end_place(bound)


def visible_place(reply: ServerReply) -> int:
    """Returns the visible place from the server's reply. Raises UpstreamError."""
    values = {str(name).lower(): str(value) for name, value in reply.rows}
    file = values.get("binlog_snapshot_file", "")
    if not file:
        raise _no_log()
    return position_of(file, int(values["binlog_snapshot_position"]))


def end_place(reply: ServerReply) -> int:
    """Returns the end of the log from the server's reply. Raises UpstreamError."""
    if not reply.rows:
        raise _no_log()
    return position_of(str(reply.rows[0][0]), int(str(reply.rows[0][1])))


async def log_end(wire: Wire, flavour: Flavour) -> int:
    """Reads the end of the log. Raises ServerError, ConnectionBroken."""
    return end_place(await wire.query(flavour.log_end))


def _no_log() -> UpstreamError:
    return UpstreamError(
        "failed", "The server writes no binary log: its snapshots have no place in it.", "Start it with log_bin."
    )
