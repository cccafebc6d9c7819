"""Batch route: ``POST /v1/views/{view}/query`` and ``POST /v1/read``, before the documented application.

*Theory*: in a web framework most of a batch's time is spent on validating its body against a model. Here the body is
parsed once; hits are answered from it (`batch_hits`), and other bodies of the documented form take the general path
(`Batches`).

*Invariants*: responses equal the documented application's (compared in `tests/service/worker/test_batch_route.py`).
A body of another form is left to it, with the received messages, so that every such refusal is written in one place.
Errors in a body of the documented form are refused here, by the same code.
"""

import time
from urllib.parse import quote

import structlog

from service.ground.errors import ApiError
from service.leaf_store.answer import LeafState
from service.leaf_store.catalog import UNREADABLE
from service.leaf_store.scan import NotCoveredError
from service.leaf_store.serving_options import OnLag
from service.leaf_store.transaction import LeafTransaction
from service.sharding.common_version import Exact
from service.web.messages import App, Headers, Receive, Reply, Scope, Send, problem_reply, send_reply
from service.web.principal import Principal, principal_of
from service.web.request_body import RequestBody
from service.worker.reads.batches import Batches, batch_reply
from service.worker.reads.lag import what_to_do
from service.worker.reads.part import is_part, part_reply
from service.worker.reads.reads import Answers, Reads, ViewRoute
from service.worker.reads.view_reads import VIEWS_PATH, conditions_of
from service.worker.routes.batch_hits import AskedItems, AskedKeys

_READ = b"/v1/read"
_VIEWS, _QUERY = VIEWS_PATH.encode(), b"/query"
_JSON = b"application/json"
#: Scope key of the parsed body.
_PARSED = "upquery.asked"
_Parsed = AskedKeys | AskedItems
_log = structlog.get_logger(__name__)


class BatchRoute:
    """ASGI: batch reads here, all other requests in `documented`.

    *State*: `_queries` has the readable views of `_catalog` by raw path.
    """

    def __init__(self, reads: Reads, batches: Batches, documented: App) -> None:
        self._reads = reads
        self._batches = batches
        self._documented = documented
        self._max_bytes = reads.limits.max_body_bytes
        self._catalog: object = None
        self._queries: dict[bytes, ViewRoute] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.is_for(scope):
            await self._documented(scope, receive, send)
            return
        started = time.perf_counter_ns()
        # A body that `answer` parsed and that was a miss is not parsed again.
        asked, reply = scope.pop(_PARSED, None), None
        body = await RequestBody.read(receive, self._max_bytes)
        if asked is None and body.content is not None:
            asked, reply = self._at_once(scope, body.content, started)
        if asked is not None and reply is None:
            reply = await self._general(asked, scope, started)
        if reply is None:
            await self._documented(scope, body.replayed(receive), send)
        else:
            await send_reply(send, reply)

    def is_for(self, scope: Scope) -> bool:
        """Return whether this is a batch read in its common form; others are left to the documented application."""
        return _is_batch(scope) and _is_plain(scope["headers"], self._max_bytes)

    def answer(self, scope: Scope, body: bytes) -> Reply | None:
        """Return the response if the request is valid and all its keys are hits."""
        asked, reply = self._at_once(scope, body, time.perf_counter_ns())
        if asked is not None and reply is None:
            scope[_PARSED] = asked
        return reply

    def _at_once(self, scope: Scope, content: bytes, started: int) -> tuple[_Parsed | None, Reply | None]:
        """Parse the body (None: invalid or not plain), and answer it if all its keys are hits."""
        asked = None
        with self._reads.reader.begin() as txn:
            state = self._follow(txn)
            try:
                asked = self._parse(scope["raw_path"], content, principal_of(scope))
                minimum = conditions_of(scope["headers"]).minimum
                if asked is None or state is None:
                    return asked, None
                if minimum is not None and not self._reads.minimums.has(state, minimum):
                    return asked, None
                if what_to_do(asked.views, time.time_ns() // 1_000_000 - state.at_ms) is not OnLag.SERVE:
                    return asked, None
                if is_part(scope["headers"]):
                    return asked, self._part(txn, state, asked, started)
                results = asked.hits(txn, self._reads.touches)
            except (ApiError, NotCoveredError):
                return asked, None
        if results is None:
            return asked, None
        answers = Answers([], state.position, state.at_ms, hit=True)
        return asked, batch_reply(answers, results, asked.cache_control, started)

    def _part(self, txn: LeafTransaction, state: LeafState, asked: _Parsed, started: int) -> Reply | None:
        """Answer a part. Raises ApiError, NotCoveredError."""
        hits = asked.part(txn, self._reads.touches)
        if hits is None:
            return None
        since = state.position if hits.since is None else min(hits.since, state.position)
        answers = Answers([], state.position, state.at_ms, hit=True)
        exact = Exact(answers, since, state.position, state.server, state.one_by_one)
        return part_reply(exact, hits.results, hits.lengths, asked.views, started)

    def _parse(self, path: bytes, content: bytes, principal: Principal | None) -> _Parsed | None:
        if path == _READ:
            return AskedItems.of(self._batches, content, principal)
        route = self._queries.get(path)
        return None if route is None else AskedKeys.of(self._batches, route, content, principal)

    async def _general(self, asked: _Parsed, scope: Scope, started: int) -> Reply | None:
        """Return the answer, or the problem of the read; None: the documented application must parse the body."""
        try:
            wanted = asked.wanted()
        except ApiError as error:
            return problem_reply(error, scope["path"])
        if wanted is None:
            return None
        try:
            return await self._batches.answer(wanted, scope["headers"], started)
        except ApiError as error:
            # The request may mean something else to the view that has the name now.
            replaced = self._reads.are_replaced(w.view for w in wanted)
            return None if replaced else problem_reply(error, scope["path"])
        except Exception:
            _log.exception("request_failed", path=scope["path"])
            failed = ApiError("internal_error", "The request failed; the log has the reason.")
            return problem_reply(failed, scope["path"])

    def _follow(self, txn: LeafTransaction) -> LeafState | None:
        """Follow the catalog in a transaction; return its state."""
        reads = self._reads
        state = reads.follow(txn)
        if reads.catalog is not self._catalog:
            self._catalog = reads.catalog
            ready = [(name, route) for name, route in reads.routes.items() if route.info.status not in UNREADABLE]
            self._queries = {_VIEWS + quote(name, safe="").encode() + _QUERY: route for name, route in ready}
        return state


def _is_batch(scope: Scope) -> bool:
    path = scope.get("raw_path", b"")
    return scope.get("method") == "POST" and (path == _READ or (path.startswith(_VIEWS) and path.endswith(_QUERY)))


def _is_plain(headers: Headers, max_bytes: int) -> bool:
    """Return whether a JSON body of a known, allowed length follows."""
    is_json = fits = False
    for name, value in headers:
        if name == b"content-type":
            is_json = value == _JSON
        elif name == b"content-length":
            fits = value.isdigit() and int(value) <= max_bytes
    return is_json and fits
