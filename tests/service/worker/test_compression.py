"""Large answers, compressed for who takes it."""

import asyncio
import json
import os
import threading
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import zstandard

from dataflow.engine.effects import LeafFill
from service.settings.sections import HttpSettings
from service.web import compression
from service.web.compression import Compression, best_coding
from service.web.messages import Receive, Reply, Scope, Send
from service.worker.routes.app import build_app
from tests.service.worker.conftest import AUTHOR_ID, Service, running
from tests.service.worker.test_direct_protocol import Client, serving

LEAST = 4000
LIMITS = HttpSettings(max_body_bytes=1 << 20, max_keys=1000, compress_bytes=LEAST)
#: Rows of an author, for an answer of about so many bytes.
AUTHORS = {"short": 1000, "small": 10_000, "large": 200_000}
BATCH = json.dumps({"reads": [{"view": "stories_of", "params": {"author": "small"}}]}).encode()


@pytest.mark.parametrize(
    ("asked", "coding"),
    [
        ("gzip", "gzip"),
        ("zstd", "zstd"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=1.0, zstd;q=0.5", "gzip"),
        ("GZIP ; q=0.1", "gzip"),
        ("*", "zstd"),
        ("*;q=0.5, zstd;q=0", "gzip"),
        ("br, deflate", None),
        ("identity", None),
        ("gzip;q=0", None),
        ("gzip;q=x", None),
        ("*;q=0", None),
        ("", None),
        ("\xff", None),
    ],
)
def test_the_coding_that_a_client_likes_best(asked: str, coding: str | None) -> None:
    assert best_coding(asked.encode("latin-1")) == coding


@asynccontextmanager
async def compressing(directory: Path) -> AsyncIterator[tuple[Service, Compression]]:
    async with running(directory, LIMITS) as service:
        for author, size in AUTHORS.items():
            rows = [(str(n), f"Story {n}", author, str(n % 4)) for n in range(size // 60)]
            service.engine.commit(LeafFill(AUTHOR_ID, (author,), rows))
        yield service, Compression(build_app(service.engine.writer.reader, service.client, LIMITS), LEAST)


def head(author: str, *headers: str, method: str = "GET") -> bytes:
    lines = [f"{method} /v1/views/stories_of?author={author} HTTP/1.1", "host: test", *headers, "", ""]
    return "\r\n".join(lines).encode()


def decoded(headers: dict[str, str], body: bytes) -> bytes:
    coding = headers.get("content-encoding")
    if coding == "gzip":
        return zlib.decompress(body, 16 + zlib.MAX_WBITS)
    return zstandard.ZstdDecompressor().decompress(body) if coding == "zstd" else body


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("author", AUTHORS)
def test_an_answer_is_the_same_in_every_coding(tmp_path: Path, author: str, general: bool) -> None:
    extra = ["upquery-min-version: 0/0"] if general else []

    async def test(client: Client) -> None:
        client.writer.write(head(author, *extra))
        _, plain, rows = await client.answer()
        is_large = AUTHORS[author] > LEAST
        assert plain.get("vary") == ("Accept-Encoding" if is_large else None)
        assert "content-encoding" not in plain
        for coding in ("gzip", "zstd"):
            client.writer.write(head(author, f"accept-encoding: {coding}", *extra) * 2)
            for _ in range(2):
                status, headers, body = await client.answer()
                assert status == 200
                assert headers.get("content-encoding") == (coding if is_large else None)
                assert (headers["etag"], headers.get("vary")) == (plain["etag"], plain.get("vary"))
                assert json.loads(decoded(headers, body)) == json.loads(rows)
                assert not is_large or len(body) < len(rows) / 2
            same = f"if-none-match: {headers['etag']}"
            client.writer.write(head(author, f"accept-encoding: {coding}", same, *extra))
            status, headers, body = await client.answer()
            assert (status, body, headers.get("vary")) == (304, b"", plain.get("vary"))
            client.writer.write(head(author, f"accept-encoding: {coding}", *extra, method="HEAD"))
            status, headers, _ = await client.answer(body=False)
            assert (status, headers.get("content-encoding")) == (200, coding if is_large else None)

    asyncio.run(serve(tmp_path, test))


async def serve(directory: Path, test: object) -> None:
    async with asyncio.timeout(20), compressing(directory) as (service, app), serving(service, app) as client:
        await test(client)  # type: ignore[operator]


def test_batches_and_the_document_are_compressed_and_counted_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with compressing(tmp_path) as (service, app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
                for send in (
                    lambda: http.post("/v1/read", content=BATCH, headers=JSON),
                    lambda: http.get("/openapi.json"),
                ):
                    answer = await send()
                    assert answer.headers["content-encoding"] in ("gzip", "zstd")
                    assert answer.headers["vary"] == "Accept-Encoding"
                    assert answer.json()
            async with serving(service, app) as client:
                before = app._app.counters()["stories_of"].hits  # type: ignore[attr-defined]
                for author in ("small", "large"):
                    client.writer.write(head(author, "accept-encoding: gzip"))
                    await client.answer()
                assert app._app.counters()["stories_of"].hits == before + 2  # type: ignore[attr-defined]

    asyncio.run(test())


JSON = {"content-type": "application/json"}


class Application:
    """Sends what it is told to."""

    def __init__(self, *messages: dict[str, object]) -> None:
        self.messages = messages

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        for message in self.messages:
            await send(message)

    def reads_body(self, _scope: Scope) -> bool:
        return False

    def answer(self, _scope: Scope, _body: bytes | None) -> Reply | None:
        return None


START = {"type": "http.response.start", "status": 200}
BODY = {"type": "http.response.body", "body": b"a" * 10_000}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(
            [START | {"headers": [(b"content-type", b"text/event-stream")]}, BODY | {"more_body": True}], id="stream"
        ),
        pytest.param([START, BODY], id="no headers"),
        pytest.param(
            [
                START | {"headers": [(b"content-type", b"application/json"), (b"content-length", b"20000")]},
                BODY | {"more_body": True},
                BODY,
            ],
            id="in pieces",
        ),
        pytest.param(
            [START | {"headers": [(b"content-type", b"image/png"), (b"content-length", b"10000")]}, BODY], id="no JSON"
        ),
        pytest.param(
            [
                START
                | {
                    "headers": [
                        (b"content-type", b"application/json"),
                        (b"content-encoding", b"br"),
                        (b"content-length", b"10000"),
                    ]
                },
                BODY,
            ],
            id="encoded",
        ),
    ],
)
def test_anything_else_passes_as_it_is(messages: list[dict[str, object]]) -> None:
    sent: list[object] = []

    async def send(message: object) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [(b"accept-encoding", b"gzip")]}
    asyncio.run(Compression(Application(*messages), LEAST)(scope, None, send))  # type: ignore[arg-type]
    assert [dict(message) | {"more_body": None} for message in sent] == [  # type: ignore[call-overload]
        message | {"more_body": None} for message in messages
    ]


def test_threads_give_way_to_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    priorities = []

    def encode(_: bytes) -> bytes:
        priorities.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return b""

    async def test(client: Client) -> None:
        before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        monkeypatch.setitem(compression._CODINGS, "gzip", encode)
        client.writer.write(head("large", "accept-encoding: gzip"))
        await client.answer()
        assert priorities == [min(before + 10, 19)]
        assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before

    asyncio.run(serve(tmp_path, test))


def test_while_all_threads_are_busy_answers_go_out_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_MOST_WAITING", 0)

    async def test(client: Client) -> None:
        client.writer.write(head("large", "accept-encoding: gzip"))
        status, headers, _ = await client.answer()
        assert (status, "content-encoding" in headers, headers["vary"]) == (200, False, "Accept-Encoding")

    asyncio.run(serve(tmp_path, test))
