"""Tables that are not asked for a while, since nothing that was asked of them came in time: a circuit breaker each.

*Theory*: who asks a locked table waits for the statement timeout, holds a slot meanwhile, and is told nothing. After
some such statements in a row the next ones are refused at once; one at a time tries whether the table answers again,
after pauses that double (Nygard, *Release It!*, "Circuit Breaker").

*Maintains*: `_of` has the tables of which the last statement that ended was not answered in time: by the statement
timeout, or before its readers had gone, who wait for `patience_s` at least. A statement of several tables counts for
each; whatever is answered closes the breakers of all its tables.

Not here: how many statements run at once (`slots`).
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import monotonic

import structlog

from service.engine.upstream.results import UpstreamError

log = structlog.get_logger()

#: So many statements in a row, and a table rests.
MOST = 5
FIRST_S, LONGEST_S = 1.0, 30.0
#: What a statement ends with that nobody waits for any more.
ABANDONED = (asyncio.CancelledError, TimeoutError)
#: Of a table that nobody has asked for so long since it might have been tried, it is not known that it does not answer.
FORGOTTEN_S = 60.0


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    pause_s: float = FIRST_S
    until_s: float = 0.0


class Breakers:
    """One for each table that does not answer."""

    def __init__(self, now_s: Callable[[], float] = monotonic, patience_s: float = 5.0) -> None:
        self._now_s = now_s
        self._patience_s = patience_s
        self._of: dict[str, _Breaker] = {}

    @property
    def resting(self) -> list[str]:
        """The tables that are not asked, but for trials."""
        since_s = self._now_s() - FORGOTTEN_S
        return sorted(table for table, b in self._of.items() if b.failures >= MOST and b.until_s > since_s)

    def check(self, tables: Collection[str]) -> None:
        """Raises `UpstreamError` if one of the tables rests."""
        if self._of and (table := self._at_rest(tables)) is not None:
            raise UpstreamError(
                "timeout",
                f"Table {table} is not asked for a moment: what was asked of it lately was not answered in time.",
                "See what locks it, or which of its queries lacks an index.",
                retryable=True,
            )

    def begin(self, tables: Collection[str]) -> None:
        """A statement begins. Raises as `check`. Where a pause is over, this is the trial: others are still refused."""
        self.check(tables)
        for table in self._of.keys() & set(tables):
            breaker = self._of[table]
            if breaker.failures >= MOST:
                breaker.until_s = self._now_s() + breaker.pause_s

    def end(self, tables: Collection[str], error: BaseException | None, took_s: float = 0.0) -> None:
        """A statement has ended, after `took_s`."""
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
                log.info("table answers again", table=table)

    def _count(self, table: str) -> None:
        breaker = self._of.setdefault(table, _Breaker())
        breaker.failures += 1
        if breaker.failures == MOST:
            log.warning("table does not answer in time; it is asked seldom until it does", table=table)
        elif breaker.failures > MOST:
            breaker.pause_s = min(2 * breaker.pause_s, LONGEST_S)
        if breaker.failures >= MOST:
            breaker.until_s = self._now_s() + breaker.pause_s
