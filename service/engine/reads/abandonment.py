"""Periodic check for abandoned lookups, several times a second while anything runs upstream.

Not here: the choice of lookups (`dataflow.engine.abandonment`); forwarded reads (`forward_tasks`).
"""

import asyncio

from dataflow.engine.events import CancelUnawaited
from service.engine.loop.dispatcher import Dispatcher
from service.engine.reads.lookup_tasks import LookupTasks
from service.engine.reads.refresh_tasks import RefreshTasks
from service.protocol.counters import Counters

#: Interval between two checks. `Limits.unawaited_looks` checks take longer than the second after which a reader that
#: heeds ``Retry-After`` returns, so its lookup is still running.
LOOK_S = 0.3


async def looks(dispatcher: Dispatcher, lookups: LookupTasks, refreshing: RefreshTasks, counters: Counters) -> None:
    """Runs the checks until cancelled."""
    begun = 0
    while dispatcher.running:
        await asyncio.sleep(LOOK_S)
        # One more check after the last lookup has ended: the engine notes what its readers abandoned.
        if lookups.in_flight or refreshing.in_flight or counters.lookups != begun:
            begun = counters.lookups
            dispatcher.step(CancelUnawaited())
