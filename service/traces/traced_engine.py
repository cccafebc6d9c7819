"""Spans of what a worker asks of the engine, and of what the engine looks up upstream for it.

A lookup is run by a task that was begun while a read was being handled, and so belongs to that read's trace. One that
serves several reads belongs to the first of them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from opentelemetry.trace import SpanKind

from dataflow.engine.effects import Lookup
from dataflow.plan.nodes import table_of
from dataflow.schema import Catalog
from service.errors import ApiError
from service.traces.tracing import Tracing, is_traced, traceparent_of_now
from service.upstream.upstream import Lookups
from service.upstream.words import UNLIMITED, AnswerSize, ForwardRows, LookupRows
from service.wire import EngineClient


class TracedEngineClient(EngineClient):
    """A worker's side of the socket, whose questions carry the span that they belong to."""

    def __init__(self, path: Path, tracing: Tracing) -> None:
        super().__init__(path)
        self._tracing = tracing

    async def _ask(self, request: dict[str, Any], timeout_s: float, late: ApiError) -> Any:
        if not is_traced():
            return await super()._ask(request, timeout_s, late)
        with self._tracing.span(f"ask engine {request['op']}", SpanKind.CLIENT, {}):
            return await super()._ask({**request, "trace": traceparent_of_now()}, timeout_s, late)


class TracedLookups:
    """`Lookups` with a span around each that a traced read needs. All else is the inner one's."""

    def __init__(self, lookups: Lookups, tracing: Tracing) -> None:
        self._lookups = lookups
        self._tracing = tracing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lookups, name)

    async def run(self, lookup: Lookup, catalog: Catalog, most: AnswerSize = UNLIMITED) -> LookupRows:
        """The rows that the engine asks for."""
        if not is_traced():
            return await self._lookups.run(lookup, catalog, most)
        relation = table_of(lookup.relation)
        attributes = {"db.collection.name": relation, "upquery.keys": len(lookup.keys)}
        with self._tracing.span(f"lookup {relation}", SpanKind.CLIENT, attributes) as span:
            found = await self._lookups.run(lookup, catalog, most)
            span.set_attribute("upquery.rows", len(found.rows))
            return found

    async def forward(
        self, queries: Sequence[tuple[str, Sequence[str | None]]], most: AnswerSize = UNLIMITED
    ) -> ForwardRows:
        """Whole queries at one snapshot."""
        if not is_traced():
            return await self._lookups.forward(queries, most)
        with self._tracing.span("forward", SpanKind.CLIENT, {"upquery.queries": len(queries)}):
            return await self._lookups.forward(queries, most)


def traced_lookups(lookups: Lookups, tracing: Tracing) -> Lookups:
    """The same, traced."""
    return cast(Lookups, TracedLookups(lookups, tracing))
