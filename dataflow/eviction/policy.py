"""What to forget first: the interface of eviction policies.

A policy ranks *items*: things in memory with a weight and a cost of getting them again. It is told what comes, what is
read and what goes, and names victims. It does not know what an item is, has no clock and no chance, so the same calls
give the same victims.

Not here: how much must go and when (`service.engine.loop.memory_budget`), what else goes with a victim
(`engine.budget`).
"""

from collections.abc import Hashable
from typing import Protocol, TypeVar

Item = TypeVar("Item", bound=Hashable)

#: What remembering an item takes that has gone (`tests.dataflow.eviction.test_sizes` measures).
GHOST_BYTES = 180


class Policy(Protocol[Item]):
    """Ranks items. Each method is O(1), also at worst; memory besides the items is bounded by their number."""

    def fill(self, item: Item, weight_bytes: int, cost: float) -> None:
        """`item` is in memory now, or is still and weighs something else. Getting it again would cost about `cost`
        (1.0: one lookup)."""
        ...

    def touch(self, item: Item, times: int = 1) -> None:
        """`item` was read; nothing happens if it is not there. In no particular order among those of one sample."""
        ...

    def forget(self, item: Item) -> None:
        """`item` has gone, or may not be chosen any more; nothing happens if it is not there."""
        ...

    def victim(self) -> Item | None:
        """The item to evict next, which the policy forgets with that; None: there is none."""
        ...

    def is_hot(self, item: Item) -> bool:
        """Whether `item` was read since it was filled, of late: then it should be filled again at once if it is lost.
        No more such fills are in vain than there are reads. To be asked before it is forgotten; what is not there is
        not hot."""
        ...

    def state_bytes(self) -> int:
        """About what the policy itself holds, the items not counted."""
        ...

    def ghost_weight(self) -> int:
        """The bytes that items weighed which have gone and are remembered; 0 if the policy remembers none. Each takes
        `GHOST_BYTES`."""
        ...

    def __contains__(self, item: Item) -> bool: ...

    def __len__(self) -> int: ...
