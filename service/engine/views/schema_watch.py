"""Schedule of catalog checks, and transactions of the stream that wait for one.

*Theory*: the change stream does not carry DDL. A token of the catalog, read every second, shows whether anything that
views depend on may have changed. If the database marks schema-altering transactions, the stream stops before each of
them until the catalog has been compared at a snapshot that sees it, so no later version contains results valid only
before.

*Invariants*: nothing here waits for the stream while the stream waits for it; therefore views are only broken before a
marked transaction is applied, and repaired right after.

Not here: the comparison and its consequences (`repair`).
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from cdc.change import SchemaNotice
from cdc.stream import UpstreamSnapshot
from service.engine.loop.heartbeat import PERIOD_S
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Upstream
from service.engine.views.repair import Repair
from service.engine.views.tables import TableRefusedError
from service.ground.backoff import Backoff

log = structlog.get_logger()


@dataclass(slots=True)
class SchemaWatch:
    """Checks the catalog while a stream is up. *State*: `_seen`, a snapshot from before the last check that a mark
    caused.
    """

    repair: Repair
    upstream: Upstream
    _seen: UpstreamSnapshot | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def noticed(self, notice: SchemaNotice) -> None:
        """Handles the stream's notice that a table has changed."""
        self.repair.schema_changed(notice)
        self._wake.set()

    def redefined(self, name: str) -> None:
        """Handles the stream's notice that an upstream view may have been redefined."""
        self.repair.redefined(name)
        self._wake.set()

    async def passed(self, altered: tuple[int, int]) -> None:
        """Returns once the catalog has been compared at a snapshot that sees this transaction (id, end)."""
        # A transaction is in the stream before snapshots see it. One check suffices for all transactions that it sees.
        if self._seen is None or not self._seen.sees(*altered):
            await self._compare(lambda snapshot: snapshot.sees(*altered))

    async def resumed(self) -> None:
        """Returns once the catalog has been compared: if the database has crashed, changes of the schema that had been
        seen may be gone."""
        self._seen = None
        await self._compare(lambda _: True)

    async def _compare(self, suffices: Callable[[UpstreamSnapshot], bool]) -> None:
        """Compares the catalog after a snapshot that suffices."""
        backoff = Backoff(first_s=0.005, limit_s=PERIOD_S)
        while True:
            try:
                found = await self.upstream.lookups.snapshot()
                if suffices(found.snapshot):
                    async with self.upstream.session() as session:
                        await self.repair.look(session)
                    self._seen = found.snapshot
                    self._wake.set()
                    return
            except UpstreamError as error:
                log.warning("schema check failed; the stream waits until one succeeds", reason=error.detail)
            await asyncio.sleep(backoff.failed())

    async def keep(self, period_s: float) -> None:
        """Checks whenever the token changes, and at least every `period_s`, until cancelled."""
        now = asyncio.get_running_loop().time
        due_s = now() + period_s
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), min(PERIOD_S, period_s))
            woken = self._wake.is_set()
            self._wake.clear()
            try:
                if now() >= due_s or (woken and self.repair.is_needed) or await self._moved():
                    await self.repair.check()
                    due_s = now() + period_s
            except UpstreamError as error:
                log.warning("schema check failed", reason=error.detail)
            except TableRefusedError as error:
                log.warning("broken views could not be repaired", reason=str(error))

    async def _moved(self) -> bool:
        async with self.upstream.session() as session:
            return await self.repair.has_moved(session)
