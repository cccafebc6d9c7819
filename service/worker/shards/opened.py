"""Construction of a worker's application over several shards (for one shard: `service.worker.routes.app`)."""

from collections.abc import Sequence

from dataflow.types import Position
from service.leaf_store.reader import LeafReader
from service.protocol.engine_client import EngineClient
from service.settings.sections import HttpSettings, SubscriptionSettings
from service.web.messages import App
from service.worker.adhoc.queries import Queries
from service.worker.reads.batches import Batches
from service.worker.reads.reads import Answers, Reads, WantedRead
from service.worker.reads.view_reads import ViewReads
from service.worker.routes.app import documented_later
from service.worker.routes.batch_route import BatchRoute
from service.worker.routes.hot import HotRoute
from service.worker.shards.batch import ShardedBatches, ShardedBatchRoute
from service.worker.shards.reads import ShardedReads
from service.worker.shards.router import Router
from service.worker.subscriptions.routes import SubscribeRoute
from service.worker.subscriptions.topics import Subscriptions


def sharded_app(
    readers: Sequence[LeafReader],
    engines: Sequence[EngineClient],
    limits: HttpSettings,
    subscriptions: SubscriptionSettings | None = None,
    *,
    guarded: bool = False,
    adhoc: bool = False,
) -> Router:
    """Return the application over all shards' leaf stores and engines. `guarded`, `adhoc`: as for `build_app`."""
    settings = subscriptions or SubscriptionSettings()
    each = [Reads(reader, engine, limits) for reader, engine in zip(readers, engines, strict=True)]
    reads = ShardedReads(each, engines)
    batches = ShardedBatches(reads)
    queries = _queries(reads, engines[0], adhoc=adhoc)
    documented = documented_later(reads, batches, queries, limits.max_body_bytes)
    shards = [
        _shard(own, engine, documented, settings, guarded=guarded) for own, engine in zip(each, engines, strict=True)
    ]
    return Router(reads, shards, ShardedBatchRoute(reads, batches, shards, documented), documented, settings)


def _shard(
    reads: Reads, engine: EngineClient, documented: App, settings: SubscriptionSettings, *, guarded: bool
) -> HotRoute:
    views = ViewReads(reads)
    subscribe = SubscribeRoute(Subscriptions(reads, engine, settings), reads, settings)
    return HotRoute(reads, views, BatchRoute(reads, Batches(reads, views), documented), subscribe, guarded=guarded)


def _queries(reads: ShardedReads, engine: EngineClient, *, adhoc: bool) -> Queries:
    """Let the first shard match queries with views, and run the others."""

    async def serve(wanted: Sequence[WantedRead], wait_s: float | None, minimum: Position | None) -> Answers:
        reads.refresh()
        return await reads.serve(wanted, wait_s, minimum)

    first = reads.shards[0]
    return Queries(first, ViewReads(first), engine, adhoc, serve)
