"""TRUNCATE of MariaDB and MySQL, which is in no transaction.

No END counts it, and topics are not ordered among each other. It is delivered before the first transaction with a later
position, or when all topics have been read to their ends and are idle. If a later transaction was delivered before it
arrived, it is delivered as overflow.

Not here: TRUNCATE of PostgreSQL, a change like others.
"""

from collections.abc import Iterator

from cdc.debezium.events import RowEvent
from cdc.debezium.history import History


class Truncates:
    """Undelivered TRUNCATEs of one stream."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._waiting: list[tuple[int, str, int]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, event: RowEvent) -> None:
        """Add an event, unless it is a duplicate or precedes the start."""
        key = (event.collection, event.position)
        if event.position > self._history.floor and not self._history.knows(key):
            self._history.remember(key)
            xid = 0 if self._history.seen is None else self._history.global_id(event.source.get("gtid"))
            if self._history.seen is not None and xid in self._history.seen:
                return
            self._waiting.append((event.position, event.collection, xid))
            self._waiting.sort()

    def before(self, position: int | None) -> Iterator[tuple[int, str, int]]:
        """Remove and yield those before `position` (None: all): position, collection, MySQL's global id or 0."""
        while self._waiting and (position is None or self._waiting[0][0] < position):
            yield self._waiting.pop(0)
