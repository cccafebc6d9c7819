"""Treatment of a batch before the engine receives it."""

from typing import Any, cast

from cdc.change import Batch, CommittedTransaction, TableChange, TableLayout
from cdc.stream import ChangeStream
from dataflow.engine.events import Apply, Event, StreamResumed
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.pushes import Pushes
from service.engine.session.stream import applying
from service.protocol.counters import Counters

OLD, NEW = TableLayout(("id", "title"), 1), TableLayout(("id", "body"), 1)


class Recorder:
    """Is what a source and a dispatcher are asked for here."""

    running = True

    def __init__(self) -> None:
        self.steps: list[Event] = []
        self.forgotten = False

    def step(self, event: Event) -> None:
        self.steps.append(event)

    def resumed(self) -> None:
        self.forgotten = True

    def acknowledge(self, position: int) -> None:
        assert position == 10


def applied_to(recorder: Recorder, layouts: dict[str, TableLayout], batch: Batch) -> Counters:
    counters = Counters()
    apply = applying(
        cast(ChangeStream, recorder),
        layouts,
        cast(Dispatcher, recorder),
        cast(Pushes, recorder),
        counters,
        lambda _: None,
        lambda _: None,
        lambda _: None,
    )
    apply(batch)
    return counters


def applied(layouts: dict[str, TableLayout], **changes: TableChange) -> dict[str, Any]:
    recorder = Recorder()
    applied_to(recorder, layouts, Batch([CommittedTransaction(1, 10, dict(changes))], 10))
    (step,) = recorder.steps
    assert isinstance(step, Apply)
    return {table: (d.removed, d.added, d.overflow) for table, d in step.transactions[0].tables.items()}


def test_a_resumed_stream_drops_answers_before_its_transactions_are_applied() -> None:
    recorder = Recorder()
    counters = applied_to(recorder, {}, Batch([CommittedTransaction(1, 10, {})], 10, resumed=True))
    assert [type(step) for step in recorder.steps] == [StreamResumed, Apply]
    assert recorder.forgotten
    assert counters.streams_resumed == 1


def test_rows_of_a_layout_that_is_followed_no_more_are_not_read() -> None:
    row = ("1", "x")
    found = applied(
        {"same": NEW, "equal": TableLayout(("id", "body"), 1, since=7), "other": NEW, "unsaid": NEW},
        same=TableChange([row], [row], layout=NEW),
        equal=TableChange([row], [row], layout=NEW),
        other=TableChange([row], [row], layout=OLD),
        unsaid=TableChange([row], [row]),
        left=TableChange([row], [row], layout=OLD),
    )
    kept = ([row], [row], False)
    assert found == {"same": kept, "equal": kept, "other": ([], [], True), "unsaid": kept, "left": kept}
