"""A worker's whole ASGI application: the hot route and the batch route in front of the documented one."""

from service.adhoc.queries import AnyQueries, Queries
from service.http.batch_route import BatchRoute
from service.http.batches import AnyBatches, Batches
from service.http.built_later import BuiltLater
from service.http.hot import HotRoute
from service.http.known_views import KnownViews
from service.http.messages import App
from service.http.reads import Limits, Reads
from service.http.view_reads import ViewReads
from service.leaf_store.reader import LeafReader
from service.settings.sections import SubscriptionSettings
from service.subscriptions.routes import SubscribeRoute
from service.subscriptions.topics import Subscriptions
from service.wire import EngineClient


def build_app(
    reader: LeafReader,
    engine: EngineClient,
    limits: Limits,
    subscriptions: SubscriptionSettings | None = None,
    *,
    guarded: bool = False,
    adhoc: bool = False,
) -> HotRoute:
    """The application over a leaf store and the engine that fills it. `guarded`: every request has a principal.
    `adhoc`: queries may name no view."""
    reads = Reads(reader, engine, limits)
    views = ViewReads(reads)
    batches = Batches(reads, views)
    documented = documented_later(reads, batches, Queries(reads, views, engine, adhoc), limits.max_body_bytes)
    settings = subscriptions or SubscriptionSettings()
    subscribe = SubscribeRoute(Subscriptions(reads, engine, settings), reads, settings)
    return HotRoute(reads, views, BatchRoute(reads, batches, documented), subscribe, guarded=guarded)


def documented_later(reads: KnownViews, batches: AnyBatches, queries: AnyQueries, max_body_bytes: int) -> App:
    """The documented application, for bodies of at most so many bytes."""

    def build() -> App:
        from service.http.body_limit import BodyLimit
        from service.http.documented import documented_app

        return BodyLimit(documented_app(reads, batches, queries), max_body_bytes)

    return BuiltLater(build)
