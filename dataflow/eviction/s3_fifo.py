"""S3-FIFO, weighted by bytes and by the cost of computing an item again: the engine's policy.

Three first-in-first-out queues (Yang et al., *FIFO queues are all you need for cache eviction*, SOSP 2023). A new item
waits in *small*, a fifth of the bytes. If it is read there it moves to *main*, else it is evicted early, and *ghost*
remembers it for a while: if it is filled again meanwhile, it enters main at once (unless its rent is too high, see
below). Reads move nothing, they are only counted; at the front of main, an item that was read goes round once more for
a read. So a scan passes through small and leaves main alone.

Weights: a byte in memory should save as much work as possible, which is (reads · cost) / bytes. GreedyDual-Size (Cao
and Irani, USITS 1997) and CAMP (Ghandeharizadeh et al., Middleware 2014) order items by that; here it is the price of a
round. An item's *rent* is its bytes for a unit of cost, relative to all items together. An item at the front of main
pays the rent out of its counted reads: the average item one read, as in S3-FIFO; one of ten times the bytes
ten; one that costs four lookups a quarter. Whether small's items may move to main follows the same rent. With equal
weights and costs this is S3-FIFO, but for two of the numbers below.

*Invariants*: every item is in one of small and main; `_weight` and `_cost` are the sums over both, `_small_weight`
over small; ghost weighs no more than what is in memory, and has no more entries than the most there ever were.

*Not here*: the interface (`policy`).
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Generic

from dataflow.eviction.policy import GHOST_BYTES, Item, Standing
from dataflow.sizing import shared_number

#: Small's part of all bytes. The paper has a tenth; but reads are reported up to a second late, and a new item must be
#: in memory still then: with a fifth, a shifting working set gains a point, and a steady one loses half of one.
_SMALL = 0.2
#: The part of its rent that an item has to show in small.
_EARLY = 0.2
#: A higher rent is not taken on only because the item came back.
_GHOST_RENT = 2.0
#: Rounds that an item can have paid in advance, if its rent is one at least; and the reads counted if it is less.
_ROUNDS = 3
#: Rents below pay this: what is cheap to keep must become old, too.
_LOWEST_RENT = 1 / 8
#: Items looked at for a victim; if all of them may stay, the one with the fewest rounds left goes.
_LOOKS = 64

#: An entry of a queue and its slot in the dictionary (`tests.dataflow.eviction.test_sizes` measures).
_ENTRY_BYTES = 190


class _Entry:
    """State of an item. `reads` counts those that have not been spent on rounds."""

    __slots__ = ("cost", "in_main", "reads", "weight")

    def __init__(self, weight: int, cost: float, in_main: bool) -> None:
        #: An object that other entries have too, if it is small.
        self.weight: Any = shared_number(weight)
        self.cost = cost
        self.reads: float = 0
        self.in_main = in_main


class S3Fifo(Generic[Item]):
    def __init__(self) -> None:
        self._small: OrderedDict[Item, _Entry] = OrderedDict()
        self._main: OrderedDict[Item, _Entry] = OrderedDict()
        #: Hash of an item that went -> its weight.
        self._ghost: OrderedDict[int, int] = OrderedDict()
        self._weight = 0
        self._small_weight = 0
        self._ghost_weight = 0
        self._cost = 0.0
        self._newest: Item | None = None

    def fill(self, item: Item, weight_bytes: int, cost: float) -> None:
        entry = self._entry(item)
        weight, cost = max(1, weight_bytes), max(1e-6, cost)
        if entry is None:
            back = self._left_ghost(item) and self._rent(weight, cost) <= _GHOST_RENT
            entry = _Entry(0, 0.0, in_main=back)
            (self._main if entry.in_main else self._small)[item] = entry
            self._newest = item
        self._count(entry, weight - entry.weight, cost - entry.cost)
        entry.weight, entry.cost = shared_number(weight), cost

    def touch(self, item: Item, times: int = 1) -> None:
        entry = self._entry(item)
        if entry is not None:
            entry.reads += times

    def forget(self, item: Item) -> None:
        entry = self._entry(item)
        if entry is not None:
            self._remove(item, entry)
            self._haunt(item, entry.weight)

    def victim(self) -> Item | None:
        coldest: Item | None = None
        fewest = float("inf")
        for _ in range(min(_LOOKS, len(self))):
            item, entry = self._front()
            rounds = self._go_round(item, entry)
            if rounds < 0:
                coldest = item
                break
            if rounds < fewest:
                coldest, fewest = item, rounds
        if coldest is not None:
            self._evict(coldest)
        return coldest

    def is_hot(self, item: Item) -> bool:
        entry = self._entry(item)
        return entry is not None and entry.reads > 0

    def standings(self) -> Iterator[tuple[Item, Standing]]:
        for queue in (self._main, self._small):
            for item, entry in queue.items():
                yield item, (entry.weight, entry.cost, float(entry.reads), entry.in_main)

    def restore(self, item: Item, standing: Standing) -> None:
        weight, cost, reads, in_main = standing
        entry = (self._main if in_main else self._small)[item] = _Entry(weight, cost, in_main)
        # Zero, as most are, is no object of its own then.
        entry.reads = int(reads) if reads == int(reads) else reads
        self._count(entry, weight, cost)

    def state_bytes(self) -> int:
        return len(self) * _ENTRY_BYTES + len(self._ghost) * GHOST_BYTES

    def ghost_weight(self) -> int:
        return self._ghost_weight

    def __contains__(self, item: Item) -> bool:
        return item in self._small or item in self._main

    def __len__(self) -> int:
        return len(self._small) + len(self._main)

    def _entry(self, item: Item) -> _Entry | None:
        return self._main.get(item) or self._small.get(item)

    def _rent(self, weight: int, cost: float) -> float:
        """Reads that a round of main costs such an item."""
        if not self._weight:
            return 1.0
        return max(_LOWEST_RENT, weight * self._cost / (cost * self._weight))

    def _front(self) -> tuple[Item, _Entry]:
        """The item to consider next: small's if small is too large, but not the newest item unless it is the only
        one."""
        if self._small and (self._small_weight > _SMALL * self._weight or not self._main):
            item, entry = next(iter(self._small.items()))
            if item != self._newest or not self._main:
                return item, entry
        return next(iter(self._main.items()))

    def _go_round(self, item: Item, entry: _Entry) -> float:
        """To main's back, for the rounds that are paid for then; negative: `item` has not earned it."""
        rent = self._rent(entry.weight, entry.cost)
        if not entry.in_main:
            return self._promote(item, entry, rent)
        if entry.reads < rent:
            return -1.0
        entry.reads = min(entry.reads, _ROUNDS * max(1.0, rent)) - rent
        self._main.move_to_end(item)
        return entry.reads / rent

    def _promote(self, item: Item, entry: _Entry, rent: float) -> float:
        """From small to main, where it has to earn its stay anew."""
        if entry.reads < _admission(rent):
            return -1.0
        del self._small[item]
        self._small_weight -= entry.weight
        self._main[item] = entry
        entry.in_main = True
        entry.reads = 0
        return 0.0

    def _evict(self, item: Item) -> None:
        """An item that had its chance in main leaves no ghost: in a loop that is longer than main it would return at
        once, and push out the item to be read next."""
        entry = self._main.get(item) or self._small[item]
        self._remove(item, entry)
        if not entry.in_main:
            self._haunt(item, entry.weight)

    def _remove(self, item: Item, entry: _Entry) -> None:
        self._count(entry, -entry.weight, -entry.cost)
        del (self._main if entry.in_main else self._small)[item]
        if not self:
            # What rounding has left of the sum.
            self._cost = 0.0

    def _count(self, entry: _Entry, weight: int, cost: float) -> None:
        self._weight += weight
        self._cost += cost
        if not entry.in_main:
            self._small_weight += weight

    def _haunt(self, item: Item, weight: int) -> None:
        """Remembers an item that goes: what comes back soon is read often."""
        self._ghost_weight += weight - self._ghost.pop(hash(item), 0)
        self._ghost[hash(item)] = weight
        while self._ghost and self._ghost_weight > self._weight:
            self._ghost_weight -= self._ghost.popitem(last=False)[1]

    def _left_ghost(self, item: Item) -> bool:
        weight = self._ghost.pop(hash(item), None)
        self._ghost_weight -= weight or 0
        return weight is not None


def _admission(rent: float) -> float:
    """Reads in small that are enough for main: one, or what is new and never read again gets in. Small's items stay a
    quarter of a round, so who pays a fifth of the rent there will about pay it all. (S3-FIFO asks for two reads; but
    here they are a sample, in which many were read once.)"""
    return max(1.0, _EARLY * rent)
