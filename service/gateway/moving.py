"""Homes of slots, also while the number of shards changes.

*Theory*: a key may be answered by any shard, so a new number of shards is not wrong at any moment, only expensive: each
key that has another home has to be filled there. So slots go to their new homes one by one, over some time, and the
shards fill what is asked for of some slots while the others are still answered where they are.

*Invariants*: which slots have moved depends on nothing but the time since the change, so all processes do much the
same. A slot that keeps its home never leaves it.

Not here: who decides that it is time (`topology`).
"""

from functools import lru_cache

from service.sharding.homes import SLOTS, homes_among

#: An odd number, so that its multiples, taken modulo the slots, are all of them: an order without a pattern.
_STRIDE = 0x9E37


class SlotHomes:
    """*State*: `_homes` of slots as they are now; `_left` are slots that have to move, the next one last, to the homes
    of `_new` by `_until_s`."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self._homes = list(homes_of_all(shards))
        self._left: list[int] = []
        self._total = 0
        self._new = self._homes
        self._until_s = self._move_s = 0.0
        #: Slots that have moved since the start.
        self.moved = 0

    @property
    def is_moving(self) -> bool:
        """Whether some have not got to their new homes."""
        return bool(self._left)

    def home(self, slot: int) -> int:
        """The shard that is asked for the keys of a slot."""
        return self._homes[slot]

    def new_home(self, slot: int) -> int:
        """Where they will be."""
        return self._new[slot]

    def change(self, shards: int, now_s: float, move_s: float) -> None:
        """From now on there are so many; slots begin to move. (It takes a while if `homes_of_all` has not been asked
        for so many lately.)"""
        self.shards = shards
        self._new = list(homes_of_all(shards))
        order = [slot * _STRIDE % SLOTS for slot in range(SLOTS)]
        self._left = [slot for slot in order if self._homes[slot] != self._new[slot]]
        self._total, self._move_s, self._until_s = len(self._left), move_s, now_s + move_s

    def move(self, now_s: float) -> bool:
        """Move what is due; whether that was the last."""
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
    """The homes of all slots among so many shards."""
    return tuple(map(homes_among(shards).of_slot, range(SLOTS)))
