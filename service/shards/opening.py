"""Puts a worker's application over several shards together (as `service.http.app`, over one)."""

from collections.abc import Sequence

from dataflow.types import Position
from service.adhoc.queries import Queries
from service.http.app import documented_later
from service.http.batch_route import BatchRoute
from service.http.batches import Batches
from service.http.hot import HotRoute
from service.http.messages import App
from service.http.reads import Answers, Limits, Reads, Wanted
from service.http.view_reads import ViewReads
from service.leaf_store.reader import LeafReader
from service.settings.sections import SubscriptionSettings
from service.shards.batch import ShardedBatches, ShardedBatchRoute
from service.shards.reading import ShardedReads
from service.shards.router import Router
from service.subscriptions.routes import SubscribeRoute
from service.subscriptions.topics import Subscriptions
from service.wire import EngineClient


def sharded_app(
    readers: Sequence[LeafReader],
    engines: Sequence[EngineClient],
    limits: Limits,
    subscriptions: SubscriptionSettings | None = None,
    *,
    guarded: bool = False,
    adhoc: bool = False,
) -> Router:
    """The application over all shards' leaf stores and engines. `guarded`, `adhoc`: as of `build_app`."""
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
    """The first shard says what a query means, and runs what means no view."""

    async def serve(wanted: Sequence[Wanted], wait_s: float | None, minimum: Position | None) -> Answers:
        reads.refresh()
        return await reads.serve(wanted, wait_s, minimum)

    first = reads.shards[0]
    return Queries(first, ViewReads(first), engine, adhoc, serve)
