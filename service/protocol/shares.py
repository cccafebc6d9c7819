"""Shares of the shards of a service: each one's number, part of the memory and of the database's connections.

Not here: starting its process (`service.supervisor.stack`).
"""

from pydantic import ByteSize

from service.protocol.child import EngineChild, StreamChild
from service.protocol.run_directory import RunPaths
from service.settings.stack import Settings
from service.sharding.homes import Shard

#: Of the database's connections, what a shard cannot do with less than: heartbeats, pushes and lookups.
_LEAST_CONNECTIONS = 3


def shards_of(settings: Settings) -> list[Shard]:
    """The shards whose engines run here: all of them, or the one that this service is."""
    if settings.shard.of > 1:
        return [Shard(settings.shard.number, settings.shard.of)]
    of = settings.engine.shards
    return [Shard(number, of) for number in range(of)]


def engine_children(settings: Settings, run: RunPaths) -> list[EngineChild]:
    """The configurations of all engine processes. Several have their change stream read by another process."""
    own, stream = share_of(settings), run.stream_socket if settings.engine.shards > 1 else None
    return [EngineChild(own, run.directory, shard, stream) for shard in shards_of(settings)]


def stream_child(settings: Settings, listener: int) -> StreamChild:
    """The configuration of the process that reads the change stream for several engines."""
    upstream = settings.upstream.model_copy(update={"pool_size": 1})
    return StreamChild(settings.model_copy(update={"upstream": upstream}), listener)


def share_of(settings: Settings) -> Settings:
    """The settings as one shard has them: together the shards use what is configured, as far as that can be divided."""
    n = settings.engine.shards
    if n == 1:
        return settings
    engine, upstream = settings.engine, settings.upstream
    own = {
        "pool_size": max(_LEAST_CONNECTIONS, upstream.pool_size // n),
        "lookups_in_flight": max(1, upstream.lookups_in_flight // n),
    }
    return settings.model_copy(
        update={
            "engine": engine.model_copy(update={"memory": ByteSize(int(engine.memory) // n)}),
            "upstream": upstream.model_copy(update=own),
        }
    )
