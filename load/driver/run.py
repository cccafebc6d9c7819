"""One run of load: starts the generator processes, samples the side, adds up.

*Invariants*: a run ends: processes that do not are killed. Every visit that was due is in the outcome, answered or not.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from time import monotonic

from load.driver.generator import DRAIN_S, Crashed, GeneratorJob, JobResult, Ready, generate
from load.driver.outcome import Moment, RunOutcome, limit_of
from load.driver.tally import EXAMPLES, Distribution, Tally, moment
from load.driver.visit import Spec
from load.driver.watch import SideWatch
from load.processes import RunConditions, stolen_seconds
from load.progress import Tell, bar
from load.sides.side import Side

#: Workloads may compute tables before they begin.
_START_S = 180.0
#: From the word to begin to the beginning.
_HEAD_START_S = 0.05
_PATIENCE_S = 30.0


class GeneratorError(Exception):
    """The generator could not do its work; the message has why."""


def run_load(
    side: Side,
    spec: Spec,
    *,
    rate: float,
    seconds: float,
    conditions: RunConditions,
    tell: Tell,
    warm_s: float = 0.0,
    outstanding: int = 256,
    sample_state_s: float = 1.0,
    processes: int | None = None,
    timeout_s: float = 30.0,
    seed: int = 1,
    during: Callable[[], None] | None = None,
) -> RunOutcome:
    """Visit `side` at `rate` visits a second for `seconds`, after `warm_s` that do not count.

    At most `outstanding` visits are under way. `processes` send them; by default, one a client core. `during` is called
    in a thread when measuring begins, and must have ended when the run ends. Raises `GeneratorError`, and what `during`
    raises.
    """
    count = processes or len(conditions.client_cores or (0,))
    jobs = [
        GeneratorJob(
            side.reads_url,
            side.writes_url,
            spec,
            rate / count,
            str(seed),
            number,
            count,
            warm_s,
            seconds,
            -(-outstanding // count),
            timeout_s,
            conditions.client_cores,
        )
        for number in range(count)
    ]
    with _on_cores(conditions.client_cores), _running(jobs) as running:
        pipes = list(running)
        _await_ready(pipes)
        watch = SideWatch(side, sample_state_s, conditions.server_cores)
        with watch:
            start = monotonic() + _HEAD_START_S
            for pipe in pipes:
                pipe.send(start)
            begin = start + warm_s
            if warm_s:
                tell(f"{side.name}: {rate:,.0f}/s, warming up for {warm_s:g} s")
            ledger = _Ledger(side.name, rate, seconds, begin, watch, tell, count)
            _listen_until(pipes, ledger, begin)
            watch.begin()
            with _beside(during):
                _listen_until(pipes, ledger, begin + seconds + DRAIN_S + _PATIENCE_S)
            if pipes:
                raise GeneratorError("a generator process did not end in time")
        return ledger.outcome()


@contextmanager
def _on_cores(cores: tuple[int, ...] | None) -> Iterator[None]:
    """This thread works on the generator's cores, so that watching takes nothing from the side."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(cores))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _beside(work: Callable[[], None] | None) -> Iterator[None]:
    """A thread for the length of the block, which waits for it."""
    if work is None:
        yield
        return
    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(work)
        yield
        working.result()


@contextmanager
def _running(jobs: list[GeneratorJob]) -> Iterator[list[Pipe]]:
    """The processes, stopped at the end."""
    context = get_context("spawn")
    started: list[BaseProcess] = []
    pipes: list[Pipe] = []
    try:
        for job in jobs:
            mine, theirs = context.Pipe()
            process: BaseProcess = context.Process(target=generate, args=(job, theirs), daemon=True)
            process.start()
            theirs.close()
            started.append(process)
            pipes.append(mine)
        yield pipes
    finally:
        for pipe in pipes:
            pipe.close()
        for process in started:
            process.join(2.0)
            if process.is_alive():
                process.kill()
                process.join()


def _await_ready(pipes: list[Pipe]) -> None:
    deadline = monotonic() + _START_S
    for pipe in pipes:
        if not pipe.poll(max(0.0, deadline - monotonic())):
            raise GeneratorError(f"a generator process was not ready within {_START_S:.0f} s")
        said = _receive(pipe)
        if not isinstance(said, Ready):
            raise GeneratorError(f"a generator process said {said} instead of being ready")


def _receive(pipe: Pipe) -> object:
    try:
        said = pipe.recv()
    except (EOFError, ConnectionResetError):
        raise GeneratorError("a generator process ended by itself") from None
    if isinstance(said, Crashed):
        raise GeneratorError(f"a generator process failed:\n{said.reason}")
    return said


def _listen_until(pipes: list[Pipe], ledger: "_Ledger", time: float) -> None:
    """Enter what the processes say until `time`; those that have ended are taken out."""
    while pipes and (left := time - monotonic()) > 0:
        for pipe in wait(pipes, left):
            assert isinstance(pipe, Pipe)
            said = _receive(pipe)
            if isinstance(said, Tally):
                ledger.enter(said)
            elif isinstance(said, JobResult):
                ledger.ended(said)
                pipes.remove(pipe)


@dataclass(slots=True)
class _Ledger:
    """Adds up the reports of all generator processes."""

    side: str
    rate: float
    seconds: float
    begin: float
    watch: SideWatch
    tell: Tell
    processes: int
    _open: dict[int, tuple[int, Tally]] = field(default_factory=dict)
    _moments: list[Moment] = field(default_factory=list)
    _pages: dict[str, Distribution] = field(default_factory=dict)
    _all: Distribution = field(default_factory=Distribution)
    _total: Tally = field(default_factory=lambda: Tally(0))
    _unanswered: int = 0
    _last_answer: float = 0.0
    _client_cpu_s: float = 0.0
    _client_queued_s: float = 0.0
    _stolen: float = field(default_factory=stolen_seconds)

    def enter(self, tally: Tally) -> None:
        """A second of one process; it is entered once all have reported theirs."""
        told, second = self._open.get(tally.second, (0, Tally(tally.second)))
        second.add(tally)
        self._open[tally.second] = (told + 1, second)
        if told + 1 == self.processes:
            del self._open[tally.second]
            self._close(second)

    def _close(self, second: Tally) -> None:
        for page, counts in second.latencies.items():
            self._pages.setdefault(page, Distribution()).add(counts)
            self._all.add(counts)
        stolen = stolen_seconds()
        stolen_s, self._stolen = stolen - self._stolen, stolen
        second_moment = moment(second, self.watch.resident_bytes, self.watch.state_bytes, stolen_s)
        second.latencies = {}
        self._total.add(second)
        if second.second >= self.seconds:
            return
        self._moments.append(second_moment)
        self.tell(self._progress(second_moment, second.waiting))

    def _progress(self, now: Moment, waiting: int) -> str:
        told = now.hits + now.misses
        passed = now.second + 1
        parts = [
            f"{self.side}: {self.rate:,.0f}/s {bar(passed / self.seconds)} {passed}/{self.seconds:g} s",
            f"p95 {now.p95_ms:.3g} ms",
            f"{now.hits / told:.1%} hits" if told else "",
            f"{now.resident_bytes / 2**20:,.0f} MiB" if now.resident_bytes else "",
            f"{waiting:,} waiting" if waiting > self.rate / 100 else "",
            f"{self._total.failed:,} FAILED" if self._total.failed else "",
        ]
        return " · ".join(part for part in parts if part)

    def ended(self, ended: JobResult) -> None:
        self._unanswered += sum(ended.unanswered.values())
        self._all.add(ended.unanswered)
        self._last_answer = max(self._last_answer, ended.last_answer)
        self._client_cpu_s += ended.cpu_s
        self._client_queued_s += ended.queued_s

    def outcome(self) -> RunOutcome:
        total = self._total
        elapsed = max(self.seconds, self._last_answer - self.begin)
        busy = (self._client_cpu_s + self._client_queued_s) / (self.seconds * self.processes)
        offered_per_s = total.offered / self.seconds
        return RunOutcome(
            side=self.side,
            offered_per_s=offered_per_s,
            achieved_per_s=total.done / elapsed,
            seconds=self.seconds,
            latency=self._all.latency(),
            by_page={page: pages.latency() for page, pages in sorted(self._pages.items())},
            moments=tuple(self._moments),
            failed=total.failed,
            hits=total.hits,
            misses=total.misses,
            server_cpu_s=self.watch.cpu_s,
            client_cpu_s=self._client_cpu_s,
            failures=tuple(f"{count} x {reason}" for reason, count in total.failures.most_common(EXAMPLES)),
            unanswered=self._unanswered,
            limit=limit_of(offered_per_s, (total.done + total.failed) / elapsed, busy),
            generator_busy=busy,
        )
