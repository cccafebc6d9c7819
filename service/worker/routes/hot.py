"""Hot route: ``GET /v1/views/{view}`` from the leaf store, before all other routes.

*Theory*: a hit costs one LMDB read transaction in addition to an empty response, so each step is the cheapest
equivalent of the general path (`ViewReads`): routes are found by the raw path, plain query strings are not decoded
(`Arguments.entry_of`), and headers that change only with a commit are cached by LMDB's transaction id. Reads that
are not plain take the general path, and so do misses, which are deferred: they need no ASGI task, and are not looked
for again before the engine has answered. Requests that are not reads go to the documented application.

*Invariants*: rows, version and tag of an answer are read in one transaction, which is closed before anything is
sent. Answers equal those of `ViewReads` and `service.leaf_store.reader` (compared in
`tests/service/worker/test_reads.py`).
"""

import asyncio
import time
from binascii import hexlify
from collections.abc import Callable
from struct import Struct
from typing import cast
from urllib.parse import quote

import lmdb

from dataflow.types import Key, ViewId
from service.ground.version import version_text
from service.leaf_store.layout import COUNT_SLICE, ENTRY_BYTES, HASH_SLICE, INLINE
from service.leaf_store.scan import NotCoveredError
from service.leaf_store.transaction import LeafTransaction
from service.protocol.adhoc import is_of_query
from service.protocol.counters import ReadCounters
from service.web.deferred import WATCH_S, DeferredReply, Done
from service.web.messages import (
    CACHE_HIT,
    CONTENT_JSON,
    VARY,
    Headers,
    Receive,
    Reply,
    Scope,
    Send,
    send_reply,
)
from service.web.principal import principal_of
from service.worker.reads.large_answers import LargeAnswer, send_large
from service.worker.reads.reads import Reads, ViewRoute
from service.worker.reads.view_reads import VIEWS_PATH, ViewReads, not_modified, varies
from service.worker.routes.batch_route import BatchRoute
from service.worker.subscriptions.requests import EVENT_STREAM
from service.worker.subscriptions.routes import SubscribeRoute

_HEAD = b'{"rows":['
_NO_PAGE = '],"version":"%s","next":null}'
_READS = frozenset({"GET", "HEAD"})
#: Scope key of the view, if the leaf store was just seen not to have the answer. (A view with a mark is complete.)
_MISSED = "upquery.missed"
#: Request headers that change the answer.
_ASKING = frozenset({b"accept", b"if-none-match", b"upquery-min-version"})
#: Server-Timing by microseconds; the last one is for all longer times.
_MAX_TIMING_US = 1000
_TIMINGS = [(b"server-timing", b"leaf;dur=%.3f" % (us / 1000)) for us in range(_MAX_TIMING_US + 1)]
_count = Struct(f">{COUNT_SLICE.start}xI").unpack_from
_now_ns = time.time_ns


class HotRoute:
    """A `DirectApp`: reads of views here, all other requests in `batches` and the applications behind it.

    *State*: `_routes` has the ready views by raw path; with `_tail`, `_version` and `_at_ms` it belongs to the
    commit whose LMDB transaction id is `_commit`. `_deferred` are reads that wait for the engine.
    """

    def __init__(
        self, reads: Reads, views: ViewReads, batches: BatchRoute, subscribe: SubscribeRoute, *, guarded: bool = False
    ) -> None:
        self.reads = reads
        self._views = views
        self._batches = batches
        self.subscribe = subscribe
        self._begin = cast(Callable[[], LeafTransaction], reads.reader.environment.begin)
        self._routes: dict[bytes, ViewRoute] = {}
        self._catalog: object = None
        self._commit = -1
        self._tail = b""
        self._version = (b"upquery-version", b"")
        self._at_ms = self._now_ms = 0
        self._age_ms, self._age = (b"upquery-age-ms", b"0"), (b"age", b"0")
        self._deferred: set[asyncio.Task[Reply | LargeAnswer]] = set()
        self._note = reads.touches.note
        # Without access control, the check of rights is skipped.
        self._guarded = guarded
        self._permitted = self._permitted_hit if guarded else self._hit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get(scope.get("raw_path", b""))
        skips = route is None or scope.get("method") not in _READS or scope.get(_MISSED) is route
        reply = None if route is None or skips else self._permitted(route, scope)
        if reply is None:
            await self._general(scope, receive, send)
        else:
            await send_reply(send, reply)

    def reads_body(self, scope: Scope) -> bool:
        return scope["method"] == "POST" and self._batches.is_for(scope)

    def answer(self, scope: Scope, body: bytes | None) -> Reply | DeferredReply | None:
        if body is not None:
            return self._batches.answer(scope, body)
        route = self._routes.get(scope["raw_path"])
        if route is None or scope["method"] not in _READS:
            return None
        reply = self._permitted(route, scope)
        if reply is None and scope.get(_MISSED) is not None and self._may_defer(route, scope):
            return DeferredReply(lambda done: self._defer(route, scope, done))
        return reply

    def _may_defer(self, route: ViewRoute, scope: Scope) -> bool:
        """Return False for a response that a task streams, or whose token a task would check again meanwhile."""
        if route.info.serving.streams:
            return False
        if not self._guarded:
            return True
        return self.reads.limits.read_timeout_s <= WATCH_S and all(name != b"prefer" for name, _ in scope["headers"])

    def _defer(self, route: ViewRoute, scope: Scope, done: Done) -> None:
        """Answer a miss without an ASGI task."""
        task = asyncio.get_running_loop().create_task(self._views.get(scope, route.info.name, route))
        self._deferred.add(task)

        def ended(task: asyncio.Task[Reply | LargeAnswer]) -> None:
            self._deferred.discard(task)
            if not task.cancelled():
                reply = task.result()
                done(reply if isinstance(reply, Reply) else None)

        task.add_done_callback(ended)

    def _permitted_hit(self, route: ViewRoute, scope: Scope) -> Reply | None:
        """Answer as `_hit`, if the client may read the view and it is not an ad-hoc query's; the general path
        refuses."""
        principal = principal_of(scope)
        if principal is None or not (principal.reads_all or principal.may_read(route.info.name)):
            return None
        return self._hit(route, scope)

    def _hit(self, route: ViewRoute, scope: Scope) -> Reply | None:
        """Answer from the leaf store; None if this is not the plain case."""
        started = _now_ns()
        name = route.entry_of(scope["query_string"])
        if name is None:
            return None
        asked = None
        for header, value in scope["headers"]:
            if header in _ASKING and (header != b"accept" or EVENT_STREAM in value):
                if header != b"if-none-match" or asked is not None:
                    return None
                asked = value
        try:
            txn = self._begin()
        except lmdb.MapResizedError:
            return None
        try:
            if txn.id() != self._commit and not self._follow(txn):
                return None
            late = route.max_lag_ms is not None and started // 1_000_000 - self._at_ms > route.max_lag_ms
            entry = None if late else txn.get(name)
            if entry is None:
                scope[_MISSED] = None if late or txn.get(route.info.head) is not None else route
                return None
            if entry[0] == INLINE and not route.cut:
                rows, digest = entry[ENTRY_BYTES : ENTRY_BYTES + _count(entry)[0]], entry[HASH_SLICE]
            else:
                rows, digest = route.rows_in(txn, name, entry, scope["query_string"])
        except NotCoveredError:
            return None
        finally:
            txn.abort()
        route.counters.hits += 1
        self._note(name)
        now_ns = _now_ns()
        now_ms = now_ns // 1_000_000
        if now_ms != self._now_ms:
            self._now_ms = now_ms
            age_ms = max(0, now_ms - self._at_ms)
            self._age_ms = (b"upquery-age-ms", b"%d" % age_ms)
            self._age = (b"age", b"%d" % (age_ms // 1000))
        tag = hexlify(digest)
        etag = (b"etag", b'W/"%b"' % tag)
        if asked is not None and not_modified(asked, tag):
            return self._not_modified(route, etag, len(rows))
        body = b"".join((_HEAD, rows, self._tail))
        took_us = (now_ns - started) // 1000
        headers: Headers = [
            CONTENT_JSON,
            (b"content-length", b"%d" % len(body)),
            etag,
            CACHE_HIT,
            self._version,
            self._age_ms,
            self._age,
            route.cache_control,
            # The clock may have been set back.
            _TIMINGS[took_us if 0 <= took_us < _MAX_TIMING_US else -1],
        ]
        return Reply(200, headers, body)

    def _not_modified(self, route: ViewRoute, etag: tuple[bytes, bytes], rows_bytes: int) -> Reply:
        headers = [etag, CACHE_HIT, self._version, self._age_ms, self._age, route.cache_control]
        if varies(rows_bytes, self.reads.limits.compress_bytes):
            headers.append(VARY)
        return Reply(304, headers, b"")

    async def drain(self) -> None:
        await self.subscribe.subscriptions.close()

    def counters(self) -> dict[str, ReadCounters]:
        """Return this worker's reads since its start, by view."""
        return self.reads.counters

    def take_touches(self) -> list[tuple[ViewId, Key, int]]:
        """Return a bounded sample of the keys read since the last call, with their counted hits, for reports."""
        return self.reads.take_touches()

    def _follow(self, txn: LeafTransaction) -> bool:
        """Take over a new commit; False if the views have changed, so that a route may be outdated."""
        reader = self.reads.reader
        state = reader.state_in(txn)
        catalog = reader.catalog_in(txn, state)
        if catalog is not self._catalog or state is None:
            return False
        version = version_text(state.position)
        self._tail = (_NO_PAGE % version).encode()
        self._version = (b"upquery-version", version.encode())
        self._at_ms = state.at_ms
        self._now_ms = 0
        self._commit = txn.id()
        return True

    async def _general(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.subscribe.is_for(scope):
            await self.subscribe(scope, receive, send)
            return
        path = scope["path"]
        name = path.removeprefix(VIEWS_PATH)
        if not path.startswith(VIEWS_PATH) or not name or "/" in name:
            await self._batches(scope, receive, send)
            return
        # Among shards, or after a change of views, the request may have come to another view than before.
        missed = self._routes.get(scope["raw_path"])
        if scope.pop(_MISSED, None) is not missed or missed is None:
            missed = None
            self._follow_catalog()
        reply = await self._views.get(scope, name, missed)
        if isinstance(reply, LargeAnswer):
            await send_large(receive, send, reply, head=scope["method"] == "HEAD")
        else:
            await send_reply(send, reply)

    def _follow_catalog(self) -> None:
        """Route the ready views of the current catalog."""
        reads = self.reads
        reads.refresh()
        if reads.catalog is not self._catalog:
            self._catalog = reads.catalog
            self._commit = -1
            self._routes = {
                (VIEWS_PATH + quote(name, safe="")).encode(): route
                for name, route in reads.routes.items()
                # Views with stale answers take the general path, which stores the answers. So do views of ad-hoc
                # queries with access control, which need another right.
                if route.info.status == "ready" and not route.stale_ms and not (self._guarded and is_of_query(name))
            }
