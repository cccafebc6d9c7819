"""How much is done at once, so that the loop is never held for long.

A slice takes about `SLICE_S` of this thread's time: on a busy machine it is not to be less work. After each the loop
gets a turn. How many rows that are is found out as it goes: they differ by what hangs off them.
"""

from collections.abc import Callable
from time import perf_counter, thread_time

SLICE_S = 0.005
_FEWEST = 8


class Slices:
    """*State*: `rows`, how many the next slice should have, never more than `most`: after much that cost little comes
    something that costs more. `longest_s`, the longest on the clock."""

    def __init__(self, most: int) -> None:
        self.rows = 64
        self._most = most
        self.longest_s = 0.0

    def run(self, work: Callable[[], None], rows: int) -> None:
        """Does a slice, which has so many rows."""
        started, started_cpu = perf_counter(), thread_time()
        work()
        took_s = thread_time() - started_cpu
        self.longest_s = max(self.longest_s, perf_counter() - started)
        fitting = rows * min(2.0, SLICE_S / max(took_s, 1e-6))
        if rows >= self.rows or fitting < self.rows:
            self.rows = max(_FEWEST, min(self._most, round(fitting)))
