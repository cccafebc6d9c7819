"""Reads of one view over HTTP, every case: misses, NULL, pages, minimum versions, problems."""

import time

import orjson
import structlog

from dataflow.types import Position
from service.auth.principal import principal_of
from service.errors import ApiError
from service.http.messages import (
    CACHE_CONTROL,
    CACHE_HIT,
    CACHE_MISS,
    CONTENT_JSON,
    Headers,
    Reply,
    Scope,
    problem_reply,
)
from service.http.reads import Answers, Reads, Wanted
from service.http.version import parse_version

VIEWS_PATH = "/v1/views/"
_log = structlog.get_logger(__name__)


class ViewReads:
    """``GET`` and ``HEAD`` of ``/v1/views/{view}``."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def get(self, scope: Scope, name: str) -> Reply:
        """The response; a problem is one too."""
        try:
            return await self._get(scope, name)
        except ApiError as error:
            reply = problem_reply(error, scope["path"])
            if error.code == "method_not_allowed":
                reply.headers.append((b"allow", b"GET, HEAD"))
            return reply
        except Exception:
            _log.exception("read_failed", view=name)
            return problem_reply(ApiError("internal_error", "The read failed; the log has the reason."), scope["path"])

    async def _get(self, scope: Scope, name: str) -> Reply:
        started = time.perf_counter_ns()
        if scope["method"] not in ("GET", "HEAD"):
            raise ApiError(
                "method_not_allowed",
                f"{scope['method']} is not for {scope['path']}.",
                "GET it; for many keys POST to it with /query behind.",
            )
        principal = principal_of(scope)
        route = self._reads.route(name, principal)
        values, window = route.arguments.parse(scope["query_string"], principal)
        asked = await self.conditions(scope["headers"])
        answers = await self._reads.read([Wanted(route, values, window)])
        return _reply(scope, answers, asked, started)

    async def conditions(self, headers: Headers) -> bytes | None:
        """Wait for a minimum version, if one is asked for; what If-None-Match says."""
        asked, minimum, wait_s = conditions_of(headers)
        if minimum is not None:
            await self._reads.wait_for(minimum, wait_s)
        return asked


def conditions_of(headers: Headers) -> tuple[bytes | None, Position | None, float | None]:
    """If-None-Match, the minimum version, and for how many seconds to wait for that. ApiError ``bad_request``."""
    asked = minimum = wait_s = None
    for name, value in headers:
        if name == b"if-none-match":
            asked = value
        elif name == b"upquery-min-version":
            minimum = parse_version(value.decode("latin-1").strip())
        elif name == b"prefer":
            wait_s = preferred_wait_s(value.decode("latin-1"), wait_s)
    return asked, minimum, wait_s


def preferred_wait_s(prefer: str, default: float | None) -> float | None:
    """The seconds of ``wait=`` in a Prefer header (RFC 7240)."""
    for preference in prefer.split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            try:
                return max(0.0, float(value.strip().strip('"')))
            except ValueError:
                raise ApiError("bad_request", "Prefer: wait= takes a number of seconds.") from None
    return default


def not_modified(if_none_match: bytes, tag: bytes) -> bool:
    """Whether If-None-Match has the tag, compared weakly (RFC 9110, 13.1.2)."""
    return b'"%b"' % tag in if_none_match or if_none_match.strip() == b"*"


def answer_headers(answers: Answers, started: int) -> Headers:
    """Headers of every answer but its tag."""
    part = b"leaf" if answers.hit else b"miss"
    return [
        CACHE_HIT if answers.hit else CACHE_MISS,
        (b"upquery-version", answers.version.encode()),
        (b"upquery-age-ms", b"%d" % answers.age_ms),
        CACHE_CONTROL,
        (b"server-timing", b"%b;dur=%.3f" % (part, (time.perf_counter_ns() - started) / 1e6)),
    ]


def _reply(scope: Scope, answers: Answers, asked: bytes | None, started: int) -> Reply:
    answer = answers.answers[0]
    tag = answer.tag.encode()
    headers = [(b"etag", b'W/"%b"' % tag), *answer_headers(answers, started)]
    if answer.next is not None:
        headers.append((b"link", f'<{_page_url(scope, answer.next)}>; rel="next"'.encode()))
    if asked is not None and not_modified(asked, tag):
        return Reply(304, headers, b"")
    following = b"null" if answer.next is None else orjson.dumps(answer.next)
    body = b"".join(
        (b'{"rows":', answer.rows, b',"version":"', answers.version.encode(), b'","next":', following, b"}")
    )
    return Reply(200, [*headers, CONTENT_JSON, (b"content-length", b"%d" % len(body))], body)


def _page_url(scope: Scope, token: str) -> str:
    """The same request for the next page, relative."""
    kept = [
        part for part in scope["query_string"].decode("latin-1").split("&") if part and not part.startswith("after=")
    ]
    return f"{scope['raw_path'].decode('latin-1')}?{'&'.join([*kept, f'after={token}'])}"
