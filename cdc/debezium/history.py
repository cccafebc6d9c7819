"""What of a stream has been delivered: how late copies are told from what is new.

*Invariant*: what was delivered is never taken for new. Whether the opposite happens (a server was replaced by one whose
positions are lower) is told by time: what seems to be old committed after all that was ever seen.

Not here: transactions that are not delivered yet (`assembler`).
"""

from cdc.change import StreamLost
from cdc.debezium.envelope import RowEvent, TransactionKey
from cdc.gtid import parse_gtid
from cdc.mysql.bracket import BracketSnapshot
from cdc.mysql.position import BinlogSnapshot
from cdc.postgres.position import PostgresSnapshot, widen

#: What the database may say of where a stream starts.
StartSnapshot = PostgresSnapshot | BinlogSnapshot | BracketSnapshot

#: Times of commits are compared with this much indulgence: they are not exactly in commit order.
_CLOCK_MS = 1000


class History:
    """What one stream has delivered, and where it started.

    *State*: `near`, a recent transaction id of 64 bits; `delivered`, the last transaction's own position; `newest_ms`,
    when the newest END committed.
    """

    def __init__(self, snapshot: StartSnapshot, remembered: int) -> None:
        #: PostgreSQL: the first snapshot sees all transactions whose id is below, or lookups will.
        self.horizon = snapshot.xmax if isinstance(snapshot, PostgresSnapshot) else 0
        #: MariaDB: the first snapshot sees all that is at or before.
        self.floor = floor = snapshot.position if isinstance(snapshot, BinlogSnapshot) else 0
        #: MySQL: it sees these for sure; what else it may see is in the stream, too.
        self.seen = snapshot.seen if isinstance(snapshot, BracketSnapshot) else None
        self.near = self.horizon
        self.delivered = floor
        self.newest_ms = 0
        #: The last transactions that are over, oldest first; at most so many.
        self._done: dict[object, None] = {}
        self._remembered = remembered

    def knows(self, key: object) -> bool:
        """Whether it is over: delivered, or known to be old."""
        return key in self._done

    def remember(self, key: object) -> None:
        """It is over."""
        self._done[key] = None
        if len(self._done) > self._remembered:
            del self._done[next(iter(self._done))]

    def is_old(self, event: RowEvent, key: TransactionKey) -> bool:
        """Whether a transaction of which this is the first event that is held was delivered, or is of before the start.

        PostgreSQL: changes of transactions overlap in the log, so that a place before the last commit says nothing; but
        events name the last commit that the connector had seen (``sequence``), no earlier one than the last delivered.
        Raises StreamLost if it seems to be old and is not.
        """
        if key in self._done:
            return True
        if self.seen is not None and self.global_id(key) in self.seen:
            return True
        if isinstance(key, int):
            if widen(key, self.near) < self.horizon:
                return True
            return event.position < self.delivered and 0 < _commit_before(event) < self.delivered
        if event.position > self.delivered:
            return False
        if event.position > self.floor:
            self.check_time(event.source.get("ts_ms") or 0)
        return True

    def global_id(self, key: object) -> int:
        """MySQL: the transaction's id as snapshots have it. Raises StreamLost if the server gives none."""
        try:
            return parse_gtid(str(key))
        except ValueError:
            raise StreamLost(
                f"Transactions of MySQL have no global ids in the events, but {key}.",
                retryable=False,
                hint="Set gtid_mode=ON and enforce_gtid_consistency=ON at the server.",
            ) from None

    def check_time(self, ts_ms: int) -> None:
        """Raises StreamLost if what seems to be old is newer than all before: positions went back, time did not."""
        if self.newest_ms and ts_ms > self.newest_ms + _CLOCK_MS:
            raise StreamLost(
                "The connector's positions went back while time went on: it reads another server, or a log begun anew.",
                retryable=True,
            )


def _commit_before(event: RowEvent) -> int:
    """PostgreSQL: where the commit ends that the connector had seen last; 0 if it had not seen any."""
    sequence: str = event.source.get("sequence") or ""
    before = sequence[2 : sequence.find('"', 2)] if sequence.startswith('["') else ""
    return int(before) if before.isdecimal() else 0
