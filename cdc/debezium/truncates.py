"""TRUNCATE of MariaDB and MySQL, which is in no transaction: it waits for its turn.

No END tells of it, and its topic is not that of other tables. Its turn is before the first transaction that is behind
it in the log, or when all topics have been read to their ends and stay still. If something behind it was delivered
before it came, it says that anything may have changed.

Not here: TRUNCATE of PostgreSQL, a change like others.
"""

from collections.abc import Iterator

from cdc.debezium.envelope import RowEvent
from cdc.debezium.history import History


class Truncates:
    """Those of one stream that wait."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._waiting: list[tuple[int, str, int]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, event: RowEvent) -> None:
        """Let it wait, unless it is old."""
        key = (event.collection, event.position)
        if event.position > self._history.floor and not self._history.knows(key):
            self._history.remember(key)
            xid = 0 if self._history.seen is None else self._history.global_id(event.source.get("gtid"))
            if self._history.seen is not None and xid in self._history.seen:
                return
            self._waiting.append((event.position, event.collection, xid))
            self._waiting.sort()

    def before(self, position: int | None) -> Iterator[tuple[int, str, int]]:
        """Take those whose turn is before `position`, or all: positions, collections, and MySQL's global ids (or 0)."""
        while self._waiting and (position is None or self._waiting[0][0] < position):
            yield self._waiting.pop(0)
