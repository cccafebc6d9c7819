"""How old answers are: now minus the send time of the newest heartbeat whose bound is applied.

Not here: sending heartbeats (`heartbeat`).
"""

from collections import deque

from dataflow.types import Position

#: Heartbeats remembered at most. While the engine is further behind than this, the age is counted from the oldest.
LIMIT = 3600
#: Heartbeats remembered that the engine has passed, for answers of older versions.
REMEMBERED = 120


class Ages:
    """Heartbeats whose bound the engine has not applied, and the newest it has.

    Maintains: `_waiting` ascends in both of its columns.
    """

    __slots__ = ("_past", "_start_ms", "_waiting", "exact_at_ms")

    def __init__(self, now_ms: int) -> None:
        self._waiting: deque[tuple[Position, int]] = deque()
        self._past: deque[tuple[Position, int]] = deque(maxlen=REMEMBERED)
        #: Every stream began later.
        self._start_ms = now_ms
        #: The wall clock time at which everything applied so far was all there was.
        self.exact_at_ms = now_ms

    def sent(self, sent_ms: int, bound: Position) -> None:
        """A heartbeat was sent at `sent_ms`; all that had been committed then is in the stream by `bound`."""
        if len(self._waiting) < LIMIT:
            self._waiting.append((bound, sent_ms))

    def applied(self, position: Position) -> int:
        """The engine is at `position`. Returns `exact_at_ms`."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= position:
            self._past.append(waiting.popleft())
            self.exact_at_ms = self._past[-1][1]
        return self.exact_at_ms

    def of(self, position: Position) -> int:
        """A time at which what is exact at `position` was all there was; the engine may be further."""
        return next((sent_ms for bound, sent_ms in reversed(self._past) if bound <= position), self._start_ms)

    def restarted(self) -> None:
        """Continuity was lost: bounds of before say nothing about the new stream's start."""
        self._waiting.clear()
        self._past.clear()
