"""Pauses between retries."""


class Backoff:
    """A pause that doubles from `first_s` to `limit_s` with each failure; a success resets it."""

    __slots__ = ("_first_s", "_limit_s", "_next_s")

    def __init__(self, first_s: float = 0.1, limit_s: float = 10.0) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._next_s = first_s

    def failed(self) -> float:
        """Return the seconds to wait before the next attempt."""
        delay_s = self._next_s
        self._next_s = min(2 * delay_s, self._limit_s)
        return delay_s

    def succeeded(self) -> None:
        self._next_s = self._first_s
