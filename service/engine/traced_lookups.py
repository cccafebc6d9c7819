"""Spans of upstream lookups run by the engine process.

A lookup runs in a task created while a read was handled, and so belongs to that read's trace. A lookup, or a round
of them, for several reads belongs to the first of these.
"""

from collections.abc import Sequence
from typing import Any, cast

from opentelemetry.trace import SpanKind

from dataflow.plan.nodes import table_of
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from service.engine.upstream.results import UNLIMITED, AnswerSize, ForwardRows, LookupRows
from service.engine.upstream.upstream import Lookups
from service.ground.tracing import Tracing, is_traced


class TracedLookups:
    """Wrapper of `Lookups` that opens a span around each lookup of a traced read; delegates everything else."""

    def __init__(self, lookups: Lookups, tracing: Tracing) -> None:
        self._lookups = lookups
        self._tracing = tracing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lookups, name)

    async def run(
        self, lookup: Lookup, catalog: Catalog, most: AnswerSize = UNLIMITED, stall_s: float | None = None
    ) -> LookupRows:
        if not is_traced():
            return await self._lookups.run(lookup, catalog, most, stall_s)
        relation = table_of(lookup.relation)
        attributes = {"db.collection.name": relation, "upquery.keys": len(lookup.keys)}
        with self._tracing.span(f"lookup {relation}", SpanKind.CLIENT, attributes) as span:
            found = await self._lookups.run(lookup, catalog, most, stall_s)
            span.set_attribute("upquery.rows", len(found.rows))
            return found

    async def run_round(
        self, lookups: Sequence[Lookup], catalog: Catalog, most: AnswerSize, stall_s: float
    ) -> list[LookupRows | None]:
        if not is_traced():
            return await self._lookups.run_round(lookups, catalog, most, stall_s)
        relations = sorted({table_of(lookup.relation) for lookup in lookups})
        keys = sum(len(lookup.keys) for lookup in lookups)
        attributes = {"db.collection.name": ", ".join(relations), "upquery.keys": keys}
        with self._tracing.span("lookups", SpanKind.CLIENT, attributes):
            return await self._lookups.run_round(lookups, catalog, most, stall_s)

    async def forward(
        self, queries: Sequence[tuple[str, Sequence[str | None]]], most: AnswerSize = UNLIMITED
    ) -> ForwardRows:
        if not is_traced():
            return await self._lookups.forward(queries, most)
        with self._tracing.span("forward", SpanKind.CLIENT, {"upquery.queries": len(queries)}):
            return await self._lookups.forward(queries, most)


def traced_lookups(lookups: Lookups, tracing: Tracing) -> Lookups:
    return cast(Lookups, TracedLookups(lookups, tracing))
