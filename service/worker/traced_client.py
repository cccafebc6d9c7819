"""Spans of a worker's calls to the engine process."""

from pathlib import Path
from typing import TypeVar

from opentelemetry.trace import SpanKind

from service.ground.errors import ApiError
from service.ground.tracing import Tracing, is_traced, traceparent_of_now
from service.protocol.codec import Request
from service.protocol.engine_client import EngineClient
from service.protocol.engine_requests import name_of

R = TypeVar("R")


class TracedEngineClient(EngineClient):
    """A worker's side of the socket, whose calls carry the current span."""

    def __init__(self, path: Path, tracing: Tracing) -> None:
        super().__init__(path)
        self._tracing = tracing

    async def _ask(self, request: Request[R], timeout_s: float, late: ApiError, trace: str = "") -> R:
        if not is_traced():
            return await super()._ask(request, timeout_s, late, trace)
        with self._tracing.span(f"ask engine {name_of(request)}", SpanKind.CLIENT, {}):
            return await super()._ask(request, timeout_s, late, traceparent_of_now())
