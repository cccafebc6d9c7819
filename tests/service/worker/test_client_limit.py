"""Requests of one client that wait at once."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from service.protocol.worker_config import WorkerConfig
from service.settings.auth import AuthSettings
from service.settings.sections import HttpSettings
from service.web.client_limit import ClientLimit
from service.web.messages import Receive, Scope, Send
from service.web.principal import SCOPE_KEY, Principal, Right
from service.worker.process import waiting_of_client
from tests.service.worker.conftest import Run, Service
from tests.service.worker.test_problems import check_problem


def of(app: ClientLimit, address: str) -> httpx.AsyncClient:
    """A client with that address."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, client=(address, 1)), base_url="http://test")


def test_who_waits_for_too_much_is_refused_and_others_are_not(run: Run) -> None:
    async def test(service: Service) -> None:
        app = ClientLimit(service.app, 2)
        service.engine.gate = asyncio.Event()
        async with of(app, "10.0.0.1") as one, of(app, "10.0.0.2") as other, asyncio.timeout(20):
            waiting = [asyncio.create_task(one.get(f"/v1/views/story?id={i}")) for i in (7, 8)]
            while len(service.engine.reads) < 2:
                await asyncio.sleep(0)
            refused = await one.get("/v1/views/story?id=9")
            check_problem(refused, 429, "rate_limited")
            assert refused.headers["retry-after"] == "1"
            waiting.append(asyncio.create_task(other.get("/v1/views/story?id=7")))
            while len(service.engine.reads) < 3:
                await asyncio.sleep(0)
            service.engine.gate.set()
            assert [(await answer).status_code for answer in waiting] == [200] * 3
            assert not app.waiting
            assert (await one.get("/v1/views/story?id=9")).status_code == 200

    run(test)


def test_who_goes_away_no_longer_waits(run: Run) -> None:
    async def test(service: Service) -> None:
        app = ClientLimit(service.app, 1)
        service.engine.gate = asyncio.Event()
        async with of(app, "10.0.0.1") as one, asyncio.timeout(20):
            waiting = asyncio.create_task(one.get("/v1/views/story?id=7"))
            while not service.engine.reads:
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert not app.waiting

    run(test)


class Streams:
    """Begins to answer, and goes on."""

    def __init__(self) -> None:
        self.end = asyncio.Event()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await self.end.wait()
        await send({"type": "http.response.body", "body": b""})

    def reads_body(self, _scope: Scope) -> bool:
        return False

    def answer(self, _scope: Scope, _body: bytes | None) -> None:
        return None


def test_a_stream_that_has_begun_does_not_wait() -> None:
    async def test() -> None:
        streams = Streams()
        app = ClientLimit(streams, 1)
        started: list[object] = []

        async def send(message: object) -> None:
            started.append(message)

        scope = {"type": "http", "client": ("10.0.0.1", 1), "headers": []}
        tasks = [asyncio.create_task(app(dict(scope), None, send)) for _ in range(3)]  # type: ignore[arg-type]
        async with asyncio.timeout(20):
            while len(started) < 3:
                await asyncio.sleep(0)
        assert not app.waiting
        streams.end.set()
        await asyncio.gather(*tasks)

    asyncio.run(test())


class Looks(Streams):
    """Sees who waits while it answers."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = ClientLimit(self, 1)
        self.seen: list[dict[str, int]] = []

    async def __call__(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        self.seen.append(dict(self.limit.waiting))


def test_tokens_are_counted_by_their_names() -> None:
    looks = Looks()
    for name in ("ann", "bob"):
        scope = {"type": "http", "client": ("10.0.0.1", 1), SCOPE_KEY: Principal(name, frozenset({Right.READ}))}
        asyncio.run(looks.limit(scope, None, None))  # type: ignore[arg-type]
    assert looks.seen == [{"token ann": 1}, {"token bob": 1}]


def test_the_default_is_a_share_of_who_has_a_name(tmp_path: Path) -> None:
    def most(**options: Any) -> int | None:
        return waiting_of_client(WorkerConfig(0, tmp_path, tmp_path, **options))

    auth = AuthSettings(tokens_file=tmp_path)
    assert most() is None
    assert most(auth=auth) == 250
    assert most(auth=auth, http=HttpSettings(waiting_reads=2)) == 1
    assert most(http=HttpSettings(client_waiting_reads=7)) == most(auth=auth, http=HttpSettings(client_waiting_reads=7))
