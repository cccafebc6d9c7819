"""Memory and CPU time of a side under load, sampled by a thread beside the run.

*Invariants*: a side that does not answer delays nothing but its own samples.
"""

import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

import httpx

from load import processes
from load.sides.side import Side, SideError


class SideWatch:
    """Samples a side every `interval_s` while entered."""

    def __init__(self, side: Side, interval_s: float, cores: tuple[int, ...] | None) -> None:
        self._side = side
        self._interval_s = interval_s
        self._cores = cores
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_on, name="watch", daemon=True)
        #: CPU time of each process that was ever there, as last seen, and what it had when measuring began.
        self._used: dict[int, float] = {}
        self._before: dict[int, float] = {}
        #: As last sampled.
        self.resident_bytes = 0
        self.state_bytes = 0

    def __enter__(self) -> Self:
        self._pin()
        self.begin()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._sample_cpu()

    def begin(self) -> None:
        """CPU time counts from now on."""
        self._sample_cpu()
        self._before = dict(self._used)

    @property
    def cpu_s(self) -> float:
        """CPU time of the side since it last began."""
        return sum(used - self._before.get(pid, 0.0) for pid, used in self._used.items())

    def _pin(self) -> None:
        if self._cores is not None:
            processes.pin(self._side.pids(), *self._cores)

    def _sample_on(self) -> None:
        while True:
            with suppress(OSError, httpx.HTTPError, SideError, ValueError, KeyError):
                self._sample_cpu()
                self.resident_bytes = self._side.resident_bytes()
                self.state_bytes = self._side.state_bytes()
            if self._stop.wait(self._interval_s):
                return

    def _sample_cpu(self) -> None:
        for pid in self._side.pids():
            # A process that has gone keeps what it was last seen to have used.
            if used := processes.cpu_seconds([pid]):
                self._used[pid] = used
