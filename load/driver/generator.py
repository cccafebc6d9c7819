"""One process of the open-loop generator: visits begin when they are due, however long earlier ones take (thesis §6.1).

The number of visits under way is bounded; further ones wait here while their clock runs. Latency is *sojourn*:
from when a visit was due to its last answer.

*Invariants*: a visit ends once, in success or failure; a visit that has not ended by the end of the run is reported as
unanswered, with the time it had waited.

*Not here*: starting the processes and adding up (`run`), connections (`connection`).
"""

import asyncio
import gc
import os
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from random import Random
from time import monotonic, process_time

import uvloop

from load.driver.arrivals import Arrivals, Timer
from load.driver.connection import Pool
from load.driver.tally import Tally
from load.driver.visit import HttpCall, HttpReply, Spec, Visit, VisitSource

#: After the last arrival, visits may take so long to end.
DRAIN_S = 5.0
_SWEEP_S = 0.5


@dataclass(frozen=True, slots=True)
class GeneratorJob:
    reads_url: str
    writes_url: str
    spec: Spec
    #: Arrivals a second, of this process.
    rate: float
    seed: str
    process: int
    processes: int
    warm_s: float
    seconds: float
    outstanding: int
    timeout_s: float
    cores: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Ready:
    """The process waits for the time to begin."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The last words of a process."""

    #: Visits that were due and never answered: how long they had waited, in microseconds, and how often.
    unanswered: dict[int, int]
    #: Of `monotonic()`: the last answer that was counted.
    last_answer: float
    #: CPU time while visits were due, and the time it waited for a core that others had.
    cpu_s: float
    queued_s: float


@dataclass(frozen=True, slots=True)
class Crashed:
    """The process cannot go on; the traceback."""

    reason: str


def generate(job: GeneratorJob, pipe: Pipe) -> None:
    """The process: says `Ready`, is sent the time to begin, says a `Tally` a second, and `JobResult`."""
    try:
        if job.cores is not None:
            os.sched_setaffinity(0, set(job.cores))
        workload = job.spec.start(job.process, job.processes)
        gc.collect()
        gc.freeze()
        pipe.send(Ready())
        start = float(pipe.recv())
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            pipe.send(runner.run(_Crowd(job, workload, start, pipe).run()))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        # The parent has gone, or is being stopped as well.
        return
    except Exception:
        with suppress(OSError):
            pipe.send(Crashed(traceback.format_exc()))


class _Crowd:
    def __init__(self, job: GeneratorJob, workload: VisitSource, start: float, pipe: Pipe) -> None:
        self._job = job
        self._workload = workload
        self._pipe = pipe
        self._random = Random(f"{job.seed} visits {job.process}")
        #: When measuring begins, and when the last visit is due.
        self._begin = start + job.warm_s
        self._end = self._begin + job.seconds
        seed = f"{job.seed} arrivals {job.process}"
        self._measured = Arrivals(job.rate, self._begin, seed)
        self._counted = Arrivals(job.rate, self._begin, seed)
        self._arrivals = Arrivals(job.rate, start, f"{seed} warm") if job.warm_s else self._measured
        self._under_way: set[_Visitor] = set()
        self._tally = Tally(0)
        self._begun = 0
        self._offered = 0
        self._last_answer = start
        self._cpu_s = self._queued_s = 0.0
        self._pumping = False
        #: Whether visits may begin.
        self._accepts = True
        self._drained = asyncio.Event()
        urls = (job.reads_url, job.writes_url)
        self._pools = tuple(Pool(url, job.outstanding, job.timeout_s) for url in urls)

    async def run(self) -> JobResult:
        self._timer = Timer(self.pump)
        self.pump()
        await self._seconds()
        await self._drain()
        ended = JobResult(self._unanswered(), self._last_answer, self._cpu_s, self._queued_s)
        self._report(ceil(self._job.seconds))
        self._under_way.clear()
        self._timer.close()
        for pool in self._pools:
            pool.close()
        return ended

    async def _seconds(self) -> None:
        """From the beginning of the measurement to its end: report each second."""
        while (left := self._begin - monotonic()) > 0:
            await asyncio.sleep(min(1.0, left))
            self._sweep()
        self.pump()
        cpu, queued = process_time(), _queued_s()
        second = 0
        while (begun := self._begin + second) < self._end:
            await asyncio.sleep(max(0.0, min(begun + 1, self._end) - monotonic()))
            self._report(second)
            self._sweep()
            second += 1
        while monotonic() < self._end:
            # Event loops may wake up a little early, and something may be due in the last millisecond.
            await asyncio.sleep(0)
        self.pump()
        self._accepts = False
        self._cpu_s, self._queued_s = process_time() - cpu, _queued_s() - queued

    async def _drain(self) -> None:
        """Wait for what is under way, but not for ever."""
        until = monotonic() + DRAIN_S
        while self._under_way and monotonic() < until:
            self._drained.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_SWEEP_S):
                    await self._drained.wait()
            self._sweep()

    def _sweep(self) -> None:
        for pool in self._pools:
            pool.sweep()

    def _report(self, second: int) -> None:
        """Send what was counted in a second and begin the next."""
        tally, self._tally = self._tally, Tally(second + 1)
        tally.second = second
        tally.offered = self._counted.count_until(min(self._begin + second + 1, self._end))
        self._offered += tally.offered
        tally.waiting = self._offered - self._begun
        self._pipe.send(tally)

    def pump(self) -> None:
        """Begin what is due, as far as may be."""
        if self._pumping:
            return
        self._pumping = True
        now = monotonic()
        if self._arrivals is not self._measured and now >= self._begin:
            # What the warm-up still had waiting is not carried into the measurement.
            self._arrivals = self._measured
        limit = self._job.outstanding
        arrivals = self._arrivals
        until = self._end if arrivals is self._measured else self._begin
        while arrivals.due <= now and arrivals.due < until and len(self._under_way) < limit and self._accepts:
            self._begin_visit(arrivals.step())
        if arrivals.due > now:
            self._timer.arm(min(arrivals.due, until))
        self._pumping = False

    def _begin_visit(self, due: float) -> None:
        if due >= self._begin:
            self._begun += 1
        page, pages = self._workload.visit(self._random)
        visitor = _Visitor(self, page, due, pages, self._pools)
        self._under_way.add(visitor)
        visitor.go_on(None)

    def ended(self, visitor: "_Visitor", failure: str | None) -> None:
        now = monotonic()
        self._under_way.discard(visitor)
        if visitor.due >= self._begin:
            tally = self._tally
            tally.hits += visitor.hits
            tally.misses += visitor.misses
            self._last_answer = now
            if failure is None:
                tally.record(visitor.page, now - visitor.due)
            else:
                tally.fail(visitor.page, failure)
        if self._arrivals.due <= now:
            self.pump()
        if not self._under_way:
            self._drained.set()

    def _unanswered(self) -> dict[int, int]:
        """How long those that never began, and those still under way, have waited at the end."""
        waited: dict[int, int] = {}
        now = monotonic()
        ages = [now - visitor.due for visitor in self._under_way if visitor.due >= self._begin]
        while self._measured.due < self._end:
            ages.append(self._end - self._measured.step())
        for age in ages:
            # To the millisecond: there may be many.
            us = int(age * 1000) * 1000
            waited[us] = waited.get(us, 0) + 1
        return waited


def _queued_s() -> float:
    """How long this thread was ready to run and another had the core (proc(5)); 0 where the kernel does not say."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


@dataclass(eq=False, slots=True)
class _Visitor:
    crowd: _Crowd
    page: str
    due: float
    visit: Visit
    pools: Sequence[Pool]
    hits: int = 0
    misses: int = 0
    #: Answers of the calls that were made together, and how many are still to come; below zero: the visit has ended.
    _replies: list[HttpReply] = field(default_factory=list)
    _missing: int = 0

    def go_on(self, replies: Sequence[HttpReply] | None) -> None:
        """Make the next calls."""
        try:
            calls: Sequence[HttpCall] = next(self.visit) if replies is None else self.visit.send(replies)
            while not calls:
                calls = self.visit.send(())
        except StopIteration:
            self._end(None)
            return
        except Exception as error:
            # The page could not make sense of an answer: that is a visit that failed.
            self._end(f"{type(error).__name__}: {error}")
            return
        self._missing = len(calls)
        self._replies = [_NONE] * len(calls)
        for index, call in enumerate(calls):
            self.pools[call.server].send(call.request, self, index)

    def replied(self, index: int, reply: HttpReply) -> None:
        if self._missing < 0:
            return
        if reply.hit is not None:
            if reply.hit:
                self.hits += 1
            else:
                self.misses += 1
        if reply.status >= 400:
            self.broke(index, f"{reply.status} {reply.body[:200].decode(errors='replace')}")
            return
        self._replies[index] = reply
        self._missing -= 1
        if self._missing == 0:
            self.go_on(self._replies)

    def broke(self, index: int, reason: str) -> None:  # noqa: ARG002
        """A call will not be answered, or not with a success."""
        if self._missing >= 0:
            self.visit.close()
            self._end(reason)

    def _end(self, failure: str | None) -> None:
        self._missing = -1
        self.crowd.ended(self, failure)


_NONE = HttpReply(0, b"", None)
