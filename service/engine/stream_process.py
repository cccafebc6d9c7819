"""Stream process: reads the change stream for all engines of a service that has several.

Not here: the stream itself (`cdc.fanout`, `cdc`); restarts of this process (`service.supervisor.stack`).
"""

import asyncio
import signal
import socket
from contextlib import suppress

import structlog
import uvloop

from cdc.fanout.hub import STALLED_S, Hub
from service.engine.checkpoint.files import checkpoints_of
from service.engine.databases.streams import open_stream
from service.engine.loop import garbage
from service.ground.logs import configure_logging
from service.protocol.child import STOP_S, StartReport, StreamChild, report
from service.protocol.liveness import follow_loop
from service.settings.errors import SettingsError
from service.settings.stack import Settings

log = structlog.get_logger()


def run_stream(child: StreamChild) -> int:
    """Runs the process until SIGTERM and returns its exit code."""
    configure_logging(child.settings.log, "stream")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(child))


async def _main(child: StreamChild) -> int:
    try:
        origin = open_stream(child.settings)
    except SettingsError as error:
        report(StartReport(ready=False, message=str(error)))
        return 1
    follow_loop()
    stop, limit_s = asyncio.Event(), 2 * STOP_S + child.settings.state.checkpoint_s
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    hub = Hub(
        origin.make_stream,
        origin.begin_anew,
        _stalled,
        child.settings.engine.step_rows,
        receivers=_awaited_engines(child.settings),
        # Longer than an engine may take to stop.
        rest_s=limit_s,
    )
    server = await hub.serve(socket.socket(fileno=child.listener))
    garbage.be_seldom()
    report(StartReport(ready=True))
    running, stopping = asyncio.ensure_future(hub.run()), asyncio.ensure_future(stop.wait())
    await asyncio.wait({stopping, running}, return_when=asyncio.FIRST_COMPLETED)
    failed = running.done()
    if failed:
        log.error("the stream process failed", exc_info=running.exception())
    else:
        # Engines that were told to stop at the same time still need the stream, for their checkpoints.
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await hub.deserted()
    for task in (running, stopping):
        task.cancel()
    await asyncio.gather(running, stopping, return_exceptions=True)
    server.close()
    await origin.close()
    return int(failed)


def _awaited_engines(settings: Settings) -> int:
    """The number of engines that the first stream waits for: all if some may continue from a checkpoint."""
    engines = settings.engine.shards
    return engines if checkpoints_of(settings.state.directory, engines) else 1


def _stalled() -> None:
    log.error(
        "an engine does not read the change stream and is disconnected from it; the others continue", after_s=STALLED_S
    )
