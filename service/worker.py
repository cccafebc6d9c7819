"""An API worker process: uvicorn with the hot route in front of FastAPI."""

import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker needs; picklable, for a spawned process."""

    #: 0, 1, … : which worker this is, in its reports.
    number: int
    leaf_path: Path
    engine_socket: Path
    #: How long a miss may wait.
    read_timeout_s: float = 5.0
    #: The largest request body, and the most keys in one request.
    max_body_bytes: int = 1 << 20
    max_keys: int = 1000
    #: Raised by tests and benchmarks only.
    graceful_shutdown_s: float = 3.0


def run_worker(config: WorkerConfig, listener: socket.socket) -> None:
    """The process's main: serves on `listener` (bound by the supervisor, shared by all workers) until SIGTERM or SIGINT.

    May be started before the engine process has created the leaf store: it then waits for it.
    """
    raise NotImplementedError
