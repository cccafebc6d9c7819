"""Keys to fill before they are read, and keys to pin.

*Invariants*: both are bounded by memory, hottest keys first.

Not here: filling and pinning (`service.engine.workload`).
"""

from collections.abc import Sequence

from dataflow.spark.workload.log import HotKey
from dataflow.spark.workload.model import Texts

#: Keys with fewer reads are not worth filling early.
_LEAST_READS = 3
#: Pinned are keys that have this part of a view's reads, and come so often, if they take no more of the budget than
#: that.
_PIN_SHARE = 0.001
_PIN_PER_S = 0.2
_PIN_BUDGET = 0.02
_MOST_PINS = 100


def prewarmed(hot: Sequence[HotKey], held_bytes: float, key_bytes: float) -> list[Texts]:
    """The hottest keys that fit into the memory that the view has."""
    room = int(held_bytes / key_bytes) if key_bytes else 0
    return [key.texts for key in hot[:room] if key.reads >= _LEAST_READS]


def pinned(hot: Sequence[HotKey], requests: int, seconds: float, key_bytes: float, budget_bytes: float) -> list[Texts]:
    """Selects keys that are read all the time: an eviction policy retains them, too, except after a burst of others."""
    if not key_bytes:
        return []
    least = max(_PIN_SHARE * requests, _PIN_PER_S * seconds)
    room = min(_MOST_PINS, int(_PIN_BUDGET * budget_bytes / key_bytes))
    return [key.texts for key in hot[:room] if key.reads >= least]
