"""Has the engine look for what nobody waits for any more, some times a second while anything runs upstream.

Not here: which lookups that concerns (`dataflow.engine.abandonment`); forwarded reads (`forward_tasks`).
"""

import asyncio

from dataflow.engine.events import CancelUnawaited
from service.runtime.dispatcher import Dispatcher
from service.runtime.lookup_tasks import LookupTasks
from service.runtime.refreshing import Refreshing

#: Between two looks. `Limits.unawaited_looks` of them take longer than the second after which a reader comes back that
#: heeds ``Retry-After``: its lookup has gone on.
LOOK_S = 0.3


async def looks(dispatcher: Dispatcher, lookups: LookupTasks, refreshing: Refreshing) -> None:
    """For as long as the stream is up."""
    while dispatcher.running:
        await asyncio.sleep(LOOK_S)
        if lookups.in_flight or refreshing.in_flight:
            dispatcher.step(CancelUnawaited())
