"""Schedule of Python's cyclic garbage collector in the engine process.

A full collection traverses the whole heap: 0.1 s at 150 MB of state; by default one runs whenever the heap has grown by
a quarter. Almost none of the heap is cyclic garbage, except engines and graph nodes that were discarded, and those
events are known.

Not here: workers, whose heap is small.
"""

import gc

#: Young objects are collected as usual; a full collection runs after this many collections of the middle generation
#: (some millions of misses), because libraries leave some garbage.
_THRESHOLDS = (700, 10, 10_000)


def be_seldom() -> None:
    """Makes full collections rare. Objects that exist now (imports, start-up) are permanent and excluded."""
    gc.set_threshold(*_THRESHOLDS)
    gc.freeze()
    gc.enable()


def collect() -> None:
    """Runs a full collection; survivors are excluded until the next call."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def settle() -> None:
    """Excludes all current objects from collections until the next `collect`. The cost does not depend on their
    number."""
    gc.freeze()
