"""Homes of keys: the rule that assigns keys to shards, equal in every process and after every restart.

*Theory*: rendezvous hashing (Thaler and Ravishankar, 1998). Each shard draws a number for a key, and the highest
wins; an additional shard moves only the keys that it wins. The numbers are drawn for *slots*, into which keys are
hashed, so that a key costs one hash regardless of the number of shards.

*Invariants*: the hash does not depend on the process, the platform or the number of shards; each process computes a
key's home by itself. The home never matters for correctness: any shard can answer any key of a view that is sharded
by keys, by filling it.

Not here: the split of requests, and homes that do not have the view (`service.worker.shards.placement`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

#: Number of hash slots. With 64 shards each has about 256 of them.
SLOTS = 1 << 14
_SLOT_BITS = 14
_HASH_BYTES = 8
#: Identity of the rule; others give keys other homes.
FORMAT = "upquery homes, format 1"
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Shard:
    """The number of a process's shard, and the number of shards."""

    number: int = 0
    of: int = 1


#: The only shard.
ALONE = Shard()


class Homes:
    """The homes among shards 0 to `shards` - 1. *State*: `_homes` has the slots' homes, computed at first use (-1:
    not yet)."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self._homes = [-1] * SLOTS

    def of_view(self, view: str) -> int:
        """Return the home of a view that is not sharded by keys."""
        return self.of_slot(_slot(_hasher(b"whole", view).digest()))

    def of_key(self, view: str, key: bytes) -> int:
        """Return the home of a key; `key` is the part of its entry's name that is equal in every leaf store
        (`service.leaf_store.layout.key_part`)."""
        return self.keys_of(view)(key)

    def keys_of(self, view: str) -> Callable[[bytes], int]:
        """Return `of_key` for the keys of one view."""
        copy, homes, of_slot = _hasher(b"key", view).copy, self._homes, self.of_slot

        def of_key(key: bytes) -> int:
            state = copy()
            state.update(key)
            slot = _slot(state.digest())
            home = homes[slot]
            return home if home >= 0 else of_slot(slot)

        return of_key

    def order(self, view: str, key: bytes) -> list[int]:
        """Return all shards: the key's home first, then its homes if the preceding ones did not exist."""
        return order_of(slot_of_key(view, key), self.shards)

    def of_slot(self, slot: int) -> int:
        """Return the home of the keys of a slot."""
        home = self._homes[slot]
        if home < 0:
            home = self._homes[slot] = max(range(self.shards), key=lambda shard: _drawn(slot, shard))
        return home


@lru_cache(maxsize=8)
def homes_among(shards: int) -> Homes:
    return Homes(shards)


def slot_of_key(view: str, key: bytes) -> int:
    """Return the slot of a key."""
    state = _hasher(b"key", view)
    state.update(key)
    return _slot(state.digest())


def order_of(slot: int, shards: int) -> list[int]:
    """Return all shards, by preference as the home of a slot. A number beyond `SLOTS` draws independently."""
    return sorted(range(shards), key=lambda shard: _drawn(slot, shard), reverse=True)


def _hasher(kind: bytes, view: str) -> "blake2b":
    state = blake2b(digest_size=_HASH_BYTES, key=FORMAT.encode(), person=kind)
    state.update(view.encode() + b"\0")
    return state


def _slot(digest: bytes) -> int:
    return int.from_bytes(digest, "big") >> (8 * _HASH_BYTES - _SLOT_BITS)


def _drawn(slot: int, shard: int) -> int:
    """Return a shard's number for a slot: splitmix64 (Steele, Lea and Flood, 2014) of both. It is a bijection, so no
    two numbers are equal."""
    mixed = ((slot << 32 | shard) * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & _MASK
    return mixed ^ mixed >> 31
