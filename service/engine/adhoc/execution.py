"""Execution of ad-hoc queries that match no view, by the upstream and unchanged.

*Invariants*: queries only read, in a read-only transaction; concurrency and result size are limited by the settings; an
abandoned query is cancelled upstream, too.

Not here: matching (`match`).
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from dataflow.errors import InvalidQuery
from dataflow.plan.refresh import RefreshView
from dataflow.sql.spelling import Spelling
from dataflow.types import Position, ViewId
from service.engine.adhoc.parser import AdhocParser
from service.engine.loop.visibility import Visibility
from service.engine.reads.slots import Slots
from service.engine.upstream.problems import forward_problem
from service.engine.upstream.results import AnswerSize, Described, ForwardRows, UpstreamError
from service.engine.upstream.upstream import Upstream
from service.engine.views.planner import place
from service.engine.views.stand_in import stand_in
from service.ground.clock import wall_ms
from service.ground.errors import ApiError
from service.leaf_store.answer import StoredAnswer
from service.leaf_store.catalog import describe
from service.leaf_store.layout import content_hash
from service.leaf_store.render import compile_row
from service.leaf_store.request import request_of
from service.protocol.reads import AnswerSource, ReadReply
from service.settings.adhoc import AdhocSettings
from service.web.arguments import Arguments

#: Maximum age of the upstream's description of a text: tables change.
_KNOWN_S = 30.0
_MAX_KNOWN = 1000
#: Queue length for each running query.
_WAITING = 50
#: Errors caused by the query, not by the database.
_REFUSALS = frozenset({"missing", "denied"})


@dataclass(frozen=True, slots=True)
class _CachedStatement:
    """Statement accepted by the upstream."""

    described: Described
    arguments: Arguments
    until_s: float


@dataclass(slots=True)
class QueryRunner:
    """Runs queries. *State*: `_known`, descriptions of the latest texts."""

    upstream: Upstream
    settings: AdhocSettings
    visible: Visibility
    #: Shared with lookups, so that connections remain for heartbeats.
    slots: Slots
    parsing: AdhocParser
    max_keys: int
    statements: int = 0
    _own: asyncio.Semaphore = field(init=False)
    _waiting: int = 0
    _known: OrderedDict[str, _CachedStatement] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self._own = asyncio.Semaphore(self.settings.concurrent_queries)

    async def run(self, spelling: Spelling, given: dict[str, Any], minimum: Position | None) -> ReadReply:
        """Returns the upstream's current result, at a snapshot that includes `minimum`. Raises `ApiError`."""
        if self._waiting >= _WAITING * self.settings.concurrent_queries:
            raise ApiError(
                "overloaded", "Too many ad-hoc queries are waiting for the database.", "Try again in a moment."
            )
        self._waiting += 1
        try:
            if minimum is not None:
                await self.visible.wait(minimum)
            async with self._own, self.slots.slot(()):
                return await self._run(spelling, given)
        except UpstreamError as error:
            raise problem_of(error) from None
        finally:
            self._waiting -= 1

    async def _run(self, spelling: Spelling, given: dict[str, Any]) -> ReadReply:
        asked_ms = wall_ms()
        known = await self._describe(spelling.sql)
        info = known.arguments.info
        (texts,) = request_of(info, known.arguments.values(given)).keys
        self.statements += 1
        most = AnswerSize(self.settings.limit_rows, self.settings.limit_bytes)
        found = await self.upstream.lookups.forward([(known.described.text, texts)], most)
        if found.columns[0] != known.described.columns:
            self._known.pop(spelling.sql, None)
            raise ApiError("read_timeout", "The columns of a table have just changed.", retryable=True)
        return ReadReply([_answer(known.described, found)], found.version, asked_ms, AnswerSource.QUERY)

    async def _describe(self, sql: str) -> _CachedStatement:
        known = self._known.get(sql)
        if known is not None and monotonic() < known.until_s:
            return known
        statement = await self.parsing.statement(sql)
        try:
            async with self.upstream.session() as session:
                described = await session.describe(statement)
        except InvalidQuery as error:
            raise invalid(sql, error) from None
        view = RefreshView("query", sql, described.parameters, described.output, (), "")
        info = describe(ViewId(0), stand_in(view), None, "ready", listed=False, refreshed=True)
        known = _CachedStatement(described, Arguments(info, self.max_keys), monotonic() + _KNOWN_S)
        if len(self._known) >= _MAX_KNOWN:
            self._known.popitem(last=False)
        self._known[sql] = known
        return known


def _answer(described: Described, found: ForwardRows) -> StoredAnswer:
    row_json = compile_row([(name, i, kind) for i, (name, kind) in enumerate(described.output)])
    body = b",".join(map(row_json, found.rows[0]))
    return StoredAnswer(b"[" + body + b"]", content_hash(body).hex())


def invalid(sql: str, error: Any) -> ApiError:
    """Returns the problem of an InvalidQuery or UnsupportedQuery, with its place."""
    return ApiError("query_invalid", error.reason, getattr(error, "hint", None), members=place(sql, error.span))


def problem_of(error: UpstreamError) -> ApiError:
    """Returns the problem of an upstream failure, as the client's error if it is one."""
    if error.code in _REFUSALS:
        return ApiError("query_invalid", f"The database rejects the query: {error.public_text}")
    if error.code == "too_large":
        return ApiError("too_large", error.public_text, "Request fewer rows, for example by a LIMIT.")
    if error.code == "timeout":
        return ApiError("read_timeout", "The query exceeded the database's statement timeout.", retryable=False)
    return forward_problem(error)
