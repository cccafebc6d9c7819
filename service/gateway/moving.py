"""Homes of slots, also while the number of shards changes.

*Theory*: any shard can answer any key, so a new number of shards is correct at any moment, but expensive: each key
with another home must be filled there. So slots move to their new homes one by one, over some time; the shards fill
keys of moved slots while the others are still answered at their old homes.

*Invariants*: the moved slots depend only on the time since the change, so all processes behave alike. A slot whose
home does not change never moves.

Not here: the begin of a move (`topology`).
"""

from functools import lru_cache

from service.sharding.homes import SLOTS, homes_among

#: Odd, so that its multiples modulo the number of slots are a permutation, in an order without a pattern.
_STRIDE = 0x9E37


class SlotHomes:
    """*State*: `_homes`, the present homes of slots; `_left`, slots that have to move to the homes of `_new` by
    `_until_s`, the next one last."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self._homes = list(homes_of_all(shards))
        self._left: list[int] = []
        self._total = 0
        self._new = self._homes
        self._until_s = self._move_s = 0.0
        #: Slots moved since the start.
        self.moved = 0

    @property
    def is_moving(self) -> bool:
        """True if some slots have not moved yet."""
        return bool(self._left)

    def home(self, slot: int) -> int:
        """Return the present home of a slot."""
        return self._homes[slot]

    def new_home(self, slot: int) -> int:
        """Return the future home of a slot."""
        return self._new[slot]

    def change(self, shards: int, now_s: float, move_s: float) -> None:
        """Begin to move slots to so many shards. (Slow unless `homes_of_all` of that number is cached.)"""
        self.shards = shards
        self._new = list(homes_of_all(shards))
        order = [slot * _STRIDE % SLOTS for slot in range(SLOTS)]
        self._left = [slot for slot in order if self._homes[slot] != self._new[slot]]
        self._total, self._move_s, self._until_s = len(self._left), move_s, now_s + move_s

    def move(self, now_s: float) -> bool:
        """Move the slots that are due; return whether the last one was among them."""
        if not self._left:
            return False
        waits = (self._until_s - now_s) / self._move_s if self._move_s else 0.0
        stay = max(0, int(self._total * waits))
        while len(self._left) > stay:
            slot = self._left.pop()
            self._homes[slot] = self._new[slot]
            self.moved += 1
        return not self._left


@lru_cache(maxsize=4)
def homes_of_all(shards: int) -> tuple[int, ...]:
    """Return the homes of all slots among so many shards."""
    return tuple(map(homes_among(shards).of_slot, range(SLOTS)))
