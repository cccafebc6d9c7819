"""FastAPI with Redis or memcached beside the database, as teams write it by hand (`load.peers.cache_aside`)."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from load import processes
from load.peers.configuration import PeerConfiguration
from load.sides.application import running_application
from load.sides.cache_servers import CacheServer, running_memcached, running_redis
from load.sides.side import Side, StartSide, UpstreamDatabase
from load.site import SiteDefinition


def redis(invalidate: bool = True, ttl_s: int | None = 3600, memory_mib: int | None = None) -> StartSide:
    """Redis. `invalidate`: writes delete what they make wrong; `ttl_s`: None keeps entries until then."""
    return _cache_aside(
        f"Redis, {_expiry(invalidate, ttl_s)}",
        "redis",
        lambda: running_redis(memory_mib),
        lambda server: {"url": redis_url(server), "invalidate": invalidate, "ttl_s": ttl_s},
    )


def memcached(invalidate: bool = True, ttl_s: int | None = 3600, memory_mib: int | None = None) -> StartSide:
    return _cache_aside(
        f"memcached, {_expiry(invalidate, ttl_s)}",
        "memcached",
        lambda: running_memcached(memory_mib),
        lambda server: {"address": server.address, "invalidate": invalidate, "ttl_s": ttl_s},
    )


def redis_alone() -> StartSide:
    """The idealised cache: GET and MGET behind the least HTTP, nothing ever invalidated or expired.

    What is read for the first time is filled from the database: read everything once before measuring.
    """
    return _cache_aside(
        "Redis alone",
        "redis_alone",
        running_redis,
        lambda server: {"url": redis_url(server), "invalidate": False, "ttl_s": None},
    )


def redis_url(server: CacheServer) -> str:
    """The URL for clients of Redis."""
    host, port = server.address
    return f"redis://{host}:{port}/0"


def _expiry(invalidate: bool, ttl_s: int | None) -> str:
    expiring = "no expiry" if ttl_s is None else f"{ttl_s} s"
    return f"invalidated, {expiring}" if invalidate else expiring


def _cache_aside(
    name: str,
    peer: str,
    running_cache: Callable[[], AbstractContextManager[CacheServer]],
    options: Callable[[CacheServer], dict[str, Any]],
) -> StartSide:
    @contextmanager
    def start(upstream: UpstreamDatabase, site: SiteDefinition) -> Iterator[Side]:
        with (
            running_cache() as cache,
            running_application(PeerConfiguration(peer, site, upstream.url, options(cache))) as app,
        ):
            yield Side(
                name=name,
                reads_url=app.url,
                writes_url=app.url,
                pids=lambda: [app.pid, cache.pid, *upstream.pids()],
                resident_bytes=lambda: processes.resident_bytes([app.pid, cache.pid]),
                state_bytes=cache.state_bytes,
                flush=cache.clear,
            )

    return start
