"""The contract between the supervisor and its child processes.

The configuration comes as one pickle on standard input (passwords are then in no argument list and no environment). The
input stays open as long as the parent lives: its end is the order to stop, however the parent died. One line of JSON on
standard output says how the start went, empty lines that the process runs (`liveness`); everything else goes to
standard error.

Not here: restarting (`service.supervisor.children`); the mains of the children (`service.supervisor.child_main`).
"""

import os
import pickle
import signal
import struct
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import orjson

from service.sharding.homes import ALONE, Shard

if TYPE_CHECKING:
    from service.protocol.gateway_worker_config import GatewayWorkerConfig
    from service.protocol.worker_config import WorkerConfig
    from service.settings.sections import LogSettings
    from service.settings.stack import Settings

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
    root = str(Path(__file__).resolve().parents[2])
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
    """Return whether this process stops because its parent died, and so has to clean up after both."""
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
        """Name of the process in logs and on the admin port."""
        return "engine" if self.settings.engine.shards == 1 else f"engine-{self.shard.number}"
