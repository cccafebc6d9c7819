"""Least recently used: forgets what was not read for longest, whatever it weighs.

*State*: items in the order of their last read. *Not here*: the interface (`policy`).
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic

from dataflow.eviction.policy import Item, Standing

_ENTRY_BYTES = 125


class Lru(Generic[Item]):
    def __init__(self) -> None:
        #: Item -> the number of the last read of it; 0: not read since it came.
        self._items: OrderedDict[Item, int] = OrderedDict()
        self._reads = 0

    def fill(self, item: Item, weight_bytes: int, cost: float) -> None:  # noqa: ARG002 (the interface)
        self._items.setdefault(item, 0)

    def touch(self, item: Item, times: int = 1) -> None:
        if item in self._items:
            self._reads += times
            self._items[item] = self._reads
            self._items.move_to_end(item)

    def forget(self, item: Item) -> None:
        self._items.pop(item, None)

    def victim(self) -> Item | None:
        return self._items.popitem(last=False)[0] if self._items else None

    def is_hot(self, item: Item) -> bool:
        """Read, and among the latest reads, as many as there are items."""
        last = self._items.get(item, 0)
        return last > 0 and self._reads - last < len(self._items)

    def standings(self) -> Iterator[tuple[Item, Standing]]:
        for item, read in self._items.items():
            yield item, (0, 0.0, float(read), False)

    def restore(self, item: Item, standing: Standing) -> None:
        self.fill(item, *standing[:2])
        if standing[2]:
            self.touch(item)

    def state_bytes(self) -> int:
        return len(self._items) * _ENTRY_BYTES

    def ghost_weight(self) -> int:
        return 0

    def __contains__(self, item: Item) -> bool:
        return item in self._items

    def __len__(self) -> int:
        return len(self._items)
