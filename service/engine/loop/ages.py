"""Age of answers: the current time minus the send time of the newest heartbeat whose bound is applied.

Not here: sending heartbeats (`heartbeat`).
"""

from collections import deque

from dataflow.types import Position

#: Maximum heartbeats remembered. An engine further behind measures the age from the oldest of them.
LIMIT = 3600
#: Applied heartbeats remembered, to date answers at older versions.
REMEMBERED = 120


class Ages:
    """Heartbeats whose bound is not yet applied, and the newest applied one.

    Maintains: both columns of `_waiting` are ascending.
    """

    __slots__ = ("_past", "_start_ms", "_waiting", "exact_at_ms")

    def __init__(self, now_ms: int) -> None:
        self._waiting: deque[tuple[Position, int]] = deque()
        self._past: deque[tuple[Position, int]] = deque(maxlen=REMEMBERED)
        #: Lower bound of the start time of every stream.
        self._start_ms = now_ms
        #: Wall clock time at which the applied position was the upstream's current state.
        self.exact_at_ms = now_ms

    def sent(self, sent_ms: int, bound: Position) -> None:
        """Records a heartbeat sent at `sent_ms`; everything committed by then is in the stream by `bound`."""
        if len(self._waiting) < LIMIT:
            self._waiting.append((bound, sent_ms))

    def applied(self, position: Position) -> int:
        """Records the applied position and returns `exact_at_ms`."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= position:
            self._past.append(waiting.popleft())
            self.exact_at_ms = self._past[-1][1]
        return self.exact_at_ms

    def sent_ms_at(self, position: Position) -> int:
        """Returns a time at which `position` was the upstream's current state; the engine may be further."""
        return next((sent_ms for bound, sent_ms in reversed(self._past) if bound <= position), self._start_ms)

    def continues(self, at_ms: int) -> None:
        """Dates the applied position, which another process reached: it was the upstream's current state at `at_ms`."""
        self.exact_at_ms = min(self.exact_at_ms, at_ms)
        self._start_ms = min(self._start_ms, at_ms)

    def restarted(self) -> None:
        """Discards all heartbeats: bounds of a lost stream do not apply to a new one."""
        self._waiting.clear()
        self._past.clear()
