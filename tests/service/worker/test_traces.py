"""Which requests are traced, and what their spans say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from pydantic import ValidationError

from service.ground.tracing import Tracing
from service.protocol.engine_server import EngineServer
from service.settings.sections import HttpSettings
from service.settings.telemetry import TraceSettings
from service.worker.routes.app import build_app
from service.worker.traced_app import TracedApp
from service.worker.traced_client import TracedEngineClient
from tests.service.worker.conftest import Service, running, unavailable
from tests.service.worker.test_direct_protocol import serving

LIMITS = HttpSettings(max_body_bytes=1 << 16, max_keys=100)
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


class Traced:
    """A worker and an engine whose spans are kept."""

    def __init__(self, app: TracedApp, service: Service, exporter: InMemorySpanExporter) -> None:
        self.app = app
        self.service = service
        self._exporter = exporter

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://test")

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._exporter.get_finished_spans()}


@asynccontextmanager
async def tracing(directory: Path, sample_rate: float = 0.0) -> AsyncIterator[Traced]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = Tracing(provider)
    async with running(directory, LIMITS) as service:
        path = directory / "traced.sock"
        server = EngineServer(path, service.engine, traces.within)
        await server.start()
        client = TracedEngineClient(path, traces)
        app = build_app(service.engine.writer.reader, client, LIMITS)
        traced = TracedApp(app, traces, TraceSettings(sample_rate=sample_rate).sample_rate)
        assert isinstance(traced, TracedApp)
        yield Traced(traced, service, exporter)
        await client.close()
        await server.close()


def test_a_miss_goes_on_in_the_engine_and_a_hit_does_not(tmp_path: Path) -> None:
    async def main() -> None:
        async with tracing(tmp_path) as site, site.http() as http:
            for _ in range(2):
                assert (await http.get("/v1/views/story?id=7", headers=SAMPLED)).status_code == 200
        spans = site.spans()
        assert set(spans) == {"GET /v1/views/{view}", "ask engine fill", "engine fill"}
        assert {f"{span.context.trace_id:032x}" for span in spans.values() if span.context} == {TRACE}
        hit, asked, read = spans["GET /v1/views/{view}"], spans["ask engine fill"], spans["engine fill"]
        assert hit.parent is not None
        assert f"{hit.parent.span_id:016x}" == PARENT
        assert hit.attributes is not None
        assert hit.attributes["upquery.cache_status"] == "upquery; hit"
        assert read.parent is not None
        assert asked.context is not None
        assert read.parent.span_id == asked.context.span_id
        assert read.attributes == {"upquery.views": ("story",)}
        assert "7" not in str([span.attributes for span in spans.values()])

    asyncio.run(main())


def test_a_failure_is_one_in_all_its_spans_and_says_no_values(tmp_path: Path) -> None:
    async def main() -> None:
        async with tracing(tmp_path) as site, site.http() as http:
            site.service.engine.failure = unavailable()
            assert (await http.get("/v1/views/story?id=7", headers=SAMPLED)).status_code == 503
            assert (await http.get("/v1/views/story?id=x", headers=SAMPLED)).status_code == 422
        spans = site.spans()
        assert spans["engine fill"].status.status_code is StatusCode.ERROR
        assert spans["engine fill"].status.description == "upstream_unavailable"
        assert [span.events for span in spans.values()] == [()] * len(spans)

    asyncio.run(main())


def test_hits_that_are_answered_at_once_are_traced_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with tracing(tmp_path) as site, serving(site.service, site.app) as client:
            request = b"GET /v1/views/story?id=8 HTTP/1.1\r\nhost: test\r\ntraceparent: %b\r\n\r\n"
            for _ in range(3):
                client.writer.write(request % SAMPLED["traceparent"].encode())
                assert (await client.answer())[0] == 200
            client.writer.write(b"GET /v1/views/story?id=8 HTTP/1.1\r\nhost: test\r\n\r\n")
            await client.answer()
        names = [span.name for span in site._exporter.get_finished_spans()]
        assert names.count("GET /v1/views/{view}") == 3

    asyncio.run(main())


@pytest.mark.parametrize(
    ("traceparent", "rate", "traced"),
    [
        (None, 0.0, False),
        (None, 1.0, True),
        (f"00-{TRACE}-{PARENT}-00", 1.0, False),
        (f"00-{TRACE}-{PARENT}-01", 0.0, True),
        # What is no trace decides nothing.
        (f"00-{'0' * 32}-{PARENT}-01", 0.0, False),
        (f"00-{TRACE}-{PARENT}", 1.0, True),
        ("x" * 10_000, 0.0, False),
    ],
)
def test_who_decides(tmp_path: Path, traceparent: str | None, rate: float, traced: bool) -> None:
    headers = {} if traceparent is None else {"traceparent": traceparent}

    async def main() -> None:
        async with tracing(tmp_path, rate) as site, site.http() as http:
            assert (await http.get("/v1/views/story?id=7", headers=headers)).status_code == 200
        assert bool(site.spans()) == traced

    asyncio.run(main())


def test_where_spans_go_is_a_url_without_a_password() -> None:
    for wrong in ("collector:4318", "ftp://collector", "http://me:secret@collector/v1/traces"):
        with pytest.raises(ValidationError):
            TraceSettings(endpoint=wrong)
