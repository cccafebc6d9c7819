"""Starts the application of a side: a peer's process."""

import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from load.peers.configuration import LENGTH, PeerConfiguration
from load.sides.child import running, wait_until
from load.sides.side import UpstreamDatabase
from load.site import SiteDefinition

_START_S = 60.0


@dataclass(frozen=True, slots=True)
class Application:
    url: str
    pid: int


@contextmanager
def running_application(configuration: PeerConfiguration) -> Iterator[Application]:
    """The peer, until the end. Raises `SideError`."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        fd = listener.fileno()
        with running([sys.executable, "-m", "load.peers.process", str(fd)], pass_fds=[fd]) as process:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            # From here on only the peer listens: should it end, clients are refused instead of waiting.
            listener.close()
            _configure(process, configuration)
            wait_until(lambda: _answers(url), f"the peer {configuration.peer!r}", process, _START_S)
            yield Application(url, process.pid)


@contextmanager
def running_writes(upstream: UpstreamDatabase, site: SiteDefinition) -> Iterator[Application | None]:
    """The application that takes the site's writes, until the end; None if the site has none. Raises `SideError`."""
    if not site.writes:
        yield None
        return
    with running_application(PeerConfiguration("direct", site, upstream.url)) as application:
        yield application


def _configure(process: subprocess.Popen[bytes], configuration: PeerConfiguration) -> None:
    assert process.stdin is not None
    body = pickle.dumps(configuration)
    process.stdin.write(LENGTH.pack(len(body)) + body)
    process.stdin.flush()


def _answers(url: str) -> bool:
    try:
        # Any answer will do.
        httpx.get(url, timeout=_START_S)
    except httpx.TransportError:
        return False
    return True
