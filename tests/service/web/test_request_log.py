"""Failures and slow requests are logged; nothing else is."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from service.ground.errors import ApiError
from service.web.deferred import DeferredReply
from service.web.messages import Receive, Reply, Scope, Send, problem_reply, send_reply
from service.web.request_log import RequestLog

FAILED = problem_reply(ApiError("upstream_unavailable", "The database does not answer."), "/v1/views/a")


class Site:
    """Gives the same response to everybody."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    def reads_body(self, scope: Scope) -> bool:  # noqa: ARG002
        return False

    def answer(self, scope: Scope, body: bytes | None) -> Reply | DeferredReply | None:  # noqa: ARG002
        return self.reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send_reply(send, self.reply)


class Deferring(Site):
    """Gives everybody the same response, later."""

    def __init__(self, reply: Reply | None) -> None:
        super().__init__(FAILED)
        self.later = reply

    def answer(self, scope: Scope, body: bytes | None) -> DeferredReply:  # noqa: ARG002
        return DeferredReply(lambda done: done(self.later))


def scope_of(query: bytes = b"", **headers: str) -> Scope:
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return {
        "type": "http",
        "method": "GET",
        "path": "/v1/views/\x1b[2Ja\n",
        "raw_path": b"/v1/views/%1B[2Ja%0A",
        "query_string": query,
        "headers": raw,
    }


def asked(log: RequestLog, *scopes: Scope) -> list[dict[bytes, bytes]]:
    """The headers of the responses."""
    found = []

    async def receive() -> dict[str, Any]:
        return {}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.append(dict(message["headers"]))

    async def main() -> None:
        for scope in scopes:
            await log(scope, receive, send)

    asyncio.run(main())
    return found


def test_a_failure_is_logged_with_its_reason_and_without_what_was_asked() -> None:
    with capture_logs() as lines:
        (headers,) = asked(
            RequestLog(Site(FAILED), 1000), scope_of(b"id=4711", x_request_id="a-1", authorization="Bearer 4711")
        )
    assert headers[b"x-request-id"] == b"a-1"
    (line,) = lines
    assert (line["event"], line["log_level"], line["request_id"]) == ("request failed", "warning", "a-1")
    assert (line["status"], line["code"], line["reason"]) == (
        503,
        "upstream_unavailable",
        "The database does not answer.",
    )
    # Nothing that a terminal would obey.
    assert line["path"] == "/v1/views/%1B[2Ja%0A"
    assert "4711" not in str(line)


@pytest.mark.parametrize("given", ["", "two words", "x" * 129, "a\r\nb", "ä"])
def test_an_id_that_is_none_is_replaced(given: str) -> None:
    with capture_logs() as lines:
        (headers,) = asked(RequestLog(Site(FAILED), 1000), scope_of(x_request_id=given))
    assert headers[b"x-request-id"].decode() == lines[0]["request_id"] != given
    assert len(lines[0]["request_id"]) == 16


def test_what_is_slow_is_logged_but_not_what_is_meant_to_be() -> None:
    fine = Reply(200, [], b"{}")
    with capture_logs() as lines:
        slow, poll = asked(RequestLog(Site(fine), 0), scope_of(), scope_of(b"live=poll&after=1"))
        (quick,) = asked(RequestLog(Site(fine), 60_000), scope_of())
    assert [line["event"] for line in lines] == ["request was slow"]
    assert b"x-request-id" in slow
    assert b"x-request-id" not in {**poll, **quick}


def test_what_is_answered_at_once_passes() -> None:
    with capture_logs() as lines:
        assert RequestLog(Site(FAILED), 0).answer(scope_of(), None) is FAILED
    assert not lines


@pytest.mark.parametrize("slow_ms", [0, 60_000])
def test_a_deferred_response_is_logged_as_any_other(slow_ms: int) -> None:
    came: list[Reply | None] = []
    fine = Reply(200, [], b"{}")
    with capture_logs() as lines:
        for reply in (FAILED, fine, None):
            deferred = RequestLog(Deferring(reply), slow_ms).answer(scope_of(x_request_id="a-1"), None)
            assert isinstance(deferred, DeferredReply)
            deferred.begin(came.append)
    slow = slow_ms == 0
    assert [line["event"] for line in lines] == ["request failed", *["request was slow"] * slow]
    failed, second, third = came
    assert failed == FAILED._replace(headers=[*FAILED.headers, (b"x-request-id", b"a-1")])
    assert second == fine._replace(headers=[(b"x-request-id", b"a-1")] * slow)
    assert third is None
