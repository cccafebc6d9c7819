"""The main of every child process: ``python -m service.supervisor.child_main``.

Each kind of process imports its own modules only, when its configuration has said which kind it is.
"""

import faulthandler
import gc
import signal
import socket
import sys
from typing import NoReturn

from service.protocol.child import (
    SHOW,
    EngineChild,
    GatewayWorkerChild,
    StartReport,
    StreamChild,
    WorkerChild,
    end_with_parent,
    receive_configuration,
    report,
)


def leave_out_rich() -> None:
    """structlog imports it where it is installed, for tracebacks of a kind that no log here has: a tenth of a start."""
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]


def main() -> NoReturn:
    """The main of every child: becomes what its configuration says."""
    leave_out_rich()
    from service.protocol import liveness

    # Modules are being imported: no garbage comes of it, and looking for some takes a tenth of the start.
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Of a crash, and of what hangs, the log has where it was.
    faulthandler.enable()
    faulthandler.register(SHOW)
    liveness.begin()
    configuration = receive_configuration()
    end_with_parent()
    code = _run(configuration)
    # All is closed: what there is goes with the process, without a search for garbage in it.
    gc.freeze()
    sys.exit(code)


def _run(configuration: object) -> int:
    if isinstance(configuration, EngineChild):
        from service.engine.process import run_engine

        return run_engine(configuration)
    if isinstance(configuration, StreamChild):
        from service.engine.stream_process import run_stream

        return run_stream(configuration)
    if isinstance(configuration, WorkerChild):
        _run_worker(configuration)
    if isinstance(configuration, GatewayWorkerChild):
        _run_gateway_worker(configuration)
    return 0


def _run_worker(child: WorkerChild) -> None:
    from service.ground.logs import configure_logging
    from service.worker.process import run_worker

    configure_logging(child.log, f"worker-{child.config.number}")
    listener = socket.socket(fileno=child.listener)
    report(StartReport(ready=True))
    run_worker(child.config, listener)


def _run_gateway_worker(child: GatewayWorkerChild) -> None:
    from service.gateway.worker import run_gateway_worker
    from service.ground.logs import configure_logging

    configure_logging(child.config.settings.log, f"worker-{child.config.number}")
    listener = socket.socket(fileno=child.listener)
    report(StartReport(ready=True))
    run_gateway_worker(child.config, listener)


if __name__ == "__main__":
    main()
