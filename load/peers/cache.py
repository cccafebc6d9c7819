"""A cache server as the cache-aside peers use it: values by key, several in one round trip."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import orjson

from load.peers.backend import Read


class Cache(Protocol):
    """A connected cache. Keys are as `key_of` makes them."""

    async def get(self, key: bytes) -> bytes | None: ...

    async def get_many(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """Several values in one round trip."""
        ...

    async def set_many(self, entries: Mapping[bytes, bytes], ttl_s: int | None) -> None:
        """Keeps values for so many seconds; None: until they are deleted."""
        ...

    async def delete_many(self, keys: Sequence[bytes]) -> None: ...


def key_of(read: Read) -> bytes:
    """The key of an answer; different reads have different ones."""
    return orjson.dumps(read)
