"""Arrival times of visits: a Poisson process, and a timer that is exact enough for it.

*Not here*: what a visit does (`visit`), what happens when it is due (`generator`).
"""

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from random import Random
from time import monotonic

_CLOCK_MONOTONIC = 1
_NONBLOCKING = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_NS = 1_000_000_000


class Arrivals:
    """The times of a Poisson process with `rate` arrivals a second, from `start` on, one after another.

    Two with the same seed are the same: one can be counted while the other is worked off.
    """

    __slots__ = ("_random", "_rate", "due")

    def __init__(self, rate: float, start: float, seed: str) -> None:
        self._random = Random(seed)
        self._rate = rate
        #: The next one.
        self.due = start + self._random.expovariate(rate)

    def step(self) -> float:
        """Take the next one."""
        due = self.due
        self.due = due + self._random.expovariate(self._rate)
        return due

    def count_until(self, time: float) -> int:
        """Take all that are due before `time`; how many."""
        count = 0
        while self.due < time:
            self.step()
            count += 1
        return count


class Timer:
    """Calls back once, at a time of `monotonic()`.

    Event loops count milliseconds, which is as long as what is measured; the kernel's timer counts nanoseconds.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._descriptor = _timer_descriptor()
        self._handle: asyncio.TimerHandle | None = None
        if self._descriptor is not None:
            self._loop.add_reader(self._descriptor, self._fired)

    def arm(self, time: float) -> None:
        """Call at `time` and not at the time that was set before."""
        if self._descriptor is None:
            self._arm_loop(time)
            return
        seconds, nanoseconds = divmod(max(1, int((time - monotonic()) * _NS)), _NS)
        new = (ctypes.c_long * 4)(0, 0, seconds, nanoseconds)
        _LIBC.timerfd_settime(self._descriptor, 0, new, None)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)

    def _fired(self) -> None:
        assert self._descriptor is not None
        with suppress(BlockingIOError):
            os.read(self._descriptor, 8)
        self._call()

    def _arm_loop(self, time: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(max(0.0, time - monotonic()), self._call)


_LIBC = ctypes.CDLL(None, use_errno=True)


def _timer_descriptor() -> int | None:
    """Opens a kernel timer (timerfd_create(2)); None on systems without one."""
    if not sys.platform.startswith("linux"):
        return None
    descriptor = int(_LIBC.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCKING))
    return descriptor if descriptor >= 0 else None
