"""Starts a peer on uvicorn with the settings of the service's own worker."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from load.figures.demo_site import SiteError, free_port
from load.programs import REDIS, require

_START_S = 30.0
_STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class Peer:
    """A running peer, with the processes that answer its requests."""

    url: str
    pids: tuple[int, ...]


@contextmanager
def running_peer(module: str, environment: Mapping[str, str], others: tuple[int, ...] = ()) -> Iterator[Peer]:
    """The peer of a module of `load.peers`, until the end. `others` work for it (Redis)."""
    port = free_port()
    root = str(Path(__file__).resolve().parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-m", "load.peers", module, str(port)],
        cwd=root,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        url = f"http://127.0.0.1:{port}/v1/views/story_with_votes"
        _wait_until_it_answers(process, url)
        yield Peer(url, (process.pid, *others))
    finally:
        _stop(process)


@contextmanager
def running_redis() -> Iterator[tuple[str, int]]:
    """A Redis of its own, in memory only: its URL and process. Raises `MissingProgramError`."""
    port = free_port()
    command = [require(REDIS), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield f"redis://127.0.0.1:{port}/0", process.pid
    finally:
        _stop(process)


def _wait_until_it_answers(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SiteError(f"the peer of {url} ended with code {process.returncode}; it says why above")
        try:
            if httpx.get(url, params={"id": "1"}, timeout=5).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise SiteError(f"the peer of {url} did not answer within {_START_S:.0f} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
