"""How long to wait before something that failed is tried again."""


class Backoff:
    """Doubles from `first_s` to `limit_s`; back to the start after a success."""

    __slots__ = ("_first_s", "_limit_s", "_next_s")

    def __init__(self, first_s: float = 0.1, limit_s: float = 10.0) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._next_s = first_s

    def failed(self) -> float:
        """Seconds to wait before the next attempt."""
        delay_s = self._next_s
        self._next_s = min(2 * delay_s, self._limit_s)
        return delay_s

    def succeeded(self) -> None:
        """The next failure waits `first_s` again."""
        self._next_s = self._first_s
