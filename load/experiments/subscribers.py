"""A thousand subscribers of a hundred changing answers: latency of events, and their completeness.

Every subscriber rebuilds its rows from events, and is compared with the database at the end. Meanwhile some leave and
come back with the last event's id, and some do not read at all: what these cost is the growth of the service's
processes, and of the kernel's buffers, against a run of the same length before they came.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Annotated, Any

import typer
import uvloop

from load import processes
from load.processes import RunConditions
from load.progress import Tell
from load.report.figures import Figure, Measurement, Result
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import Plot, PlotLine, ReportTable
from load.report.report import Report
from load.sides.postgres import running_upstream
from load.sides.side import Side
from load.sides.upquery import upquery
from load.subscribers import boards
from load.subscribers.rows import SubscriberRows
from load.subscribers.stream import EventSource, StreamEvent

BENCH = "subscribers"
SHORT = ("--seconds", "10")
_LIMIT_S = 60.0
_POLL_S = 0.05
_AT_ONCE = 50
#: Large changes a second, of the board of those who do not read: some 40 kB each.
_HEAVY_PER_S = 25.0
_PERCENTILES = (50, 90, 99, 99.9)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Options:
    subscribers: int = 1000
    keys: int = 100
    rate: float = 200.0
    seconds: float = 30.0
    returning: int = 100
    stalled: int = 50


def command(
    subscribers: Annotated[int, typer.Option(min=1, help="Number of event streams.")] = 1000,
    keys: Annotated[int, typer.Option(min=1, help="Number of answers that they follow.")] = 100,
    rate: Annotated[float, typer.Option(help="Changes a second, each a transaction.")] = 200.0,
    seconds: Annotated[float, typer.Option(min=2, help="Seconds of changes.")] = 30.0,
    returning: Annotated[int, typer.Option(help="Subscribers that disconnect and reconnect.")] = 100,
    stalled: Annotated[int, typer.Option(help="Additional subscribers that do not read.")] = 50,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Subscribers of changing answers: latency from commit to event, completeness, cost of slow readers."""
    options = Options(subscribers, keys, rate, seconds, min(returning, subscribers), stalled)
    perform(BENCH, lambda conditions, tell: run(options, conditions, tell), as_json=as_json, output=output)


def run(options: Options, conditions: RunConditions, tell: Tell) -> Report:
    tell(f"{options.keys} boards of {boards.NOTES_EACH} notes: loading")
    heavy_rate = _HEAVY_PER_S if options.stalled else 0.0
    with (
        running_upstream(boards.SITE, boards.load(options.keys)) as upstream,
        upquery()(upstream, boards.SITE) as side,
        _pinned(side, conditions),
        boards.changing(
            boards.ChangeJob(upstream.url, options.keys, options.rate, heavy_rate, options.seconds)
        ) as changes,
    ):
        crowd = _Crowd(options, side, upstream.url, tell)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(crowd.run(changes))
    return _report(options, crowd.found)


@contextmanager
def _pinned(side: Side, conditions: RunConditions) -> Iterator[None]:
    """The servers on their cores, this process and what it starts on the others."""
    before = os.sched_getaffinity(0)
    if conditions.server_cores is not None and conditions.client_cores is not None:
        processes.pin(side.pids(), *conditions.server_cores)
        os.sched_setaffinity(0, conditions.client_cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(slots=True)
class _Found:
    #: Milliseconds from each commit to each event that shows it.
    delays: list[float] = field(default_factory=list)
    committed: int = 0
    events: int = 0
    right: int = 0
    came_back: int = 0
    snapshots: int = 0
    refetched: int = 0
    #: By who does not read, in the service and in the kernel.
    stalled_bytes: float = 0.0
    kernel_bytes: float = 0.0
    offered_bytes: float = 0.0
    cpu_us: float = 0.0


class _Subscriber:
    """One of them. *State*: `heard` are numbers of changes that it has seen, with when."""

    def __init__(self, url: str, board: int) -> None:
        self.url, self.board = url, board
        self.rows = SubscriberRows()
        self.heard: list[tuple[int, float]] = []
        self.source: EventSource | None = None

    async def open(self, *, small: bool = False) -> None:
        """Subscribe; behind the last event, if there was one."""
        last_id = "" if self.source is None else self.source.events.last_id
        self.source = await EventSource.open(self.url, self._hear, last_id, small=small)
        if self.source.status != 200:
            await self.source.ended
            raise RuntimeError(f"a subscription was refused: {self.source.problem}")

    def _hear(self, event: StreamEvent) -> None:
        if event.kind == "change":
            now = monotonic()
            self.heard += [(row["change"], now) for row in event.data["added"] if row["change"]]
        self.rows.hear(event)


class _Crowd:
    """All of them, and what happens to them."""

    def __init__(self, options: Options, side: Side, database: str, tell: Tell) -> None:
        self._options, self._side, self._database, self._tell = options, side, database, tell
        self.found = _Found()
        url = f"{side.reads_url}/v1/views/{boards.VIEW}/subscribe?board="
        self._readers = [
            _Subscriber(f"{url}{1 + n % options.keys}", 1 + n % options.keys) for n in range(options.subscribers)
        ]
        self._stalled = [_Subscriber(url + str(boards.HEAVY), boards.HEAVY) for _ in range(options.stalled)]

    async def run(self, changes: Pipe) -> None:
        # What does not fit is the end of it, not of one connection.
        failures: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: failures.append(context.get("exception") or RuntimeError(context["message"]))
        )
        self._tell(f"{len(self._readers)} subscribers of {self._options.keys} boards")
        await self._in_turns(self._readers, lambda subscriber: subscriber.open())
        await self._until(lambda: all(reader.rows.snapshots for reader in self._readers), "everybody has a snapshot")
        await self._stall()
        before, kernel, cpu = self._own_bytes(), _kernel_bytes(), processes.cpu_seconds(self._service())
        self._tell(f"{self._options.rate:g} changes a second for {self._options.seconds:g} s")
        changes.send(None)
        coming_back = asyncio.ensure_future(self._come_back())
        await self._until(changes.poll, "changes are made", self._options.seconds + _LIMIT_S)
        committed: dict[int, float] = changes.recv()
        await coming_back
        await self._compare(failures)
        self._measure(committed, cpu)
        if self._stalled:
            await self._release(before, kernel)
        if failures:
            raise failures[0]

    async def _in_turns(self, subscribers: Sequence[_Subscriber], act: Callable[[_Subscriber], Any]) -> None:
        for start in range(0, len(subscribers), _AT_ONCE):
            await asyncio.gather(*(act(subscriber) for subscriber in subscribers[start : start + _AT_ONCE]))

    async def _stall(self) -> None:
        """Subscribers that begin like the others, and then stop reading."""
        await self._in_turns(self._stalled, lambda subscriber: subscriber.open(small=True))
        await self._until(lambda: all(stalled.rows.snapshots for stalled in self._stalled), "the others have one")
        for stalled in self._stalled:
            assert stalled.source is not None
            stalled.source.stall()

    async def _come_back(self) -> None:
        """Some leave, one after the other, and come back a little later."""
        returning = self._readers[: self._options.returning]
        for away in returning:
            assert away.source is not None
            away.source.close()
            await asyncio.sleep(self._options.seconds / 2 / len(returning))
            await away.open()
            self.found.came_back += 1

    async def _compare(self, failures: list[BaseException]) -> None:
        expected = boards.notes_of(self._database, self._options.keys)

        def right() -> int:
            if failures:
                raise failures[0]
            return sum(reader.rows.rows == expected[reader.board] for reader in self._readers)

        await self._until(lambda: right() == len(self._readers), "everybody has what the database has")
        self.found.right = right()

    def _measure(self, committed: dict[int, float], cpu: float) -> None:
        found = self.found
        heard = [moment for reader in self._readers for moment in reader.heard]
        found.delays = sorted(max(0.0, at - committed[number]) * 1000 for number, at in heard if number in committed)
        found.committed = len(committed)
        found.events = sum(reader.rows.changes for reader in self._readers)
        found.snapshots = sum(reader.rows.snapshots for reader in self._readers)
        found.cpu_us = (processes.cpu_seconds(self._service()) - cpu) / max(1, found.events) * 1e6

    async def _release(self, before: int, kernel: int) -> None:
        """Measures the cost of subscribers that did not read, and lets them read on."""
        found = self.found
        found.stalled_bytes = max(0, self._own_bytes() - before) / len(self._stalled)
        found.kernel_bytes = max(0, _kernel_bytes() - kernel) / len(self._stalled)
        found.offered_bytes = _HEAVY_PER_S * self._options.seconds * 2 * boards.HEAVY_BYTES
        for stalled in self._stalled:
            assert stalled.source is not None
            stalled.source.go_on()
        await self._until(
            lambda: all(stalled.rows.over for stalled in self._stalled), "those that did not read get must-refetch"
        )
        found.refetched = sum(stalled.rows.over for stalled in self._stalled)

    async def _until(self, condition: Callable[[], Any], what: str, limit_s: float = _LIMIT_S) -> None:
        deadline = monotonic() + limit_s
        while not condition():
            if monotonic() > deadline:
                raise RuntimeError(f"not within {limit_s:g} s: {what}")
            await asyncio.sleep(_POLL_S)

    def _service(self) -> list[int]:
        return [pid for pid in self._side.pids() if "postgres" not in processes.title(pid)]

    def _own_bytes(self) -> int:
        return processes.resident_bytes(self._service())


def _kernel_bytes() -> int:
    """Kernel memory of all TCP connections of this machine."""
    lines = Path("/proc/net/sockstat").read_text().splitlines()
    fields = next(line for line in lines if line.startswith("TCP:")).split()
    return int(fields[fields.index("mem") + 1]) * _PAGE_BYTES


def _percentile(ordered: Sequence[float], percent: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else float("nan")


def _report(options: Options, found: _Found) -> Report:
    about = (
        f"{options.subscribers:,} streams of server-sent events from one API worker, of {options.keys} boards of"
        f" {boards.NOTES_EACH} notes each; {options.rate:g} changes a second for {options.seconds:g} s, each a"
        f" transaction. {found.came_back} subscribers left and came back with the id of their last event. Delays are"
        " from the moment COMMIT had returned to the event at the client, which takes all events on one core. At the"
        f" end {found.right:,} of {options.subscribers:,} had rebuilt, from events alone, what the database has."
    )
    return Report(
        title="Subscribers: from a commit to its event",
        about=about,
        results=_figures(options, found),
        tables=[_table(options, found)],
        plots=[_plot(found)],
    )


def _figures(options: Options, found: _Found) -> list[Result]:
    delays = found.delays or [float("nan")]
    middle = Measurement(_percentile(delays, 99), median(delays), delays[-1])
    results: list[Result] = [
        Figure(
            BENCH,
            "commit to event, p99",
            middle,
            "ms",
            more_is_better=False,
            detail=f"{len(found.delays):,} events of {found.committed:,} commits; low is the median, high the slowest",
        ),
        Figure(
            BENCH,
            "subscribers with exactly the database's rows",
            Measurement.of([found.right / options.subscribers]),
            "",
            1.0,
            detail=f"{found.snapshots:,} snapshots for {options.subscribers:,} subscribers: nobody began anew",
        ),
    ]
    if options.stalled:
        detail = (
            f"{options.stalled} of them, each of whom {found.offered_bytes / 1e6:.1f} MB of events came for;"
            f" {found.refetched} got must-refetch. It is the service's growth, all of it laid to them"
        )
        held = Measurement.of([found.stalled_bytes / 1000])
        results.append(Figure(BENCH, "memory for who does not read", held, "kB", None, False, detail))
    return results


def _table(options: Options, found: _Found) -> ReportTable:
    rows = [(f"commit to event, p{p:g}, ms", f"{_percentile(found.delays, p):.1f}") for p in _PERCENTILES]
    rows += [
        ("events", f"{found.events:,}"),
        ("service CPU an event, µs", f"{found.cpu_us:.0f}"),
        ("came back and went on", f"{found.came_back:,}"),
        ("kernel memory for who does not read, kB", f"{found.kernel_bytes / 1000:.0f}" if options.stalled else "-"),
    ]
    return ReportTable("What was seen", ("what", "value"), rows)


def _plot(found: _Found) -> Plot:
    shares = [percent / 2 for percent in range(200)] + [99.5, 99.9]
    line = PlotLine("commit to event", shares, [_percentile(found.delays, share) for share in shares])
    return Plot(
        "From a commit to its event",
        "% of events",
        "ms",
        [line],
        "The last percent are those that came while the service did something else first.",
    )
