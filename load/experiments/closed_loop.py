"""Closed-loop client on some connections, each with one request under way: a side's highest rate, and its cost.

The generator is a process of its own. A closed loop measures the highest rate; its latencies do not model arrivals
(`load.driver` does).
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from time import monotonic, process_time

import uvloop

from load.driver.connection import Pool
from load.driver.visit import HttpReply
from load.worker_process import worker_process

#: Above the time that is measured: connecting, and the last answers.
_PATIENCE_S = 60.0
_TIMEOUT_S = 30.0
_EXAMPLE_BYTES = 300


class LoopError(RuntimeError):
    """An answer was missing or not 200; the message has the first."""


@dataclass(frozen=True, slots=True)
class Loop:
    url: str
    #: Sent in this order, by whichever connection is free; from the beginning again, unless `once`.
    requests: Sequence[bytes]
    seconds: float
    #: It ends when all have been sent, even if there is time left.
    once: bool = False
    connections: int = 16
    cores: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Looped:
    requests: int
    seconds: float
    hits: int
    client_cpu_s: float

    @property
    def per_second(self) -> float:
        """Requests that were answered."""
        return self.requests / self.seconds


def run_loop(loop: Loop) -> Looped:
    """Ask until the time is over. Raises `LoopError`."""
    with worker_process(ask_on, loop) as pipe:
        pipe.send(None)
        if not pipe.poll(loop.seconds + _PATIENCE_S):
            raise LoopError(f"{loop.url}: the loop did not end")
        said = pipe.recv()
    if isinstance(said, str):
        raise LoopError(f"{loop.url}: {said}")
    assert isinstance(said, Looped)
    return said


def ask_on(pipe: Pipe, loop: Loop) -> None:
    """The process: reports that it is ready, waits for the start, sends its results."""
    if loop.cores is not None:
        os.sched_setaffinity(0, set(loop.cores))
    pipe.send(None)
    pipe.recv()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pipe.send(runner.run(_Asking(loop).run()))


class _Asking:
    """A `Waiter`. Its index is the connection's place."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._pool = Pool(loop.url, loop.connections, _TIMEOUT_S)
        self._over = asyncio.Event()
        self._end = 0.0
        self._sent = self._done = self._hits = 0
        self._under_way = 0
        self._failed: str | None = None

    async def run(self) -> Looped | str:
        """Until the end; what failed first, if anything did."""
        begin, cpu = monotonic(), process_time()
        self._end = begin + self._loop.seconds
        for place in range(self._loop.connections):
            self._next(place)
        await self._over.wait()
        elapsed = monotonic() - begin
        self._pool.close()
        return self._failed or Looped(self._done, elapsed, self._hits, process_time() - cpu)

    def replied(self, index: int, reply: HttpReply) -> None:
        """The next, unless this is the end."""
        self._under_way -= 1
        if reply.status != 200:
            self._fail(f"{reply.status} {reply.body[:_EXAMPLE_BYTES].decode(errors='replace')}")
            return
        self._done += 1
        self._hits += bool(reply.hit)
        self._next(index)

    def broke(self, index: int, reason: str) -> None:
        del index
        self._fail(reason)

    def _next(self, place: int) -> None:
        requests = self._loop.requests
        all_sent = self._loop.once and self._sent >= len(requests)
        if self._failed is None and not all_sent and monotonic() < self._end:
            self._under_way += 1
            self._sent += 1
            self._pool.send(requests[(self._sent - 1) % len(requests)], self, place)
        elif not self._under_way:
            self._over.set()

    def _fail(self, reason: str) -> None:
        self._failed = self._failed or reason
        self._over.set()
