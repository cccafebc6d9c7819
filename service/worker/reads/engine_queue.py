"""Limit on requests that wait for the engine: back-pressure instead of an unbounded queue."""

from types import TracebackType

from service.ground.errors import ApiError


class Waiting:
    """``with waiting:`` surrounds a wait. Raises ApiError(overloaded) if `most` are waiting already.

    *Maintains*: `count` is the number of waiting requests; `refused`, of refused ones.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = 0
        self.refused = 0

    def __enter__(self) -> None:
        if self.count >= self._most:
            self.refused += 1
            raise ApiError(
                "overloaded",
                f"{self.count} requests already wait for the engine; cached keys are still answered.",
                "Try again in a moment.",
            )
        self.count += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.count -= 1
