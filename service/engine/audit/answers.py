"""Fresh upstream results for cached keys: the view's own SQL with the key's values.

Not here: by Spark (`spark`), the comparison (`comparison`).
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from dataflow.plan.refresh import RefreshView
from dataflow.types import Row, ViewId
from service.engine.audit.leaf_copy import CopiedKey, LeafCopy
from service.engine.audit.messages import ViewToAudit
from service.engine.reads.forwards import forward_query
from service.engine.upstream.held_snapshot import HeldSnapshots, SnapshotReader
from service.engine.upstream.results import UpstreamError
from service.leaf_store.catalog import ViewInfo

#: Maximum concurrent connections, out of the service's own limit.
CONNECTIONS = 4
LATE = "the audit's time was up"


class AuditQuestion(NamedTuple):
    """Key and its query, with the texts of $1, $2 …"""

    stored: CopiedKey
    sql: str
    parameters: list[str | None]


class FreshAnswer(NamedTuple):
    """Key and the upstream's rows, or the reason why they are missing."""

    stored: CopiedKey
    rows: list[Row] | str


def questions_of(
    picture: LeafCopy, views: Mapping[ViewId, ViewToAudit], infos: Mapping[ViewId, ViewInfo]
) -> Iterator[AuditQuestion]:
    """Returns the query of each key of a copy."""
    for stored in picture:
        view = views[ViewId(stored.view)]
        if isinstance(view.plan.view, RefreshView):
            yield AuditQuestion(stored, view.plan.sql, list(stored.key))
        else:
            sql, parameters = forward_query(view.plan, infos[view.id], stored.values)
            yield AuditQuestion(stored, sql, parameters)


async def ask_directly(
    held: HeldSnapshots, questions: Iterator[AuditQuestion], pool_size: int, until: float
) -> AsyncGenerator[FreshAnswer, None]:
    """Yields results in any order, over a few connections. Queries not started by `until` (monotonic clock) have none.
    Raises UpstreamError without a connection."""
    found: asyncio.Queue[FreshAnswer | None] = asyncio.Queue(maxsize=2 * CONNECTIONS)

    async def work(reader: SnapshotReader) -> None:
        for question in questions:
            await found.put(await _asked(reader, question, until))
        await found.put(None)

    async with held.readers(max(1, min(CONNECTIONS, pool_size // 2))) as readers:
        workers = [asyncio.ensure_future(work(reader)) for reader in readers]
        try:
            left = len(workers)
            while left:
                answered = await _next(found, workers)
                if answered is None:
                    left -= 1
                else:
                    yield answered
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


async def _next(
    found: "asyncio.Queue[FreshAnswer | None]", workers: "Sequence[asyncio.Future[None]]"
) -> FreshAnswer | None:
    """Returns the next result; raises a worker's error."""
    getting = asyncio.ensure_future(found.get())
    try:
        while not getting.done():
            waited: list[asyncio.Future[Any]] = [getting, *(worker for worker in workers if not worker.done())]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            for worker in workers:
                if worker.done() and (error := worker.exception()) is not None:
                    raise error
        return getting.result()
    finally:
        getting.cancel()


async def _asked(reader: SnapshotReader, question: AuditQuestion, until: float) -> FreshAnswer:
    if monotonic() > until:
        return FreshAnswer(question.stored, LATE)
    try:
        rows, _ = await reader.ask(question.sql, question.parameters)
    except UpstreamError as error:
        if error.retryable:
            raise
        return FreshAnswer(question.stored, f"the upstream rejected the query: {error.public_text}")
    return FreshAnswer(question.stored, rows)


__all__ = ["LATE", "AuditQuestion", "FreshAnswer", "ask_directly", "questions_of"]
