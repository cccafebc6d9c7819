"""A worker's application over several shards: a complete application for each, behind a router.

*Theory*: a hit is answered by its shard's hot route, so its only additional cost is the choice of the shard: one
dictionary lookup for a recent query string. Only requests over several shards are answered here (`batch`).

*Invariants*: the choice of the shard decides where a key is stored, never whether an answer is correct. With one
shard none of this runs.

Not here: homes of keys (`placement`).
"""

import asyncio
from collections.abc import Sequence
from urllib.parse import quote

from service.ground.errors import ApiError
from service.settings.sections import SubscriptionSettings
from service.web.deferred import DeferredReply
from service.web.messages import App, Receive, Reply, Scope, Send
from service.web.principal import Principal, principal_of
from service.worker.reads.reads import WantedRead
from service.worker.reads.view_reads import VIEWS_PATH
from service.worker.routes.hot import HotRoute
from service.worker.shards.batch import ShardedBatchRoute
from service.worker.shards.placement import PlacedView
from service.worker.shards.reads import ShardedReads
from service.worker.shards.topics import ShardedSubscriptions
from service.worker.subscriptions.requests import asked_of
from service.worker.subscriptions.routes import serve_socket

_READS = frozenset({"GET", "HEAD"})
_SUBSCRIBE = "/subscribe"


class Router:
    """A `DirectApp`. *State*: `_views` of the catalogs of `_catalog`, by raw path."""

    def __init__(
        self,
        reads: ShardedReads,
        shards: Sequence[HotRoute],
        batches: ShardedBatchRoute,
        documented: App,
        settings: SubscriptionSettings,
    ) -> None:
        self.reads = reads
        self.shards = shards
        self._answers = [shard.answer for shard in shards]
        self._batches = batches
        self._documented = documented
        self._settings = settings
        self._subscriptions = ShardedSubscriptions(reads, [shard.subscribe.subscriptions for shard in shards])
        self._views: dict[bytes, PlacedView] = {}
        self._catalog: object = None
        self.reads_body = shards[0].reads_body

    def answer(self, scope: Scope, body: bytes | None) -> Reply | DeferredReply | None:
        if body is not None:
            return self._batches.answer(scope, body)
        placed = self._views.get(scope["raw_path"])
        if placed is None or scope["method"] not in _READS:
            return None
        query = scope["query_string"]
        shard = placed.remembered.get(query)
        if shard is None:
            try:
                shard = placed.of_query(query)
            except ApiError:
                return None
        return None if shard is None else self._answers[shard](scope, None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await serve_socket(scope, receive, send, self._subscriptions, self.reads, self._settings)
            return
        self._follow()
        name = _view_of(scope["path"])
        if name is not None:
            await self.shards[self._shard_of(scope, name)](scope, receive, send)
        elif self.reads_body(scope):
            await self._batches(scope, receive, send)
        elif self.shards[0].subscribe.is_for(scope):
            await self.shards[0](scope, receive, send)
        else:
            await self._documented(scope, receive, send)

    async def drain(self) -> None:
        await asyncio.gather(*(shard.subscribe.subscriptions.close() for shard in self.shards))

    def _shard_of(self, scope: Scope, name: str) -> int:
        """Return the shard that answers a read of or subscription to a view, or reports its error."""
        placed = self.reads.placing.views.get(name)
        if placed is None:
            return self.reads.placing.unknown()
        if placed.whole:
            return placed.shard
        try:
            return self._parsed(placed, scope, principal_of(scope))
        except ApiError:
            return placed.shard

    def _parsed(self, placed: PlacedView, scope: Scope, principal: Principal | None) -> int:
        query = scope["query_string"]
        if self.shards[placed.shard].subscribe.is_for(scope):
            wanted = asked_of(placed.route, query, scope["headers"], principal).wanted
        else:
            found = placed.of_query(query)
            if found is not None:
                return found
            values, window = placed.route.arguments.parse(query, principal)
            wanted = WantedRead(placed.route, values, window)
        return placed.of_values(wanted.values)

    def _follow(self) -> None:
        reads = self.reads
        reads.refresh()
        if reads.catalog is not self._catalog:
            self._catalog = reads.catalog
            self._views = {
                (VIEWS_PATH + quote(name, safe="")).encode(): placed for name, placed in reads.placing.views.items()
            }


def _view_of(path: str) -> str | None:
    """Return the view of a path for one key; None for other paths."""
    if not path.startswith(VIEWS_PATH):
        return None
    name = path.removeprefix(VIEWS_PATH).removesuffix(_SUBSCRIBE)
    return name if name and "/" not in name else None
