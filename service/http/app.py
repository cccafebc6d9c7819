"""A worker's whole ASGI application: the hot route and the batch route in front of the documented one."""

from service.adhoc.queries import Queries
from service.http.batch_route import BatchRoute
from service.http.batches import Batches
from service.http.body_limit import BodyLimit
from service.http.documented import documented_app
from service.http.hot import HotRoute
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
    documented = BodyLimit(documented_app(reads, batches, Queries(reads, views, engine, adhoc)), limits.max_body_bytes)
    settings = subscriptions or SubscriptionSettings()
    subscribe = SubscribeRoute(Subscriptions(reads, engine, settings), reads, settings)
    return HotRoute(reads, views, BatchRoute(reads, batches, documented), subscribe, guarded=guarded)
