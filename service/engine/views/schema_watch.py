"""When the catalog is compared with what views were planned for, and what waits for that.

*Theory*: the change stream does not carry DDL. A token of the catalog, read once a second, says whether anything that
views depend on may have changed. Where the database marks the transactions that alter its schema, the stream stops
before each of them until the catalog was compared at a snapshot that sees it: at no version from there on is anything
told that was right before only.

*Invariants*: nothing here waits for the stream while the stream waits for it; so nothing is planned anew before a mark
is passed, only broken. Views are mended right after.

Not here: what is compared, what breaks and is mended (`repair`).
"""

import asyncio
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
    """Looks at the catalog while one stream is up. *State*: `_seen`, a snapshot from before the last look that a mark
    asked for."""

    repair: Repair
    upstream: Upstream
    _seen: UpstreamSnapshot | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def noticed(self, notice: SchemaNotice) -> None:
        """The stream says that a table is not what it was."""
        self.repair.schema_changed(notice)
        self._wake.set()

    def redefined(self, name: str) -> None:
        """The stream says that a view of the database may be another one."""
        self.repair.redefined(name)
        self._wake.set()

    async def passed(self, altered: tuple[int, int]) -> None:
        """Returns once the catalog was compared at a snapshot that sees this transaction (id, end)."""
        backoff = Backoff(first_s=0.005, limit_s=PERIOD_S)
        # A transaction is in the stream before snapshots see it. One look is enough for all that it sees.
        while self._seen is None or not self._seen.sees(*altered):
            try:
                found = await self.upstream.lookups.snapshot()
                if found.snapshot.sees(*altered):
                    async with self.upstream.session() as session:
                        await self.repair.look(session)
                    self._seen = found.snapshot
                    self._wake.set()
                    return
            except UpstreamError as error:
                log.warning("schema check failed; the stream waits for it", reason=error.detail)
            await asyncio.sleep(backoff.failed())

    async def keep(self, period_s: float) -> None:
        """Looks when the token says so, and each `period_s` anyway, for as long as the stream is up."""
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
                log.warning("views stay broken", reason=str(error))

    async def _moved(self) -> bool:
        async with self.upstream.session() as session:
            return await self.repair.has_moved(session)
