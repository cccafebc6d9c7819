"""Reads of one view over HTTP, every case: misses, NULL, pages, minimum versions, problems."""

import time
from collections.abc import Iterable
from typing import NamedTuple

import orjson
import structlog

from dataflow.types import Position
from service.ground.errors import ApiError
from service.ground.version import Minimum, parse_minimum
from service.web.messages import (
    CACHE_CONTROL,
    CACHE_HIT,
    CACHE_STATUS,
    CONTENT_JSON,
    VARY,
    VARY_BY_TOKEN,
    Headers,
    Reply,
    Scope,
    problem_reply,
)
from service.web.principal import principal_of
from service.worker.reads.large_answers import LargeAnswer, begun
from service.worker.reads.reads import Answers, Reads, ViewRoute, WantedRead

VIEWS_PATH = "/v1/views/"
#: Maximum bytes of an answer around its rows: the version and the token of the next page.
_AROUND_BYTES = 1024
_log = structlog.get_logger(__name__)


class Conditions(NamedTuple):
    """Conditions in a request's headers: If-None-Match, the minimum version, and the time limit in seconds."""

    if_none_match: bytes | None
    minimum: Minimum | None
    wait_s: float | None


class MetConditions(NamedTuple):
    """Conditions after the wait; `minimum` is a position that includes the requested version."""

    if_none_match: bytes | None
    minimum: Position | None
    wait_s: float | None


class ViewReads:
    """``GET`` and ``HEAD`` of ``/v1/views/{view}``."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def get(self, scope: Scope, name: str, missed: ViewRoute | None = None) -> Reply | LargeAnswer:
        """Return the response, which may be a problem. The catalog was just followed; `missed`: the view, if its leaf
        store was just seen not to have the answer."""
        try:
            return await self._get(scope, name, missed)
        except ApiError as error:
            reply = problem_reply(error, scope["path"])
            if error.code == "method_not_allowed":
                reply.headers.append((b"allow", b"GET, HEAD"))
            return reply
        except Exception:
            _log.exception("read_failed", view=name)
            return problem_reply(ApiError("internal_error", "The read failed; the log has the reason."), scope["path"])

    async def _get(self, scope: Scope, name: str, missed: ViewRoute | None) -> Reply | LargeAnswer:
        started = time.perf_counter_ns()
        if scope["method"] not in ("GET", "HEAD"):
            raise ApiError(
                "method_not_allowed",
                f"{scope['method']} is not for {scope['path']}.",
                "Use GET; for many keys POST to its path with /query appended.",
            )
        route = missed or self._reads.listed(name, principal_of(scope))
        try:
            conditions, answers = await self._read(route, scope, missed=missed is not None)
        except ApiError as error:
            if error.code == "too_large" and route.info.serving.streams:
                return await self._large(route, scope)
            if not self._reads.are_replaced([route]):
                raise
            # Parse again: the request may mean something else to the view that has the name now.
            route = self._reads.listed(name, principal_of(scope))
            conditions, answers = await self._read(route, scope, missed=False)
        headers = [*answer_headers(answers, started), route.cache_control]
        if route.info.claims:
            headers.append(VARY_BY_TOKEN)
        return self._reply(scope, answers, conditions.if_none_match, headers)

    async def _large(self, route: ViewRoute, scope: Scope) -> LargeAnswer:
        """Return the whole answer as a stream: it was too large for the store."""
        values, window = route.arguments.parse(scope["query_string"], principal_of(scope))
        if window is not None:
            detail = "The rows are too many for the store, so pages of them cannot be read."
            raise ApiError("too_large", detail, "Leave out limit and after.")
        conditions = await self.conditions(scope["headers"])
        parts = self._reads.stream(WantedRead(route, values, None), conditions.wait_s, conditions.minimum)
        vary = [VARY_BY_TOKEN] if route.info.claims else []
        return await begun(route, parts, [route.cache_control, *vary])

    async def _read(self, route: ViewRoute, scope: Scope, *, missed: bool) -> tuple[MetConditions, Answers]:
        values, window = route.arguments.parse(scope["query_string"], principal_of(scope))
        conditions = await self.conditions(scope["headers"])
        wanted = [WantedRead(route, values, window)]
        return conditions, await self._reads.serve(wanted, conditions.wait_s, conditions.minimum, missed=missed)

    async def conditions(self, headers: Headers) -> MetConditions:
        """Return the headers' conditions, after waiting for the minimum version."""
        asked, minimum, wait_s = conditions_of(headers)
        return MetConditions(asked, None if minimum is None else await self._reads.wait_for(minimum, wait_s), wait_s)

    def _reply(self, scope: Scope, answers: Answers, asked: bytes | None, headers: Headers) -> Reply:
        answer = answers.answers[0]
        tag = answer.tag.encode()
        headers.append((b"etag", b'W/"%b"' % tag))
        if answer.next is not None:
            headers.append((b"link", f'<{_page_url(scope, answer.next)}>; rel="next"'.encode()))
        if asked is not None and not_modified(asked, tag):
            if varies(len(answer.rows) - len("[]"), self._reads.limits.compress_bytes):
                headers.append(VARY)
            return Reply(304, headers, b"")
        following = b"null" if answer.next is None else orjson.dumps(answer.next)
        body = b"".join((b'{"rows":', answer.rows, b',"version":', answers.version_json, b',"next":', following, b"}"))
        return Reply(200, [*headers, CONTENT_JSON, (b"content-length", b"%d" % len(body))], body)


def conditions_of(headers: Headers) -> Conditions:
    """Parse the headers. Raises ApiError(bad_request)."""
    asked = minimum = wait_s = None
    for name, value in headers:
        if name == b"if-none-match":
            # A list, which may be on several lines.
            asked = value if asked is None else asked + b"," + value
        elif name == b"upquery-min-version":
            minimum = parse_minimum(value.decode("latin-1").strip())
        elif name == b"prefer":
            wait_s = preferred_wait_s(value.decode("latin-1"), wait_s)
    return Conditions(asked, minimum, wait_s)


def preferred_wait_s(prefer: str, default: float | None) -> float | None:
    """Return the seconds of ``wait=`` in a Prefer header (RFC 7240)."""
    for preference in prefer.split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            try:
                return max(0.0, float(value.strip().strip('"')))
            except ValueError:
                raise ApiError("bad_request", "Prefer: wait= takes a number of seconds.") from None
    return default


def not_modified(if_none_match: bytes, tag: bytes) -> bool:
    """Return whether If-None-Match contains the tag, compared weakly (RFC 9110, 13.1.2)."""
    return b'"%b"' % tag in if_none_match or if_none_match.strip() == b"*"


def varies(rows_bytes: int, compress_bytes: int) -> bool:
    """Return whether an answer with so many bytes of rows, without the brackets, may be sent compressed. Includes
    answers that reach the limit only with the bytes around their rows."""
    return 0 < compress_bytes <= rows_bytes + _AROUND_BYTES


def answer_headers(answers: Answers, started: int) -> Headers:
    """Return the headers of every answer except ETag and Cache-Control."""
    part = b"leaf" if answers.hit else b"miss"
    age_ms = answers.age_ms
    version = answers.version
    return [
        CACHE_HIT if answers.hit else CACHE_STATUS[answers.source],
        *(() if version is None else ((b"upquery-version", version.encode()),)),
        (b"upquery-age-ms", b"%d" % age_ms),
        (b"age", b"%d" % (age_ms // 1000)),
        (b"server-timing", b"%b;dur=%.3f" % (part, (time.perf_counter_ns() - started) / 1e6)),
    ]


def cache_control_of(views: Iterable[ViewRoute]) -> tuple[bytes, bytes]:
    """Return the Cache-Control header of an answer about several views: their common one, else the strictest."""
    headers = {view.cache_control for view in views}
    return headers.pop() if len(headers) == 1 else CACHE_CONTROL


def _page_url(scope: Scope, token: str) -> str:
    """Return the relative URL of the next page."""
    kept = [
        part for part in scope["query_string"].decode("latin-1").split("&") if part and not part.startswith("after=")
    ]
    return f"{scope['raw_path'].decode('latin-1')}?{'&'.join([*kept, f'after={token}'])}"
