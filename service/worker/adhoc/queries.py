"""``POST /v1/query`` in a worker: a text known to match a view is a read of that view; the engine answers others.

*Invariants*: only a text's view and constants are cached, never an answer; if the view was replaced, the engine is
called again.

Not here: the match of texts and views (`service.engine.adhoc.match`), execution (`service.engine.adhoc.execution`).
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from dataflow.types import Position
from service.ground.errors import ApiError
from service.protocol.adhoc import Match
from service.protocol.engine_client import EngineClient
from service.protocol.reads import ReadReply
from service.web.messages import CONTENT_JSON, Headers, Reply
from service.web.principal import Principal, Right
from service.worker.reads.reads import Answers, Reads, ViewRoute, WantedRead
from service.worker.reads.view_reads import MetConditions, ViewReads, answer_headers

#: Maximum cached texts, and the maximum length of one.
_MAX_KNOWN = 2000
_MAX_KNOWN_CHARACTERS = 4000
#: The view cannot answer now, or not with these values.
_RUN_INSTEAD = frozenset({"view_not_found", "view_broken", "view_building"})
_NO_STORE = (b"cache-control", b"no-store")
#: By name, or in the order of ``?``.
Params = dict[str, Any] | list[Any]


class AnyQueries(Protocol):
    """Interface of ad-hoc queries."""

    async def answer(self, sql: str, params: Params, principal: Principal | None, headers: Headers) -> Reply:
        """Return the response. Raises ApiError."""
        ...


#: Answers reads of the matching view, within so many seconds and at a minimum version.
Serve = Callable[[Sequence[WantedRead], float | None, Position | None], Awaitable[Answers]]


@dataclass(slots=True)
class Queries:
    """Answers ad-hoc queries. *State*: `_known`, the matches by text."""

    reads: Reads
    views: ViewReads
    engine: EngineClient
    enabled: bool
    #: Replaces `reads` where the matching view may be in another shard.
    serve: Serve | None = None
    _known: dict[str, Match] = field(default_factory=dict)

    async def answer(self, sql: str, params: Params, principal: Principal | None, headers: Headers) -> Reply:
        started = time.perf_counter_ns()
        self._check(principal)
        given = _by_name(params)
        conditions = await self.views.conditions(headers)
        match = self._remembered(sql)
        if match is None:
            found = await self._ask(sql, given, conditions)
            if isinstance(found, ReadReply):
                return _run(found, started)
            match = found
            self._remember(sql, match)
        wanted = self._wanted(match, given)
        if wanted is not None:
            try:
                answers = await (self.serve or self.reads.serve)([wanted], conditions.wait_s, conditions.minimum)
                return _reply(answers, match.view, started)
            except ApiError as error:
                if error.code not in _RUN_INSTEAD:
                    raise
        found = await self._ask(sql, given, conditions, run=True)
        assert isinstance(found, ReadReply)
        return _run(found, started)

    def _check(self, principal: Principal | None) -> None:
        if not self.enabled:
            raise ApiError("forbidden", "Ad-hoc queries are disabled.", "Set [adhoc] enabled = true.")
        if principal is not None and Right.QUERY not in principal.rights:
            raise ApiError("forbidden", f"This token does not have the right to {Right.QUERY}.", "Use one that has it.")

    def _remembered(self, sql: str) -> Match | None:
        """Return the cached match of a text; None if the view has been replaced."""
        self.reads.refresh()
        match = self._known.get(sql)
        if match is not None and self._route(match) is None:
            del self._known[sql]
            return None
        return match

    def _remember(self, sql: str, match: Match) -> None:
        if len(sql) <= _MAX_KNOWN_CHARACTERS:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[sql] = match

    def _route(self, match: Match) -> ViewRoute | None:
        route = self.reads.routes.get(match.view)
        # A client that may query the database may read its answers.
        return None if route is None or route.info.id != match.id or route.info.status == "broken" else route

    def _wanted(self, match: Match, given: Mapping[str, Any]) -> WantedRead | None:
        """Return the read that equals a query; None if its constants are not valid values, or the view was dropped.

        Raises ApiError(parameter_…).
        """
        own = dict.fromkeys(match.given.values())
        _check_names(given, list(own))
        self.reads.refresh()
        route = self._route(match)
        if route is None:
            return None
        values = {**match.constants, **{name: given[mine] for name, mine in match.given.items()}}
        try:
            return WantedRead(route, route.arguments.values(values))
        except ApiError as error:
            mine = match.given.get(str(error.members.get("parameter")))
            if mine is None:
                return None
            raise ApiError(
                error.code, f"Parameter {mine!r} does not accept this value.", error.hint, members={"parameter": mine}
            ) from None

    async def _ask(
        self, sql: str, given: dict[str, Any], conditions: MetConditions, *, run: bool = False
    ) -> Match | ReadReply:
        limits = self.reads.limits
        limit_s = max(limits.read_timeout_s, min(conditions.wait_s or 0.0, limits.max_wait_s))
        with self.reads.waiting:
            return await self.engine.query(sql, given, limit_s, conditions.minimum, run=run)


def _by_name(params: Params) -> dict[str, Any]:
    """Return parameters by name; ``?`` and ``$1`` are named p1, p2 …"""
    given = params if isinstance(params, dict) else {f"p{n}": value for n, value in enumerate(params, 1)}
    try:
        orjson.dumps(given)
    except TypeError:
        raise ApiError(
            "invalid_request",
            "A parameter must be a JSON string, boolean, null or a number of at most 64 bits.",
            "Send large numbers as text.",
        ) from None
    return given


def _check_names(given: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in names:
        if name not in given:
            raise ApiError(
                "parameter_missing", f"Parameter {name!r} is missing.", "Add it to params.", members={"parameter": name}
            )
    for name in given:
        if name not in names:
            raise ApiError(
                "parameter_unknown", f"The query has no parameter {name[:60]!r}.", members={"parameter": name}
            )


def _run(found: ReadReply, started: int) -> Reply:
    return _reply(Answers(found.answers, found.position, found.at_ms, hit=False, source=found.source), None, started)


def _reply(answers: Answers, view: str | None, started: int) -> Reply:
    body = b"".join((b'{"rows":', answers.answers[0].rows, b',"version":', answers.version_json, b"}"))
    headers = [*answer_headers(answers, started), _NO_STORE, CONTENT_JSON]
    if view is not None:
        headers.append((b"upquery-view", view.encode()))
    return Reply(200, [*headers, (b"content-length", b"%d" % len(body))], body)
