"""Record of delivered transactions, by which duplicates are recognized.

*Invariant*: a delivered transaction is never taken for a new one. The opposite error (a server was replaced by one with
lower positions) is detected by time: the seemingly old transaction committed after all earlier ones.

Not here: undelivered transactions (`assembler`).
"""

from cdc.change import StreamLost
from cdc.debezium.events import RowEvent, TransactionKey
from cdc.debezium.progress import AssemblyProgress, Delivered
from cdc.gtid import parse_gtid
from cdc.mysql.bracket import BracketSnapshot
from cdc.mysql.position import BinlogSnapshot
from cdc.postgres.position import PostgresSnapshot, widen

#: Snapshots at which a stream may start.
StartSnapshot = PostgresSnapshot | BinlogSnapshot | BracketSnapshot

#: Tolerance in comparisons of commit times, which are not exactly in commit order.
_CLOCK_MS = 1000


class History:
    """Start and delivered transactions of one stream.

    *State*: `near`, a recent 64-bit transaction id; `delivered`, the last transaction's own position; `newest_ms`, the
    commit time of the newest END.
    """

    def __init__(self, snapshot: StartSnapshot, remembered: int) -> None:
        #: PostgreSQL: the first snapshot, or lookups, see all transactions with lower ids.
        self.horizon = snapshot.xmax if isinstance(snapshot, PostgresSnapshot) else 0
        #: MariaDB: the first snapshot sees all transactions at or before this position.
        self.floor = floor = snapshot.position if isinstance(snapshot, BinlogSnapshot) else 0
        #: MySQL: transactions that the first snapshot certainly sees; others that it may see are in the stream.
        self.seen = snapshot.seen if isinstance(snapshot, BracketSnapshot) else None
        self.near = self.horizon
        self.delivered = floor
        self.continued = False
        self.newest_ms = 0
        #: Keys of the last finished transactions, oldest first, and the number of all that were ever added.
        self._done: dict[object, None] = {}
        self.count = 0
        self._remembered = remembered

    def knows(self, key: object) -> bool:
        """Return whether the key is of a finished transaction."""
        return key in self._done

    def remember(self, key: object) -> None:
        """Add the key of a finished transaction."""
        self.count += key not in self._done
        self._done[key] = None
        if len(self._done) > self._remembered:
            del self._done[next(iter(self._done))]

    def done(self, count: int) -> list[object]:
        """Return the remembered keys as they were when `count` had been added."""
        keys = list(self._done)
        return keys[: len(keys) - (self.count - count)]

    def progress(self, at: Delivered, since: dict[str, int]) -> AssemblyProgress:
        """Return the assembler's progress at some positions, from which another history continues."""
        return AssemblyProgress(
            self.horizon,
            self.floor,
            self.near,
            at.own_position,
            self.newest_ms,
            self.done(at.added),
            at.position,
            at.last_end,
            since,
        )

    def continues(self, progress: AssemblyProgress) -> None:
        """Continue the history of another stream, whose start decides which transactions precede it."""
        self.horizon, self.near, self.newest_ms = progress.horizon, progress.near, progress.newest_ms
        self.floor, self.delivered, self.continued = progress.floor, progress.delivered, True
        for key in progress.done:
            self.remember(tuple(key) if isinstance(key, list) else key)

    def is_old(self, event: RowEvent, key: TransactionKey) -> bool:
        """Return whether a transaction, of which this is the first event, was delivered or precedes the start.

        PostgreSQL: changes of transactions overlap in the log, so a position before the last commit decides nothing;
        but a new event's ``sequence`` names the last commit that the connector saw, which is the last delivered one or
        a later one. Raises StreamLost if the transaction seems to be old and is not, or if the connector has seen no
        commit, although transactions were delivered.
        """
        if key in self._done:
            return True
        if self.seen is not None and self.global_id(key) in self.seen:
            return True
        if isinstance(key, int):
            if widen(key, self.near) < self.horizon:
                return True
            before = _commit_before(event)
            if before is None and 0 < self.delivered < event.position:
                raise StreamLost(
                    "The connector began anew, without its former offsets: what was committed before may be in no "
                    "topic.",
                    retryable=True,
                )
            return event.position < self.delivered and 0 < (before or 0) < self.delivered
        if event.position > self.delivered:
            return False
        if event.position > self.floor:
            self.check_time(event.source.get("ts_ms") or 0)
        return True

    def global_id(self, key: object) -> int:
        """MySQL: return the id that snapshots know the transaction by. Raises StreamLost if it has none."""
        try:
            return parse_gtid(str(key))
        except ValueError:
            raise StreamLost(
                f"Transactions of MySQL have no global ids in the events: got {key}.",
                retryable=False,
                hint="Set gtid_mode=ON and enforce_gtid_consistency=ON at the server.",
            ) from None

    def check_time(self, ts_ms: int) -> None:
        """Raise StreamLost if a transaction with an old position committed after all earlier ones."""
        if self.newest_ms and ts_ms > self.newest_ms + _CLOCK_MS:
            raise StreamLost(
                "The connector's positions decreased while time advanced: it reads another server, or a reset log.",
                retryable=True,
            )


def _commit_before(event: RowEvent) -> int | None:
    """PostgreSQL: return the end of the last commit that the connector had seen, now or before it was restarted; None
    if it has seen none, 0 if the event does not say."""
    sequence: str = event.source.get("sequence") or ""
    if sequence.startswith("[null"):
        return None
    before = sequence[2 : sequence.find('"', 2)] if sequence.startswith('["') else ""
    return int(before) if before.isdecimal() else 0
