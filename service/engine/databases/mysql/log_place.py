"""Where a consistent snapshot is in the binary log: between two places, which are one while nothing is written.

*Theory*: the status variables ``binlog_snapshot_file`` and ``_position`` should say it exactly (MariaDB Knowledge Base,
"START TRANSACTION", "Enhancements for START TRANSACTION WITH CONSISTENT SNAPSHOT"), and do if nobody else asks for any
status. But ``SHOW STATUS`` copies them to where all connections have them, and then reads them from there
(``sql/log.cc: TC_LOG_BINLOG::set_status_variables``): of two that ask at once, one may be told the place of the other.
With 6 connections at once 6 of 4005 snapshots had transactions missing (`README.md`). Whichever it is told, that place
*is visible*: all before it has committed. So it is asked for before the snapshot is taken, as what this must see; and
the end of the log after it, as what it cannot see beyond. What was told once stays visible, so if the log has not grown
since, or not for long, it is not asked for again: that is two thirds of the server's work for a lookup.

*Invariants*: a place that is known has committed, and every snapshot taken later sees it: what was told after a
snapshot was asked for says nothing of it.

Not here: what is read at it (`lookups`), MySQL, which has no such variables
(`bracketed_snapshot`).
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
#: How old the visible place may be beside a log that grows: what is written meanwhile is unsure.
FRESH_S = 0.002


class VisiblePlace:
    """The furthest place that is known to be visible.

    *State*: `_told_s`, when it was; `_quiet`, whether it was the end of the log when that was last asked for.
    """

    def __init__(self) -> None:
        self._place = -1
        self._told_s = 0.0
        self._quiet = False

    def question(self) -> "PlaceQuestion":
        """What the next snapshot has to ask."""
        fresh = monotonic() - self._told_s <= FRESH_S
        return PlaceQuestion(self, self._place, fresh, not fresh and not self._quiet)

    def told(self, place: int) -> None:
        """This place is visible."""
        self._place = max(self._place, place)
        self._told_s = monotonic()

    def found(self, quiet: bool) -> None:
        """Whether the log ended where a snapshot saw all of it."""
        self._quiet = quiet

    def forget(self) -> None:
        """The log is another one."""
        self._place, self._told_s, self._quiet = -1, 0.0, False


@dataclass(frozen=True, slots=True)
class PlaceQuestion:
    """Of one snapshot: `place` was visible before it, `fresh` since a short time; or it must `ask` first."""

    visible: VisiblePlace
    place: int
    fresh: bool
    ask: bool

    def statements(self, statements: Sequence[str]) -> list[str]:
        """A transaction with these statements, and the log's end after them."""
        return [*([VISIBLE] if self.ask else []), BEGIN, _LOG_END, *statements, _LOG_END, END]

    def answer(self, replies: list[ServerReply]) -> tuple[list[ServerReply], BinlogSnapshot | None, int]:
        """The replies to the statements inside, their snapshot, and the log's end after them. No snapshot: what is
        known says too little; ask again.

        Raises ServerError, UpstreamError.
        """
        for reply in replies:
            if reply.error is not None:
                raise reply.error
        place = self.place
        if self.ask:
            told = visible_place(replies[0])
            self.visible.told(told)
            place = max(place, told)
            replies = replies[1:]
        _, log_end, *found, bound, _ = replies
        end = end_place(log_end)
        if place > end:  # Of another server; or two connections' places in one.
            self.visible.forget()
            return found, None, end
        self.visible.found(place == end)
        known = place >= 0 and (self.ask or self.fresh or place == end)
        return found, BinlogSnapshot(end, place) if known else None, end_place(bound)


def visible_place(reply: ServerReply) -> int:
    """The place that is visible, as the server says it. Raises UpstreamError."""
    values = {str(name).lower(): str(value) for name, value in reply.rows}
    file = values.get("binlog_snapshot_file", "")
    if not file:
        raise _no_log()
    return position_of(file, int(values["binlog_snapshot_position"]))


def end_place(reply: ServerReply) -> int:
    """The end of the log, as the server says it. Raises UpstreamError."""
    if not reply.rows:
        raise _no_log()
    return position_of(str(reply.rows[0][0]), int(str(reply.rows[0][1])))


async def log_end(wire: Wire, flavour: Flavour) -> int:
    """How far the log is. Raises ServerError, ConnectionBroken, UpstreamError."""
    return end_place(await wire.query(flavour.log_end))


def _no_log() -> UpstreamError:
    return UpstreamError(
        "failed", "The server writes no binary log: its snapshots have no place in it.", "Start it with log_bin."
    )
