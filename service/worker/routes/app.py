"""A worker's complete ASGI application: the hot route and the batch route before the documented application."""

from service.leaf_store.reader import LeafReader
from service.protocol.engine_client import EngineClient
from service.settings.sections import HttpSettings, SubscriptionSettings
from service.web.lazy_app import LazyApp
from service.web.messages import App
from service.worker.adhoc.queries import AnyQueries, Queries
from service.worker.reads.batches import AnyBatches, Batches
from service.worker.reads.known_views import KnownViews
from service.worker.reads.reads import Reads
from service.worker.reads.view_reads import ViewReads
from service.worker.routes.batch_route import BatchRoute
from service.worker.routes.hot import HotRoute
from service.worker.subscriptions.routes import SubscribeRoute
from service.worker.subscriptions.topics import Subscriptions


def build_app(
    reader: LeafReader,
    engine: EngineClient,
    limits: HttpSettings,
    subscriptions: SubscriptionSettings | None = None,
    *,
    guarded: bool = False,
    adhoc: bool = False,
) -> HotRoute:
    """Return the application over a leaf store and its engine. `guarded`: every request has a principal. `adhoc`:
    ad-hoc queries are enabled."""
    reads = Reads(reader, engine, limits)
    views = ViewReads(reads)
    batches = Batches(reads, views)
    documented = documented_later(reads, batches, Queries(reads, views, engine, adhoc), limits.max_body_bytes)
    settings = subscriptions or SubscriptionSettings()
    subscribe = SubscribeRoute(Subscriptions(reads, engine, settings), reads, settings)
    return HotRoute(reads, views, BatchRoute(reads, batches, documented), subscribe, guarded=guarded)


def documented_later(reads: KnownViews, batches: AnyBatches, queries: AnyQueries, max_body_bytes: int) -> App:
    """Return the documented application, built at its first request."""

    def build() -> App:
        from service.web.body_limit import BodyLimit
        from service.worker.routes.documented import documented_app

        return BodyLimit(documented_app(reads, batches, queries), max_body_bytes)

    return LazyApp(build)
