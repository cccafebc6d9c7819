"""Spans of a worker's calls to the engine process."""

from pathlib import Path
from typing import Any

from opentelemetry.trace import SpanKind

from service.ground.errors import ApiError
from service.ground.tracing import Tracing, is_traced, traceparent_of_now
from service.protocol.wire import EngineClient


class TracedEngineClient(EngineClient):
    """A worker's side of the socket, whose calls carry the current span."""

    def __init__(self, path: Path, tracing: Tracing) -> None:
        super().__init__(path)
        self._tracing = tracing

    async def _ask(self, request: dict[str, Any], timeout_s: float, late: ApiError) -> Any:
        if not is_traced():
            return await super()._ask(request, timeout_s, late)
        with self._tracing.span(f"ask engine {request['op']}", SpanKind.CLIENT, {}):
            return await super()._ask({**request, "trace": traceparent_of_now()}, timeout_s, late)
