"""Has the engine look for what nobody waits for any more, some times a second while anything runs upstream.

Not here: which lookups that concerns (`dataflow.engine.abandonment`); forwarded reads (`forward_tasks`).
"""

import asyncio

from dataflow.engine.events import CancelUnawaited
from service.engine.loop.dispatcher import Dispatcher
from service.engine.reads.lookup_tasks import LookupTasks
from service.engine.reads.refresh_tasks import Refreshing
from service.protocol.counters import Counters

#: Between two looks. `Limits.unawaited_looks` of them take longer than the second after which a reader comes back that
#: heeds ``Retry-After``: its lookup has gone on.
LOOK_S = 0.3


async def looks(dispatcher: Dispatcher, lookups: LookupTasks, refreshing: Refreshing, counters: Counters) -> None:
    """For as long as the stream is up."""
    begun = 0
    while dispatcher.running:
        await asyncio.sleep(LOOK_S)
        # Once more, too, after what has begun and ended since: of its readers the engine notes what they left.
        if lookups.in_flight or refreshing.in_flight or counters.lookups != begun:
            begun = counters.lookups
            dispatcher.step(CancelUnawaited())
