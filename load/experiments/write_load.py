"""An open-loop writer process, and the service's lag behind it.

Overdue writes are written as soon as possible. Lag is measured from outside: the age of the log position that the
service has applied.
"""

import os
from bisect import bisect_right
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from time import monotonic, sleep

import psycopg

from load.driver.samplers import Samplers
from load.postgres_log import log_end, log_position
from load.sides.admin_client import AdminClient
from load.worker_process import worker_process
from load.workloads.changes import ChangeWriter

_TICK_S = 0.02
#: Changes of one statement: what is due beyond that comes in the next.
_AT_ONCE = 5_000
_SAMPLE_S = 0.2
_LOG_SAMPLE_S = 0.05


@dataclass(frozen=True, slots=True)
class WriteJob:
    url: str
    ids: int
    alpha: float
    #: Changes of a transaction, and changes a second.
    many: int
    rate: float
    seconds: float
    cores: tuple[int, ...] | None


def write_on(pipe: Pipe, job: WriteJob) -> None:
    """The process: reports that it is ready, waits for the start, sends the number of changes it has made."""
    if job.cores is not None:
        os.sched_setaffinity(0, set(job.cores))
    with psycopg.connect(job.url, autocommit=True) as connection:
        writer = ChangeWriter(connection, job.ids, job.alpha, job.many)
        pipe.send(0)
        pipe.recv()
        start, done = monotonic(), 0
        while (elapsed := monotonic() - start) < job.seconds:
            due = min(int(job.rate * elapsed) - done, _AT_ONCE) // job.many * job.many
            if due > 0:
                writer.write(due)
                done += due
            else:
                sleep(_TICK_S)
        pipe.send(done)
        # The session stays until its CPU time has been read.
        with suppress(EOFError):
            pipe.recv()


def ready_writer(job: WriteJob) -> AbstractContextManager[Pipe]:
    """The process, ready to begin: send it anything. Killed at the end if it has not ended."""
    return worker_process(write_on, job)


@dataclass(frozen=True, slots=True)
class LagSample:
    """The service's applied position at a moment."""

    at: float
    #: A log position.
    applied: int
    #: Rows that came and went since it began.
    rows: int


@dataclass(slots=True)
class Samples:
    """Moments in order, and what they say."""

    taken: list[LagSample] = field(default_factory=list)
    #: (time, position): how far the database's log was.
    log: list[tuple[float, int]] = field(default_factory=list)

    def lags(self, begin: float, end: float) -> list[float]:
        """Seconds behind, for each sample between: since when the log is beyond what was applied."""
        positions = [position for _, position in self.log]
        found = []
        for sample in self.taken:
            if begin <= sample.at < end:
                beyond = bisect_right(positions, sample.applied)
                found.append(max(0.0, sample.at - self.log[beyond][0]) if beyond < len(positions) else 0.0)
        return found

    def rows_per_s(self, begin: float, end: float) -> float:
        """Rows applied a second, between."""
        inside = [sample for sample in self.taken if begin <= sample.at < end]
        if len(inside) < 2:
            return 0.0
        return (inside[-1].rows - inside[0].rows) / (inside[-1].at - inside[0].at)


class LagWatch(Samplers):
    """Takes samples while entered, of each in a thread of its own: a service that is busy answers late."""

    def __init__(self, url: str, admin: AdminClient) -> None:
        super().__init__(self._watch_log, self._watch_service)
        self._url = url
        self._admin = admin
        self.samples = Samples()

    def _watch_log(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._stop.wait(_LOG_SAMPLE_S):
                self.samples.log.append((monotonic(), log_position(log_end(connection))))

    def _watch_service(self) -> None:
        while not self._stop.wait(_SAMPLE_S):
            stats = self._admin.stats()
            self.samples.taken.append(LagSample(monotonic(), stats.position, stats.counter("rows")))
