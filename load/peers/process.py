"""``python -m load.peers.process FD``: a peer on uvicorn, set up exactly as the service's own worker is.

Serves on the listening socket that it was handed as file descriptor FD. Its `PeerConfiguration` comes as a pickle, its
length in front, on standard input, whose end is the order to stop: so no peer outlives the harness, however that ends.
"""

import asyncio
import gc
import os
import pickle
import socket
import sys
import threading
from collections.abc import Callable
from signal import SIGTERM
from typing import Any

import uvicorn

from load.peers.backend import Backend
from load.peers.configuration import LENGTH, PeerConfiguration
from load.peers.database import Database
from load.peers.direct import Direct
from load.peers.requests import Requests
from load.peers.web import web_application


def _direct(database: Database, configuration: PeerConfiguration) -> Backend:  # noqa: ARG001
    return Direct(database)


#: Where each peer's rows come from.
PEERS: dict[str, Callable[[Database, PeerConfiguration], Backend]] = {
    "direct": _direct,
}


def main() -> None:
    """Serve until told to stop."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    configuration = _configuration()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    database = Database(configuration.database_url, configuration.site)
    backend = PEERS[configuration.peer](database, configuration)
    server = _server_of(web_application(Requests(configuration.site, backend)))
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(_serve(server, backend, listener))


def _configuration() -> PeerConfiguration:
    (length,) = LENGTH.unpack(sys.stdin.buffer.read(LENGTH.size))
    configuration: PeerConfiguration = pickle.loads(sys.stdin.buffer.read(length))
    return configuration


async def _serve(server: uvicorn.Server, backend: Backend, listener: socket.socket) -> None:
    await backend.open()
    await server.serve(sockets=[listener])


def _server_of(app: Any) -> uvicorn.Server:
    # The same arguments, and the same care for the garbage collector, as in the service's worker.
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http="httptools",
            loop="uvloop",
            ws="none",
            lifespan="off",
            access_log=False,
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=3,
            backlog=2048,
        )
    )


def _end_with_parent() -> None:
    # Unbuffered: at the interpreter's end nobody may hold the lock of a buffer.
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), SIGTERM)


if __name__ == "__main__":
    main()
