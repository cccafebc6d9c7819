"""Any item, as Noria does it (thesis §6.7): what is read often comes back soon, and nothing needs to be counted.

The numbers are SplitMix64's (Steele et al., OOPSLA 2014) from a fixed seed: the engine has no chance of its own.

*State*: items in a list, and where in it each is. *Not here*: the interface (`policy`).
"""

from collections.abc import Iterator
from typing import Generic

from dataflow.eviction.policy import Item, Standing

_WORD = (1 << 64) - 1
_ENTRY_BYTES = 90


class RandomChoice(Generic[Item]):
    def __init__(self, seed: int = 1) -> None:
        self._state = seed & _WORD
        self._items: list[Item] = []
        self._places: dict[Item, int] = {}

    def fill(self, item: Item, weight_bytes: int, cost: float) -> None:  # noqa: ARG002 (the interface)
        if item not in self._places:
            self._places[item] = len(self._items)
            self._items.append(item)

    def touch(self, item: Item, times: int = 1) -> None:
        """Makes no difference."""

    def forget(self, item: Item) -> None:
        place = self._places.pop(item, None)
        if place is None:
            return
        last = self._items.pop()
        if place < len(self._items):
            self._items[place] = last
            self._places[last] = place

    def victim(self) -> Item | None:
        if not self._items:
            return None
        item = self._items[self._number() % len(self._items)]
        self.forget(item)
        return item

    def is_hot(self, item: Item) -> bool:  # noqa: ARG002 (the interface)
        """Never: reads are not counted."""
        return False

    def standings(self) -> Iterator[tuple[Item, Standing]]:
        for item in self._items:
            yield item, (0, 0.0, 0.0, False)

    def restore(self, item: Item, standing: Standing) -> None:
        self.fill(item, *standing[:2])

    def state_bytes(self) -> int:
        return len(self._items) * _ENTRY_BYTES

    def ghost_weight(self) -> int:
        return 0

    def __contains__(self, item: Item) -> bool:
        return item in self._places

    def __len__(self) -> int:
        return len(self._items)

    def _number(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _WORD
        mixed = ((self._state ^ (self._state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _WORD
        return mixed ^ (mixed >> 31)
