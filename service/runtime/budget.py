"""Keeps engine state and leaf store together within the memory budget.

Which keys go is the engine's choice; how much must go is decided here, because only here both sizes are known.
"""

import asyncio

import structlog

from dataflow.engine.events import EvictBytes
from service.leaf_store.writer import LeafWriter
from service.runtime.dispatcher import Dispatcher

log = structlog.get_logger()

PERIOD_S = 0.5
#: Evict down to this part of the budget, so that it is not done for every key.
TARGET = 0.9


async def keep_within(dispatcher: Dispatcher, leaf: LeafWriter, memory_bytes: int) -> None:
    """Looks now and then for as long as it runs."""
    while True:
        await asyncio.sleep(PERIOD_S)
        if dispatcher.engine is None:
            continue
        state_bytes = dispatcher.engine.state_bytes()
        used = state_bytes + leaf.total_bytes
        if used > memory_bytes:
            excess = used - int(memory_bytes * TARGET)
            log.info("over the memory budget; evicting", used_bytes=used, excess_bytes=excess)
            # What the engine forgets takes a like part of the leaf store along.
            dispatcher.step(EvictBytes(max(1, excess * state_bytes // used)))
