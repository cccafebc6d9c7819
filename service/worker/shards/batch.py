"""Batch reads over several shards, before the documented application (for one shard:
`service.worker.routes.batch_route`).

*Invariants*: responses equal the documented application's. A request that one shard can answer is left to its batch
route. A body that is invalid or does not have the documented form is left to the documented application.
"""

import time
from collections.abc import Sequence
from urllib.parse import quote

import structlog

from service.ground.errors import ApiError
from service.sharding.scatter import ShardPart
from service.web.deferred import DeferredReply
from service.web.messages import App, Headers, Receive, Reply, Scope, Send, problem_reply, send_reply
from service.web.principal import principal_of
from service.web.request_body import RequestBody
from service.worker.reads.batches import AnyBatches, batch_reply, result_of
from service.worker.reads.reads import WantedRead
from service.worker.reads.view_reads import VIEWS_PATH, cache_control_of, conditions_of
from service.worker.routes.batch_hits import AskedItems, AskedKeys
from service.worker.routes.hot import HotRoute
from service.worker.shards.hits import reply_of
from service.worker.shards.placement import PlacedView
from service.worker.shards.reads import ShardedReads

_READ = b"/v1/read"
_VIEWS, _QUERY = VIEWS_PATH.encode(), b"/query"
#: Scope key of the parsed body.
_PARSED = "upquery.parts"
_log = structlog.get_logger(__name__)
#: The reads by shard; or the number of the one shard that answers.
_Parsed = list[ShardPart[WantedRead]] | int


class ShardedBatches(AnyBatches):
    """Batches over several shards; each shard that is read waits for the minimum version."""

    def __init__(self, reads: ShardedReads) -> None:
        super().__init__(reads)
        self._sharded = reads

    async def answer(self, wanted: Sequence[WantedRead], headers: Headers, started: int) -> Reply:
        _, minimum, wait_s = conditions_of(headers)
        answers = await self._sharded.serve(wanted, wait_s, minimum)
        kept = cache_control_of(w.view for w in wanted)
        return batch_reply(answers, b",".join(map(result_of, answers.answers)), kept, started)


class ShardedBatchRoute:
    """ASGI: batch reads of all shards.

    *State*: `_queries` has the views of the catalogs of `_catalog` by raw path.
    """

    def __init__(
        self, reads: ShardedReads, batches: ShardedBatches, shards: Sequence[HotRoute], documented: App
    ) -> None:
        self._reads = reads
        self._batches = batches
        self._shards = shards
        self._documented = documented
        self._max_bytes = reads.limits.max_body_bytes
        self._catalog: object = None
        self._queries: dict[bytes, PlacedView] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter_ns()
        asked: _Parsed | None = scope.pop(_PARSED, None)
        body = await RequestBody.read(receive, self._max_bytes)
        if asked is None and body.content is not None:
            self._follow()
            asked = self._asked(scope, body.content)
        if isinstance(asked, int):
            await self._shards[asked](scope, body.replayed(receive), send)
            return
        reply = None if asked is None else await self._general(asked, scope, started)
        if reply is None:
            await self._documented(scope, body.replayed(receive), send)
        else:
            await send_reply(send, reply)

    def answer(self, scope: Scope, body: bytes) -> Reply | DeferredReply | None:
        """Return the response if the request is valid and all its keys are hits."""
        started = time.perf_counter_ns()
        self._follow()
        reply: Reply | DeferredReply | None = self._hits(scope, body, started)
        if reply is not None:
            return reply
        asked = self._asked(scope, body)
        if isinstance(asked, int):
            reply = self._shards[asked].answer(scope, body)
        else:
            reply = None if asked is None else self._at_once(asked, scope, started)
        if reply is None and asked is not None:
            scope[_PARSED] = asked
        return reply

    def _hits(self, scope: Scope, body: bytes, started: int) -> Reply | None:
        """Answer a plain request for keys of one view, if all are hits."""
        placed = self._queries.get(scope["raw_path"])
        if placed is None or placed.whole:
            return None
        try:
            asked = AskedKeys.of(self._batches, placed.route, body, principal_of(scope))
            if asked is None or not asked.names or len(asked.names) > self._batches.max_keys:
                return None
            if conditions_of(scope["headers"]).minimum is not None:
                return None
        except ApiError:
            return None
        return reply_of(self._reads.shards, placed, asked.names, started)

    def _asked(self, scope: Scope, content: bytes) -> _Parsed | None:
        """Parse the body; None if it is invalid or not plain."""
        try:
            parts = self._parts(scope, content)
        except ApiError:
            return None
        if parts is None or isinstance(parts, int):
            return parts
        return parts[0].shard if len(parts) == 1 else parts or None

    def _parts(self, scope: Scope, content: bytes) -> _Parsed | None:
        principal = principal_of(scope)
        asked: AskedItems | AskedKeys | None
        if scope["raw_path"] == _READ:
            asked = AskedItems.of(self._batches, content, principal)
        else:
            placed = self._queries.get(scope["raw_path"])
            if placed is None:
                return None
            if placed.whole:
                return placed.shard
            asked = AskedKeys.of(self._batches, placed.route, content, principal)
        wanted = None if asked is None else asked.wanted()
        return None if wanted is None else self._reads.parts(wanted)

    def _at_once(self, parts: list[ShardPart[WantedRead]], scope: Scope, started: int) -> Reply | None:
        try:
            if conditions_of(scope["headers"]).minimum is not None:
                return None
            answers = self._reads.at_once(parts)
        except ApiError:
            return None
        if answers is None:
            return None
        kept = cache_control_of(w.view for part in parts for w in part.items)
        return batch_reply(answers, b",".join(map(result_of, answers.answers)), kept, started)

    async def _general(self, parts: list[ShardPart[WantedRead]], scope: Scope, started: int) -> Reply | None:
        """Return the answer, or the problem of the read."""
        wanted = _in_order(parts)
        try:
            return await self._batches.answer(wanted, scope["headers"], started)
        except ApiError as error:
            replaced = self._reads.are_replaced([w.view for w in wanted])
            return None if replaced else problem_reply(error, scope["path"])
        except Exception:
            _log.exception("request_failed", path=scope["path"])
            failed = ApiError("internal_error", "The request failed; the log has the reason.")
            return problem_reply(failed, scope["path"])

    def _follow(self) -> None:
        reads = self._reads
        reads.refresh()
        if reads.catalog is not self._catalog:
            self._catalog = reads.catalog
            self._queries = {
                _VIEWS + quote(name, safe="").encode() + _QUERY: placed for name, placed in reads.placing.views.items()
            }


def _in_order(parts: Sequence[ShardPart[WantedRead]]) -> list[WantedRead]:
    placed = {place: item for part in parts for place, item in zip(part.places, part.items, strict=True)}
    return [placed[place] for place in range(len(placed))]
