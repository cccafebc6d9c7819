"""Slices: adaptive batch sizes that bound how long the loop is held.

A slice takes about `SLICE_S` of thread time, so it does the same work on a busy machine; after each one the loop runs
other tasks. The number of rows adapts, since the cost of a row depends on the state derived from it.
"""

from collections.abc import Callable
from time import perf_counter, thread_time

SLICE_S = 0.005
_FEWEST = 8


class Slices:
    """Adaptive slice size.

    *State*: `rows` of the next slice, never more than `most`, since expensive rows may follow cheap ones; `longest_s`,
    the longest slice in wall clock seconds.
    """

    def __init__(self, most: int) -> None:
        self.rows = 64
        self._most = most
        self.longest_s = 0.0

    def run(self, work: Callable[[], None], rows: int) -> None:
        """Runs one slice of `rows` rows and adapts the size."""
        started, started_cpu = perf_counter(), thread_time()
        work()
        took_s = thread_time() - started_cpu
        self.longest_s = max(self.longest_s, perf_counter() - started)
        fitting = rows * min(2.0, SLICE_S / max(took_s, 1e-6))
        if rows >= self.rows or fitting < self.rows:
            self.rows = max(_FEWEST, min(self._most, round(fitting)))
