"""When Python looks for cyclic garbage in the engine's process.

A full collection walks all that is in memory: 0.1 s at 150 MB of state, and by default one comes whenever that has
grown by a quarter. Nearly nothing that it finds is garbage. What is, are engines and nodes of the graph that have gone,
and then somebody knows it.

Not here: the workers', which hold next to nothing.
"""

import gc

#: Young objects are collected as usual; all of them after so many collections of the middle generation, which are some
#: millions of misses, because libraries leave a little behind.
_THRESHOLDS = (700, 10, 10_000)


def be_seldom() -> None:
    """From now on. What there is now is what was imported and begun with, and stays: it is not walked."""
    gc.set_threshold(*_THRESHOLDS)
    gc.freeze()
    gc.enable()


def collect() -> None:
    """Frees what has gone. What there is now is not walked again before the next time."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def settle() -> None:
    """What there is now stays, so it is not walked before the next time that something has gone. Costs next to nothing,
    however much there is."""
    gc.freeze()
