"""Where a key lives: the one rule by which shards are chosen, the same in every process and after every restart.

*Theory*: rendezvous hashing (Thaler and Ravishankar, 1998). Each shard draws a number for a thing, the highest wins;
with one shard more, only what that one wins moves. The numbers are drawn for *slots*, into which keys are hashed, so
that a key costs one hash however many shards there are.

*Invariants*: the hash does not depend on the process, the platform or the shards' number; a key's home is any shard's
own conclusion, nobody is asked. Which shard answers is never a matter of correctness: any shard can answer any key of a
view that is kept by keys, by filling it itself.

Not here: which of a request's parts go where, and what is done where the home does not have the view
(`service.worker.shards.placement`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

#: What keys are hashed into. With 64 shards each has about 256 of them.
SLOTS = 1 << 14
_SLOT_BITS = 14
_HASH_BYTES = 8
_FORMAT = b"upquery homes, format 1"
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Shard:
    """Which shard a process belongs to, and how many there are."""

    number: int = 0
    of: int = 1


#: There is no other.
ALONE = Shard()


class Homes:
    """The homes among shards 0 to `shards` - 1. *State*: `_homes` has those of slots, worked out when they are first
    asked for (-1: not yet)."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self._homes = [-1] * SLOTS

    def of_view(self, view: str) -> int:
        """The home of a view that is kept whole."""
        return self.of_slot(_slot(_hasher(b"whole", view).digest()))

    def of_key(self, view: str, key: bytes) -> int:
        """The home of a key; `key` is the part of its entry's name that is the same in every leaf store
        (`service.leaf_store.layout.key_part`)."""
        return self.keys_of(view)(key)

    def keys_of(self, view: str) -> Callable[[bytes], int]:
        """`of_key` for the keys of one view."""
        copy, homes, of_slot = _hasher(b"key", view).copy, self._homes, self.of_slot

        def of_key(key: bytes) -> int:
            state = copy()
            state.update(key)
            slot = _slot(state.digest())
            home = homes[slot]
            return home if home >= 0 else of_slot(slot)

        return of_key

    def order(self, view: str, key: bytes) -> list[int]:
        """All shards, the key's home first, then where it would live if those before were not there."""
        return order_of(slot_of_key(view, key), self.shards)

    def of_slot(self, slot: int) -> int:
        """The home of the keys that are hashed into a slot."""
        home = self._homes[slot]
        if home < 0:
            home = self._homes[slot] = max(range(self.shards), key=lambda shard: _drawn(slot, shard))
        return home


@lru_cache(maxsize=8)
def homes_among(shards: int) -> Homes:
    """The homes among so many shards."""
    return Homes(shards)


def slot_of_key(view: str, key: bytes) -> int:
    """What a key of a view is hashed into."""
    state = _hasher(b"key", view)
    state.update(key)
    return _slot(state.digest())


def order_of(slot: int, shards: int) -> list[int]:
    """All shards, in the order in which they would be the home of a slot. A number beyond `SLOTS` draws anew."""
    return sorted(range(shards), key=lambda shard: _drawn(slot, shard), reverse=True)


def _hasher(kind: bytes, view: str) -> "blake2b":
    state = blake2b(digest_size=_HASH_BYTES, key=_FORMAT, person=kind)
    state.update(view.encode() + b"\0")
    return state


def _slot(digest: bytes) -> int:
    return int.from_bytes(digest, "big") >> (8 * _HASH_BYTES - _SLOT_BITS)


def _drawn(slot: int, shard: int) -> int:
    """What a shard draws for a slot: splitmix64 (Steele, Lea and Flood, 2014) of both. A bijection, so no two draw the
    same."""
    mixed = ((slot << 32 | shard) * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & _MASK
    return mixed ^ mixed >> 31
