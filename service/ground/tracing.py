"""OpenTelemetry traces of a process: spans are made here and exported by a thread. Needs the extra ``otel``.

*Invariants*: a request that is not sampled makes no span. The worker that receives a request decides once whether it
is sampled (`traced_app`), and its calls to the engine carry the decision. Spans that cannot be exported fast enough
are dropped.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from service.ground.errors import ApiError
from service.settings.telemetry import TraceSettings

#: Time limits of one export and of a stop.
_SEND_S, _STOP_S = 2, 1.0
_propagator = TraceContextTextMapPropagator()


class Tracing:
    """The spans of one process."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self.tracer = provider.get_tracer("upquery")

    @classmethod
    def of(cls, settings: TraceSettings, process: str) -> Self:
        """Return the tracing of `process`, with the exporter of the settings."""
        resource = Resource.create({"service.name": settings.service_name, "service.instance.id": process})
        provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(settings.endpoint, timeout=_SEND_S)))
        return cls(provider)

    def close(self) -> None:
        """Export the remaining spans, within the time limit."""
        stopping = threading.Thread(target=self._provider.shutdown, daemon=True)
        stopping.start()
        stopping.join(_STOP_S)

    @contextmanager
    def within(self, operation: str, traceparent: str, views: Sequence[str]) -> Iterator[None]:
        """Make a span of a worker's call to the engine around the block."""
        parent = _propagator.extract({"traceparent": traceparent})
        attributes = {"upquery.views": tuple(views)} if views else {}
        with self.span(f"engine {operation}", SpanKind.SERVER, attributes, parent):
            yield

    @contextmanager
    def span(
        self, name: str, kind: SpanKind, attributes: Mapping[str, Any], parent: Context | None = None
    ) -> Iterator[Span]:
        """Make a span around the block; an error is recorded without its text, which may contain values."""
        with self.tracer.start_as_current_span(
            name, parent, kind, attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_status(StatusCode.ERROR, error.code if isinstance(error, ApiError) else type(error).__name__)
                raise


def is_traced() -> bool:
    """Return whether the current task belongs to a sampled trace."""
    return get_current_span().get_span_context().trace_flags.sampled


def traceparent_of_now() -> str:
    """Return the header that identifies the current span to another process."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier["traceparent"]


def context_of(traceparent: str, tracestate: str | None) -> Context:
    """Return the span of another process from its headers."""
    carrier = {"traceparent": traceparent}
    if tracestate is not None:
        carrier["tracestate"] = tracestate
    return _propagator.extract(carrier)
