"""The guards, around an application that says who asked: what reaches it, and for how long."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from service.supervisor.admin.guard import AdminGuard
from service.web.auth import authority, guard
from service.web.auth.authority import Authority
from service.web.auth.guard import Guard
from service.web.auth.tokens import TokensFile, entry_text, new_token
from service.web.messages import Receive, Reply, Scope, Send
from service.web.principal import ANONYMOUS, SCOPE_KEY, Principal

TOKEN, ADMIN = new_token(), new_token()
Messages = list[dict[str, Any]]


class Inside:
    """Guarded application: records the scopes that reach it, and answers, or runs until it is ended."""

    def __init__(self, *, endless: bool = False) -> None:
        self.seen: list[Scope] = []
        self._endless = endless

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        self.seen.append(scope)
        if self._endless:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await asyncio.Event().wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})

    def reads_body(self, scope: Scope) -> bool:  # noqa: ARG002
        return True

    def answer(self, scope: Scope, body: bytes | None) -> Reply:  # noqa: ARG002
        self.seen.append(scope)
        return Reply(200, [], b"x")


def scope_of(token: str | None, path: str = "/v1/read", **more: Any) -> Scope:
    headers = [] if token is None else [(b"authorization", b"Bearer " + token.encode())]
    return {"type": "http", "method": "GET", "path": path, "headers": headers, **more}


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.toml"
    path.write_text("\n".join([entry_text("web", TOKEN, {}), entry_text("ops", ADMIN, {"rights": '["admin"]'})]))
    return path


async def call(app: Callable[[Scope, Receive, Send], Awaitable[None]], scope: Scope) -> Messages:
    sent: Messages = []

    async def send(message: Any) -> None:
        sent.append(dict(message))

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    await app(scope, receive, send)
    return sent


def status_of(sent: Messages) -> int:
    return int(sent[0]["status"])


def test_only_who_was_admitted_is_answered_at_once(tokens: Path) -> None:
    inside = Inside()
    app = Guard(inside, Authority(TokensFile(tokens)))
    for token in (TOKEN, ADMIN, None, "x"):
        assert not app.reads_body(scope_of(token))
        assert app.answer(scope_of(token), b"") is None
    statuses = [status_of(asyncio.run(call(app, scope_of(token)))) for token in (TOKEN, ADMIN, None, "x")]
    assert statuses == [200, 403, 401, 401]
    assert app.reads_body(scope_of(TOKEN))
    assert app.answer(scope_of(TOKEN), b"") is not None
    for token in (ADMIN, None, "x"):
        assert app.answer(scope_of(token), b"") is None
    assert [scope[SCOPE_KEY].name for scope in inside.seen] == ["web", "web"]


def test_a_socket_that_is_refused_is_not_opened(tokens: Path) -> None:
    app = Guard(Inside(), Authority(TokensFile(tokens)))
    plain = asyncio.run(call(app, scope_of("x", type="websocket")))
    assert [message["type"] for message in plain] == ["websocket.close"]
    told = asyncio.run(call(app, scope_of("x", type="websocket", extensions={"websocket.http.response": {}})))
    assert [message["type"] for message in told] == ["websocket.http.response.start", "websocket.http.response.body"]
    assert told[0]["status"] == 401


def test_what_goes_on_ends_with_its_token(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "WATCH_S", 0.01)
    monkeypatch.setattr(authority, "RECHECK_S", 0.0)
    app = Guard(Inside(endless=True), Authority(TokensFile(tokens)))

    async def main() -> Messages:
        running = asyncio.create_task(call(app, scope_of(TOKEN)))
        # The token stays, and has other rights.
        tokens.write_text(entry_text("web", TOKEN, {"views": '["story"]'}))
        return await asyncio.wait_for(running, 30)

    sent = asyncio.run(main())
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert not sent[1].get("more_body")


def test_a_decision_holds_no_longer_than_the_token(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(authority, "time", SimpleNamespace(time=lambda: now[0], monotonic=lambda: now[0]))
    tokens.write_text(entry_text("web", TOKEN, {"expires": "1970-01-01T00:16:40.500Z"}))
    known = Authority(TokensFile(tokens))
    headers = scope_of(TOKEN)["headers"]
    asyncio.run(known.principal(headers))
    assert known.known(headers) is not None
    now[0] += 0.4
    assert known.known(headers) is not None
    now[0] += 0.2
    assert known.known(headers) is None
    assert status_of(asyncio.run(call(Guard(Inside(), known), scope_of(TOKEN)))) == 401


def test_decisions_are_bounded_and_none_is_kept_of_strangers(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority, "_MAX_KNOWN", 2)
    known = Authority(TokensFile(tokens))

    async def ask(header: bytes) -> Principal:
        return await known.principal([(b"authorization", header)])

    for spaces in range(1, 9):
        assert asyncio.run(ask(b"Bearer" + b" " * spaces + TOKEN.encode())).name == "web"
        assert len(known._known) <= 2
    known._known.clear()
    for token in (b"x", b"y"):
        with pytest.raises(Exception, match="unknown"):
            asyncio.run(ask(b"Bearer " + token))
    assert known._known == {}


@pytest.mark.parametrize("open_metrics", [False, True])
def test_the_admin_port_is_open_for_probes_only(tokens: Path, open_metrics: bool) -> None:
    inside = Inside()
    app = AdminGuard(inside, Authority(TokensFile(tokens)), open_metrics=open_metrics)
    open_ = {"/livez", "/readyz"} | ({"/metrics"} if open_metrics else set())
    for path in ("/livez", "/readyz", "/metrics", "/livez/", "/livez/../v1/stats", "/v1/stats", "/openapi.json", ""):
        for token, refused in ((None, 401), (TOKEN, 403), ("x", 401)):
            assert status_of(asyncio.run(call(app, scope_of(token, path)))) == (200 if path in open_ else refused)
        assert status_of(asyncio.run(call(app, scope_of(ADMIN, path)))) == 200
    assert status_of(asyncio.run(call(app, scope_of(None, "/livez", method="POST")))) == 401
    assert all(scope.get(ANONYMOUS) or scope[SCOPE_KEY].name == "ops" for scope in inside.seen)
