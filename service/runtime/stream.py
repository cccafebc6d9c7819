"""Follows one change stream: its transactions become the engine's, a bounded number of rows in each step.

Between two steps the loop runs whatever else is ready, so a read waits for at most one step however far the stream is
behind.

Not here: reconnecting (`runtime.runtime`), decoding (`cdc`), when nothing is applied for a moment (`runtime.hold`).
"""

import asyncio
from collections.abc import Callable, Sequence

from cdc.change import Batch, SchemaNotice
from cdc.source import Source
from dataflow.engine.events import Advance, Apply
from service import bridge
from service.runtime.counters import Counters
from service.runtime.dispatcher import Dispatcher
from service.runtime.hold import Hold


async def follow(source: Source, dispatcher: Dispatcher, step_rows: int, hold: Hold) -> None:
    """Until the stream is lost (raises `StreamLost`) or the engine failed (returns)."""
    while dispatcher.running:
        hold.offer(await source.next_batch(step_rows))
        await asyncio.sleep(0)


def applying(
    source: Source,
    dispatcher: Dispatcher,
    counters: Counters,
    on_schema: Callable[[SchemaNotice], None],
    on_passed: Callable[[Sequence[int]], None],
) -> Callable[[Batch], None]:
    """What applies a batch. `on_passed` is told the global ids of what was applied."""

    def apply(batch: Batch) -> None:
        if not dispatcher.running:
            return
        for notice in batch.schema:
            on_schema(notice)
        if batch.transactions:
            counters.transactions += len(batch.transactions)
            counters.rows += bridge.rows_in(batch.transactions)
            dispatcher.step(Apply(bridge.transactions(batch.transactions), batch.position))
        else:
            dispatcher.step(Advance(batch.position))
        if batch.passed and dispatcher.running:
            on_passed(batch.passed)
        source.acknowledge(batch.position)

    return apply
