"""Waits for transactions named by global transaction ids (MariaDB, MySQL).

A binary log contains the ids of its transactions, so most waits end with the stream. Otherwise (an idle stream, topics
without the ids of other tables' transactions, transactions that were committing when the stream began) the server is
queried for its executed ids and *then* for the end of its log: a stream that has reached that end has applied all of
them.

*Invariants*: every id in `_known` is in the leaf store. One task queries the server for all waiters, and not for known
ids. A server that has not executed the ids (a lagging replica) is queried again, with growing pauses.

Not here: waiting for positions (`positions`), moving the stream (`pushes`).
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from cdc.gtid import Gtids, GtidSet
from dataflow.types import Position
from service.engine.loop.positions import Positions
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Lookups
from service.ground.errors import ApiError

#: Maximum wait for a stream that contains ids, before the server is queried.
STREAM_S = 0.005
#: Pause between two queries for ids that the server had not executed, at first and at most.
PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0


class AppliedGtids:
    """Ids of applied transactions, and waits for others.

    *State*: `_known`, None while nothing is known of this stream; `_streamed`, True if the stream contains ids.
    """

    def __init__(self, lookups: Lookups, positions: Positions, reach: Callable[[Position], None]) -> None:
        self._lookups = lookups
        self._positions = positions
        self._reach = reach
        self._known: Gtids | None = None
        self._streamed = False
        self._waiting: dict[asyncio.Future[None], Gtids] = {}
        self._asking: asyncio.Task[None] | None = None
        #: Set when a waiter arrived too late for the running query.
        self._wanted = asyncio.Event()

    def started(self, gtids: Gtids | None) -> None:
        """Records the start of a stream behind these ids; None: a stream without ids."""
        self.close()
        self._known, self._streamed = gtids, gtids is not None
        self._settle()
        self._ask()

    def passed(self, transactions: Sequence[int]) -> None:
        """Records ids whose transactions have been applied."""
        if self._known is not None:
            self._known = self._known.extended(transactions)
            self._settle()

    async def wait(self, wanted: Gtids) -> None:
        """Returns once all of `wanted` has been applied. Raises ApiError(bad_request) for ids of another kind of
        database."""
        if self._has(wanted):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = wanted
        self._wanted.set()
        self._ask()
        try:
            await future
        finally:
            del self._waiting[future]

    def close(self) -> None:
        """Cancels the running query."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _has(self, wanted: Gtids) -> bool:
        known = self._known
        if known is None:
            return False
        if type(known) is not type(wanted):
            raise _of_another_kind(wanted)
        return wanted <= known  # type: ignore[operator]

    def _settle(self) -> None:
        for future, wanted in self._waiting.items():
            if future.done():
                continue
            try:
                if self._has(wanted):
                    future.set_result(None)
            except ApiError as error:
                future.set_exception(error)

    @property
    def _open(self) -> bool:
        return not all(future.done() for future in self._waiting)

    def _ask(self) -> None:
        if self._open and (self._asking is None or self._asking.done()):
            self._asking = asyncio.get_running_loop().create_task(self._keep_asking())

    async def _keep_asking(self) -> None:
        pause_s = PAUSE_S
        if self._streamed:
            await asyncio.sleep(STREAM_S)
        while self._open:
            self._wanted.clear()
            with suppress(UpstreamError):
                await self._learn()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wanted.wait()
                    pause_s = PAUSE_S
                    continue
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _learn(self) -> None:
        """Queries the executed ids and then the end of the log; the ids are known once the stream has reached that
        end."""
        executed = await self._lookups.executed()
        if executed is None:
            for future, wanted in self._waiting.items():
                if not future.done():
                    future.set_exception(_of_another_kind(wanted))
            return
        bound = (await self._lookups.snapshot()).bound
        self._reach(bound)
        await self._positions.wait(bound)
        known = self._known
        same_kind = known is not None and type(known) is type(executed)
        self._known = known | executed if same_kind else executed  # type: ignore[operator]
        self._settle()


def _of_another_kind(wanted: Gtids) -> ApiError:
    kind = "MySQL" if isinstance(wanted, GtidSet) else "MariaDB"
    return ApiError(
        "bad_request", f"Upquery-Min-Version has global transaction ids of {kind}; the database is of another kind."
    )
