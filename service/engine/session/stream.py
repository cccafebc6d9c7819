"""Loop that reads the change stream and steps the engine, with a bounded number of rows in each step.

Between two steps the loop runs all other ready tasks, so a read waits for at most one step, however far the stream is
behind.

Not here: reconnecting (`runtime`), decoding (`cdc`), pausing at a snapshot (`service.engine.loop.hold`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from cdc.change import Batch, CommittedTransaction, SchemaNotice, TableLayout
from cdc.stream import ChangeStream, ContinuableStream, StreamStart
from dataflow.engine.events import Advance, Apply, StreamResumed
from service.engine.checkpoint.header import CheckpointHeader
from service.engine.checkpoint.store import CheckpointStore
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.hold import BatchFeed
from service.engine.loop.pushes import Pushes
from service.engine.upstream import bridge
from service.engine.views.tables import FollowedTables
from service.protocol.counters import Counters


async def start_stream(
    source: ChangeStream, checkpoints: CheckpointStore, following: FollowedTables
) -> tuple[StreamStart, CheckpointHeader | None]:
    """Starts the stream, at the place of the checkpoint if it can be continued there; returns the checkpoint if so.
    Raises `StreamLost`."""
    found = checkpoints.found()
    if found is None:
        return await source.start(), None
    if not isinstance(source, ContinuableStream):
        checkpoints.refuse("This change stream cannot be continued.")
        return await source.start(), None
    # Before the stream begins: it may be read at once, for other engines.
    before = dict(following.layouts)
    following.continue_stream(checkpoints.changed(found, following))
    started = await source.start_at(found.place)
    if not started.continued:
        following.layouts.update(before)
        checkpoints.refuse(started.refusal)
        return started, None
    return started, found


async def follow(
    source: ChangeStream,
    dispatcher: Dispatcher,
    step_rows: int,
    feed: BatchFeed,
    on_altered: Callable[[tuple[int, int]], Awaitable[None]],
    on_resumed: Callable[[str], Awaitable[None]],
) -> None:
    """Runs until the stream is lost (raises `StreamLost`) or the engine has failed (returns). After a transaction that
    altered the schema, `on_altered` completes before its batch is applied; after a broken connection, `on_resumed`
    does, which gets the server that the stream continues on."""
    while dispatcher.running:
        batch = await source.next_batch(step_rows)
        if batch.resumed:
            await on_resumed(batch.server)
        if batch.altered is not None:
            await on_altered(batch.altered)
        feed.apply(batch)
        await asyncio.sleep(0)


def applying(
    source: ChangeStream,
    layouts: Mapping[str, TableLayout],
    dispatcher: Dispatcher,
    pushes: Pushes,
    counters: Counters,
    on_schema: Callable[[SchemaNotice], None],
    on_redefined: Callable[[str], None],
    on_passed: Callable[[Sequence[int]], None],
) -> Callable[[Batch], None]:
    """Returns the function that applies a batch. `layouts` are the current column layouts of the followed tables;
    `on_passed` receives the global ids of applied transactions."""

    def apply(batch: Batch) -> None:
        if not dispatcher.running:
            return
        if batch.resumed:
            counters.streams_resumed += 1
            pushes.resumed()
            dispatcher.step(StreamResumed())
        for notice in batch.schema:
            on_schema(notice)
        for name in batch.redefined:
            on_redefined(name)
        if batch.transactions:
            counters.transactions += len(batch.transactions)
            counters.rows += bridge.rows_in(batch.transactions)
            _forget_other_rows(batch.transactions, layouts)
            dispatcher.step(Apply(bridge.transactions(batch.transactions), batch.position))
        else:
            dispatcher.step(Advance(batch.position))
        if batch.passed and dispatcher.running:
            on_passed(batch.passed)
        source.acknowledge(batch.position)

    return apply


def _forget_other_rows(transactions: Iterable[CommittedTransaction], layouts: Mapping[str, TableLayout]) -> None:
    """Discards rows decoded by an outdated layout. A table may be followed with a new layout while a transaction is in
    flight; such a change is treated as an unknown change of the whole table."""
    for transaction in transactions:
        for name, change in transaction.tables.items():
            layout = layouts.get(name)
            if layout is not None and not change.has_layout(layout) and not change.widen(layout):
                change.drop_rows()
