"""A worker's whole ASGI application: the hot route in front of the documented one."""

from service.http.body_limit import BodyLimit
from service.http.documented import documented_app
from service.http.hot import HotRoute
from service.http.reads import Limits, Reads
from service.http.view_reads import ViewReads
from service.leaf_store.reader import LeafReader
from service.wire import EngineClient


def build_app(reader: LeafReader, engine: EngineClient, limits: Limits) -> HotRoute:
    """The application over a leaf store and the engine that fills it."""
    reads = Reads(reader, engine, limits)
    views = ViewReads(reads)
    return HotRoute(reads, views, BodyLimit(documented_app(reads, views), limits.max_body_bytes))
