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
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from signal import SIGTERM
from typing import Any

import uvicorn

from load.peers.backend import Backend
from load.peers.bare import BareApplication
from load.peers.cache import Cache
from load.peers.cache_aside import CacheAside
from load.peers.configuration import LENGTH, PeerConfiguration
from load.peers.database import Database
from load.peers.direct import DirectBackend
from load.peers.fixed import FixedApplication
from load.peers.materialized import MaterializedViews
from load.peers.requests import Requests
from load.peers.web import web_application


@dataclass(frozen=True, slots=True)
class Peer:
    """An ASGI application, and what is done before its first request."""

    application: Any
    open: Callable[[], Awaitable[None]]


def _direct(configuration: PeerConfiguration) -> Peer:
    return _web(configuration, DirectBackend(_database(configuration)))


def _redis(configuration: PeerConfiguration) -> Peer:
    return _web(configuration, _redis_aside(configuration))


def _memcached(configuration: PeerConfiguration) -> Peer:
    # Clients of caches are imported where they are needed: other peers run without them.
    from load.peers.memcached_cache import MemcachedCache

    host, port = configuration.options["address"]
    return _web(configuration, _cache_aside(configuration, MemcachedCache(host, port)))


def _redis_alone(configuration: PeerConfiguration) -> Peer:
    backend = _redis_aside(configuration)
    return Peer(BareApplication(Requests(configuration.site, backend)), backend.open)


def _materialized_view(configuration: PeerConfiguration) -> Peer:
    database = _database(configuration)
    schema, refresh_s = configuration.options["schema"], configuration.options["refresh_s"]
    return _web(configuration, MaterializedViews(database, configuration.site, schema, refresh_s))


def _empty(configuration: PeerConfiguration) -> Peer:
    async def nothing() -> None:
        """Nothing is needed."""

    return Peer(FixedApplication(configuration.options["headers"], configuration.options["body"]), nothing)


#: What can be asked for, by name.
PEERS: dict[str, Callable[[PeerConfiguration], Peer]] = {
    "direct": _direct,
    "redis": _redis,
    "memcached": _memcached,
    "materialized_view": _materialized_view,
    "redis_alone": _redis_alone,
    "empty": _empty,
}


def _database(configuration: PeerConfiguration) -> Database:
    return Database(configuration.database_url, configuration.site)


def _web(configuration: PeerConfiguration, backend: Backend) -> Peer:
    return Peer(web_application(Requests(configuration.site, backend)), backend.open)


def _redis_aside(configuration: PeerConfiguration) -> CacheAside:
    from load.peers.redis_cache import RedisCache

    return _cache_aside(configuration, RedisCache(configuration.options["url"]))


def _cache_aside(configuration: PeerConfiguration, cache: Cache) -> CacheAside:
    invalidate, ttl_s = configuration.options["invalidate"], configuration.options["ttl_s"]
    return CacheAside(_database(configuration), cache, configuration.site, invalidate=invalidate, ttl_s=ttl_s)


def main() -> None:
    """Serve until SIGTERM."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    configuration = _configuration()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    peer = PEERS[configuration.peer](configuration)
    server = _server_of(peer.application)
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(_serve(server, peer, listener))


def _configuration() -> PeerConfiguration:
    (length,) = LENGTH.unpack(sys.stdin.buffer.read(LENGTH.size))
    configuration: PeerConfiguration = pickle.loads(sys.stdin.buffer.read(length))
    return configuration


async def _serve(server: uvicorn.Server, peer: Peer, listener: socket.socket) -> None:
    await peer.open()
    await server.serve(sockets=[listener])


def _server_of(app: Any) -> uvicorn.Server:
    # The same arguments, and the same care for the garbage collector, as in the service's worker; of the protocol's
    # implementations the fastest that uvicorn has itself.
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
