"""Programs of a side: started in a session of their own, and stopped at the end in any case."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL
from typing import IO

from load.sides.side import SideError

_ROOT = Path(__file__).resolve().parents[2]
_STOP_S = 30.0
_POLL_S = 0.02


@contextmanager
def running(
    command: Sequence[str], *, output: IO[bytes] | int | None = None, pass_fds: Sequence[int] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """A program until the end; its standard input is a pipe, `output` takes its standard output."""
    process = subprocess.Popen(
        list(command),
        cwd=_ROOT,
        # Settings of a service of the user's own must not leak into this one.
        env={name: value for name, value in os.environ.items() if not name.startswith("UPQUERY_")},
        stdin=subprocess.PIPE,
        stdout=output,
        start_new_session=True,
        pass_fds=pass_fds,
    )
    try:
        yield process
    finally:
        _stop(process)


def wait_until(condition: Callable[[], bool], what: str, process: subprocess.Popen[bytes], seconds: float) -> None:
    """Return once the condition holds. Raises `SideError` if the process ends, or after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            raise SideError(f"{what} ended with code {process.returncode}; it says why above")
        if time.monotonic() > deadline:
            raise SideError(f"{what} was not ready within {seconds:.0f} s")
        time.sleep(_POLL_S)


def free_port() -> int:
    """A TCP port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        # Its own session: the whole group, and nothing else.
        os.killpg(process.pid, SIGKILL)
        process.wait()
    finally:
        if process.stdout is not None:
            process.stdout.close()
