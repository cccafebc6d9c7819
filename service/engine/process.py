"""Engine process: one loop that follows the stream, fills misses and serves the workers and the supervisor.

Not here: the work on that loop (`runtime`); restarts of this process (`service.supervisor.stack`).
"""

import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
import uvloop

from service.engine.admin.operations import Operations
from service.engine.loop import garbage
from service.engine.session.runtime import CannotStartError, Runtime
from service.engine.upstream.upstream import Lookups
from service.ground.logs import configure_logging
from service.ground.traces import tracing_of
from service.protocol.child import EngineChild, StartReport, parent_gone, report
from service.protocol.control import ControlServer
from service.protocol.engine_server import EngineServer
from service.protocol.liveness import follow_loop
from service.protocol.run_directory import RunPaths
from service.settings.errors import SettingsError

if TYPE_CHECKING:
    from service.ground.tracing import Tracing

log = structlog.get_logger()

#: Interpreter switch interval (Python: 0.005 s), so that a thread that plans a long SQL text does not delay the loop.
_TURN_S = 0.0005
#: Maximum wait for the stream to begin before the process reports that it is ready.
_PATIENCE_S = 3.0


def run_engine(child: EngineChild) -> int:
    """Runs the process until SIGTERM and returns its exit code."""
    configure_logging(child.settings.log, child.name)
    sys.setswitchinterval(_TURN_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(_main(child))
    if parent_gone():
        shutil.rmtree(child.run_directory, ignore_errors=True)
    return code


async def _main(child: EngineChild) -> int:
    follow_loop()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    paths = RunPaths(child.run_directory).of_shard(child.shard)
    paths.directory.mkdir(exist_ok=True)
    tracing = tracing_of(child.settings.traces, child.name)
    try:
        runtime = Runtime(child.settings, paths.leaf, _traced(tracing), child.shard, child.stream)
    except SettingsError as error:
        return _cannot_start(str(error))
    wire = EngineServer(paths.engine_socket, runtime, None if tracing is None else tracing.within)
    control = ControlServer(paths.control_socket, Operations(runtime))
    await control.start()
    try:
        return await _serve(runtime, wire, stop)
    finally:
        await control.close()
        await wire.close()
        await runtime.close()
        if tracing is not None:
            tracing.close()


def _traced(tracing: "Tracing | None") -> Callable[[Lookups], Lookups] | None:
    if tracing is None:
        return None
    from service.engine.traced_lookups import traced_lookups

    return partial(traced_lookups, tracing=tracing)


async def _serve(runtime: Runtime, wire: EngineServer, stop: asyncio.Event) -> int:
    stopping = asyncio.ensure_future(stop.wait())
    starting = asyncio.ensure_future(runtime.start())
    reported = await _started(runtime, wire, stopping, starting)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return 0
    try:
        starting.result()
    except CannotStartError as error:
        stopping.cancel()
        if reported:
            log.error("the engine cannot start", reason=str(error))
        return _cannot_start(str(error))
    garbage.be_seldom()
    if not reported:
        report(StartReport(ready=True))
    running = asyncio.ensure_future(runtime.run())
    await asyncio.wait({stopping, running}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        # A bug in the shell itself: the supervisor starts a new process, without any of this one's state.
        log.error("the engine process failed", exc_info=running.exception())
        stopping.cancel()
        return 1
    await runtime.mark_place()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await runtime.write_checkpoint()
    return 0


async def _started(
    runtime: Runtime, wire: EngineServer, stopping: asyncio.Future[Any], starting: asyncio.Future[Any]
) -> bool:
    """Waits until the runtime has started or must stop. Returns True if the process has already reported that it is
    ready: a stream that waits for open transactions does not delay reads."""
    answering = asyncio.ensure_future(runtime.answering.wait())
    await asyncio.wait({stopping, starting, answering}, return_when=asyncio.FIRST_COMPLETED)
    answering.cancel()
    if not runtime.answering.is_set():
        return False
    await wire.start()
    await asyncio.wait({stopping, starting}, timeout=_PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    if stopping.done() or starting.done():
        return False
    runtime.wait_no_longer()
    report(StartReport(ready=True))
    await asyncio.wait({stopping, starting}, return_when=asyncio.FIRST_COMPLETED)
    return True


def _cannot_start(message: str) -> int:
    report(StartReport(ready=False, message=message, exit_code=1))
    return 1
