"""Circuit breakers: tables that receive no statements for a while after repeated timeouts.

*Theory*: a statement on a locked table holds a slot until the statement timeout and returns nothing. After several such
statements in a row, further ones are refused at once; one trial at a time, after pauses that double, tests whether the
table responds (Nygard, *Release It!*, "Circuit Breaker").

*Maintains*: `_of` contains the tables whose last finished statement did not return in time: it hit the statement
timeout, or its readers gave up after waiting at least `patience_s`. A statement on several tables counts for each; any
result closes the breakers of all its tables.

Not here: the number of concurrent statements (`slots`).
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import monotonic

import structlog

from service.engine.upstream.results import UpstreamError

log = structlog.get_logger()

#: Consecutive timeouts that open a breaker.
MOST = 5
FIRST_S, LONGEST_S = 1.0, 30.0
#: Error of a statement that was cancelled because no reader waited for it.
ABANDONED = (asyncio.CancelledError, TimeoutError)
#: Time without statements, after the next trial is due, that resets a table's breaker.
FORGOTTEN_S = 60.0


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    pause_s: float = FIRST_S
    until_s: float = 0.0


class Breakers:
    """Breakers of the tables that do not respond."""

    def __init__(self, now_s: Callable[[], float] = monotonic, patience_s: float = 5.0) -> None:
        self._now_s = now_s
        self._patience_s = patience_s
        self._of: dict[str, _Breaker] = {}

    @property
    def resting(self) -> list[str]:
        """Tables whose breaker is open: they receive trials only."""
        since_s = self._now_s() - FORGOTTEN_S
        return sorted(table for table, b in self._of.items() if b.failures >= MOST and b.until_s > since_s)

    def check(self, tables: Collection[str]) -> None:
        """Raises `UpstreamError` if the breaker of one of the tables is open."""
        if self._of and (table := self._at_rest(tables)) is not None:
            raise UpstreamError(
                "timeout",
                f"Table {table} is not queried for a moment: its latest queries timed out.",
                "Check the table for locks, and its queries for missing indexes.",
                retryable=True,
            )

    def begin(self, tables: Collection[str]) -> None:
        """Registers a statement. Raises like `check`. If a pause is over, the statement is the trial; others are still
        refused."""
        self.check(tables)
        for table in self._of.keys() & set(tables):
            breaker = self._of[table]
            if breaker.failures >= MOST:
                breaker.until_s = self._now_s() + breaker.pause_s

    def end(self, tables: Collection[str], error: BaseException | None, took_s: float = 0.0) -> None:
        """Records the result of a statement that took `took_s`."""
        if error is None:
            if self._of:
                self._close(tables)
        elif (isinstance(error, UpstreamError) and error.code == "timeout") or (
            isinstance(error, ABANDONED) and took_s >= self._patience_s
        ):
            for table in tables:
                self._count(table)

    def _at_rest(self, tables: Collection[str]) -> str | None:
        for table in tables:
            breaker = self._of.get(table)
            if breaker is not None and breaker.failures >= MOST and self._now_s() < breaker.until_s:
                return table
        return None

    def _close(self, tables: Collection[str]) -> None:
        for table in tables:
            breaker = self._of.pop(table, None)
            if breaker is not None and breaker.failures >= MOST:
                log.info("table responds again", table=table)

    def _count(self, table: str) -> None:
        breaker = self._of.setdefault(table, _Breaker())
        breaker.failures += 1
        if breaker.failures == MOST:
            log.warning("table does not respond in time; it receives only trial queries until it does", table=table)
        elif breaker.failures > MOST:
            breaker.pause_s = min(2 * breaker.pause_s, LONGEST_S)
        if breaker.failures >= MOST:
            breaker.until_s = self._now_s() + breaker.pause_s
