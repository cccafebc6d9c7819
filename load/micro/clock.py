"""CLOCK: a first-in-first-out queue in which what was read since it last passed the front goes round once more.

*State*: items in the queue's order, with one bit. *Not here*: the interface (`policy`).
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic

from dataflow.eviction.policy import Item, Standing

#: Items looked at for a victim; if all of them were read, the next one goes all the same.
_LOOKS = 64
_ENTRY_BYTES = 105


class Clock(Generic[Item]):
    def __init__(self) -> None:
        #: Item -> whether it was read since it came or passed the front.
        self._ring: OrderedDict[Item, bool] = OrderedDict()

    def fill(self, item: Item, weight_bytes: int, cost: float) -> None:  # noqa: ARG002 (the interface)
        self._ring.setdefault(item, False)

    def touch(self, item: Item, times: int = 1) -> None:  # noqa: ARG002 (the interface)
        if item in self._ring:
            self._ring[item] = True

    def forget(self, item: Item) -> None:
        self._ring.pop(item, None)

    def victim(self) -> Item | None:
        for _ in range(min(_LOOKS, len(self._ring))):
            item, read = next(iter(self._ring.items()))
            if not read:
                break
            self._ring[item] = False
            self._ring.move_to_end(item)
        return self._ring.popitem(last=False)[0] if self._ring else None

    def is_hot(self, item: Item) -> bool:
        return self._ring.get(item, False)

    def standings(self) -> Iterator[tuple[Item, Standing]]:
        for item, read in self._ring.items():
            yield item, (0, 0.0, float(read), False)

    def restore(self, item: Item, standing: Standing) -> None:
        self.fill(item, *standing[:2])
        if standing[2]:
            self.touch(item)

    def state_bytes(self) -> int:
        return len(self._ring) * _ENTRY_BYTES

    def ghost_weight(self) -> int:
        return 0

    def __contains__(self, item: Item) -> bool:
        return item in self._ring

    def __len__(self) -> int:
        return len(self._ring)
