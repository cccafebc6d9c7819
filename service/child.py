"""What a child process and its supervisor have agreed on.

The configuration comes as one pickle on standard input (passwords are then in no argument list and no environment). The
input stays open as long as the parent lives: its end is the order to stop, however the parent died. One line of JSON on
standard output says how the start went, empty lines that the process runs (`beats`); everything else goes to standard
error.

Not here: restarting (`supervisor`); what the children do (`engine_process`, `worker`).
"""

import faulthandler
import gc
import os
import pickle
import signal
import socket
import struct
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import orjson

from service.shards.homes import ALONE, Shard

if TYPE_CHECKING:
    from service.gateway.worker_config import GatewayWorkerConfig
    from service.settings.load import Settings
    from service.settings.sections import LogSettings
    from service.worker_config import WorkerConfig

#: A child that was told to stop has this long; then it is ended.
STOP_S = 5.0
#: Has a child write to its log where each of its threads is.
SHOW = signal.SIGUSR1
_LENGTH = struct.Struct("!I")
_parent_gone = threading.Event()


@dataclass(frozen=True, slots=True)
class StartReport:
    """How a child's start went: ready, or why not, with the supervisor's exit code."""

    ready: bool
    message: str = ""
    exit_code: int = 1


def child_environment() -> dict[str, str]:
    """The environment, in which this very package is importable."""
    root = str(Path(__file__).resolve().parent.parent)
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": root if not path else f"{root}{os.pathsep}{path}"}


def send_configuration(configuration: object) -> bytes:
    """The bytes to write to a child's standard input."""
    body = pickle.dumps(configuration)
    return _LENGTH.pack(len(body)) + body


def receive_configuration(stream: BinaryIO | None = None) -> object:
    """The parent's configuration. The bytes are our own parent's, never a stranger's."""
    source = stream or sys.stdin.buffer
    (length,) = _LENGTH.unpack(source.read(_LENGTH.size))
    return pickle.loads(source.read(length))


def end_with_parent() -> None:
    """Stops this process, politely and then at once, when the parent is gone.

    A thread, because a loop that hangs would not notice.
    """
    threading.Thread(target=_wait_for_parent, name="parent", daemon=True).start()


def parent_gone() -> bool:
    """Whether this process stops because its parent died, and so has to clean up after both."""
    return _parent_gone.is_set()


def _wait_for_parent() -> None:
    # Unbuffered: at the interpreter's end nobody may hold the lock of a buffer.
    while os.read(sys.stdin.fileno(), 1):
        pass
    _parent_gone.set()
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(STOP_S)
    os._exit(1)


def report(start: StartReport) -> None:
    """Tells the supervisor how the start went."""
    sys.stdout.buffer.write(orjson.dumps(asdict(start)) + b"\n")
    sys.stdout.buffer.flush()


def read_report(line: bytes) -> StartReport | None:
    """The report of a line of standard output; None if it is none (the child died)."""
    try:
        return StartReport(**orjson.loads(line))
    except (ValueError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class WorkerChild:
    """Configuration of an API worker's process; `listener` is an inherited file descriptor."""

    config: "WorkerConfig"
    listener: int
    log: "LogSettings"


@dataclass(frozen=True, slots=True)
class GatewayWorkerChild:
    """Configuration of a gateway's worker process; `listener` is an inherited file descriptor."""

    config: "GatewayWorkerConfig"
    listener: int


@dataclass(frozen=True, slots=True)
class StreamChild:
    """Configuration of the process that reads the change stream for several engines; `listener` is an inherited file
    descriptor."""

    settings: "Settings"
    listener: int


@dataclass(frozen=True, slots=True)
class EngineChild:
    """Configuration of the engine's process. `stream`: who reads the change stream for it, if not it itself."""

    settings: "Settings"
    run_directory: Path
    shard: Shard = ALONE
    stream: Path | None = None

    @property
    def name(self) -> str:
        """What the process is called, in logs and on the admin port."""
        return "engine" if self.settings.engine.shards == 1 else f"engine-{self.shard.number}"


def leave_out_rich() -> None:
    """structlog imports it where it is installed, for tracebacks of a kind that no log here has: a tenth of a start."""
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]


def main() -> NoReturn:
    """The main of every child: becomes what its configuration says."""
    leave_out_rich()
    from service import beats

    # Modules are being imported: no garbage comes of it, and looking for some takes a tenth of the start.
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Of a crash, and of what hangs, the log has where it was.
    faulthandler.enable()
    faulthandler.register(SHOW)
    beats.begin()
    configuration = receive_configuration()
    end_with_parent()
    code = _run(configuration)
    # All is closed: what there is goes with the process, without a search for garbage in it.
    gc.freeze()
    sys.exit(code)


def _run(configuration: object) -> int:
    if isinstance(configuration, EngineChild):
        from service.engine_process import run_engine

        return run_engine(configuration)
    if isinstance(configuration, StreamChild):
        from service.stream_process import run_stream

        return run_stream(configuration)
    if isinstance(configuration, WorkerChild):
        _run_worker(configuration)
    if isinstance(configuration, GatewayWorkerChild):
        _run_gateway_worker(configuration)
    return 0


def _run_worker(child: WorkerChild) -> None:
    from service.telemetry import configure_logging
    from service.worker import run_worker

    configure_logging(child.log, f"worker-{child.config.number}")
    listener = socket.socket(fileno=child.listener)
    report(StartReport(ready=True))
    run_worker(child.config, listener)


def _run_gateway_worker(child: GatewayWorkerChild) -> None:
    from service.gateway.worker import run_gateway_worker
    from service.telemetry import configure_logging

    configure_logging(child.config.settings.log, f"worker-{child.config.number}")
    listener = socket.socket(fileno=child.listener)
    report(StartReport(ready=True))
    run_gateway_worker(child.config, listener)


if __name__ == "__main__":
    # Pickles name this module by its import name, not by __main__.
    from service.child import main as entry

    entry()
