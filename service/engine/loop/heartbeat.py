"""Heartbeat: takes an upstream snapshot every second, which trims the engine's ring and dates answers."""

import asyncio

import structlog

from dataflow.engine.events import SnapshotTaken
from service.engine.loop.ages import Ages
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.pushes import Pushes
from service.engine.upstream import bridge
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Lookups
from service.ground.clock import wall_ms
from service.protocol.counters import Counters

log = structlog.get_logger()

PERIOD_S = 1.0


async def beat(dispatcher: Dispatcher, lookups: Lookups, pushes: Pushes, ages: Ages, counters: Counters) -> None:
    """Sends one heartbeat. Without the database nothing happens, and the age of answers grows."""
    sent_ms, resumed = wall_ms(), counters.streams_resumed
    try:
        found = await lookups.snapshot()
    except UpstreamError as error:
        log.warning("heartbeat failed", reason=error.detail)
        return
    if counters.streams_resumed != resumed:
        # The database may have crashed since, and lost what the snapshot sees.
        return
    counters.heartbeats += 1
    ages.sent(sent_ms, found.bound)
    dispatcher.step(SnapshotTaken(bridge.snapshot(found.snapshot)))
    pushes.reach(found.bound)


async def heartbeats(dispatcher: Dispatcher, lookups: Lookups, pushes: Pushes, ages: Ages, counters: Counters) -> None:
    """Sends heartbeats until cancelled."""
    while dispatcher.running:
        await beat(dispatcher, lookups, pushes, ages, counters)
        await asyncio.sleep(PERIOD_S)
