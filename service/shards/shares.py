"""What each shard of a service gets: its number, its share of the memory and of the database's connections.

Not here: starting its process (`service.supervisor`).
"""

from pathlib import Path

from pydantic import ByteSize

from service.child import EngineChild
from service.settings.load import Settings
from service.shards.homes import Shard

#: Of the database's connections, what a shard cannot do with less than: heartbeats, pushes and lookups.
_LEAST_CONNECTIONS = 3


def shards_of(settings: Settings) -> list[Shard]:
    """The shards whose engines run here: all of them, or the one that this service is."""
    if settings.shard.of > 1:
        return [Shard(settings.shard.number, settings.shard.of)]
    of = settings.engine.shards
    return [Shard(number, of) for number in range(of)]


def engine_children(settings: Settings, run_directory: Path) -> list[EngineChild]:
    """The configurations of all engine processes."""
    own = share_of(settings)
    return [EngineChild(own, run_directory, shard) for shard in shards_of(settings)]


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
