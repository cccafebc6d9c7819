"""The interface of eviction policies.

A policy ranks *items*: things in memory with a weight and a cost of computing them again. It is notified of fills,
reads and removals, and names victims. It does not know what an item is, and has no clock and no randomness, so the same
calls give the same victims.

Not here: how much to evict and when (`service.engine.loop.memory_budget`), what is evicted along with a victim
(`engine.budget`).
"""

from collections.abc import Hashable, Iterator
from typing import Protocol, TypeVar

Item = TypeVar("Item", bound=Hashable)

#: Bytes of remembering an evicted item (`tests.dataflow.eviction.test_sizes` measures).
GHOST_BYTES = 180


#: Weight, cost and counted reads of an item, and whether it has proved itself.
Standing = tuple[int, float, float, bool]


class Policy(Protocol[Item]):
    """Ranks items. Each method is O(1), also at worst; memory besides the items is bounded by their number."""

    def fill(self, item: Item, weight_bytes: int, cost: float) -> None:
        """Add `item`, or update its weight and cost. `cost` of computing it again: 1.0 is one lookup."""
        ...

    def touch(self, item: Item, times: int = 1) -> None:
        """Count reads of `item`; ignored if it is absent. Calls for one sample of reads have no particular order."""
        ...

    def forget(self, item: Item) -> None:
        """Remove `item`, which was removed from memory or may no longer be chosen; ignored if it is absent."""
        ...

    def victim(self) -> Item | None:
        """Remove and return the item to evict next; None if there are no items."""
        ...

    def is_hot(self, item: Item) -> bool:
        """Return whether `item` was read recently since it was filled, so that it should be filled again at once if it
        is lost. At most as many such fills are useless as there are reads. To be called before `forget`; an absent item
        is not hot."""
        ...

    def standings(self) -> Iterator[tuple[Item, Standing]]:
        """All items with their standing, in an order in which `restore` puts them in their places."""
        ...

    def restore(self, item: Item, standing: Standing) -> None:
        """Add an item with the standing that it had in another policy of this kind."""
        ...

    def state_bytes(self) -> int:
        """Estimate of the policy's own memory, without the items."""
        ...

    def ghost_weight(self) -> int:
        """Total weight of evicted items that are remembered; 0 if the policy remembers none. Each takes
        `GHOST_BYTES`."""
        ...

    def __contains__(self, item: Item) -> bool: ...

    def __len__(self) -> int: ...
