"""memcached as a `Cache`: aiomcache."""

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from aiomcache import Client

#: Connections: more than the server's cores can use.
_CONNECTIONS = 16
#: memcached's own limit is 250 bytes; blanks and control characters are none of a key's.
_LONGEST_KEY = 200


class MemcachedCache:
    def __init__(self, host: str, port: int) -> None:
        self._client = Client(host, port, pool_size=_CONNECTIONS)

    async def get(self, key: bytes) -> bytes | None:
        value: bytes | None = await self._client.get(_plain(key))
        return value

    async def get_many(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        distinct = list(dict.fromkeys(map(_plain, keys)))
        values = dict(zip(distinct, await self._client.multi_get(*distinct), strict=True))
        return [values[_plain(key)] for key in keys]

    async def set_many(self, entries: Mapping[bytes, bytes], ttl_s: int | None) -> None:
        """Sets, at the same time where there are several."""
        sets = [self._client.set(_plain(key), value, exptime=ttl_s or 0) for key, value in entries.items()]
        await asyncio.gather(*sets)

    async def delete_many(self, keys: Sequence[bytes]) -> None:
        """Deletes, at the same time where there are several."""
        await asyncio.gather(*[self._client.delete(_plain(key)) for key in keys])


def _plain(key: bytes) -> bytes:
    """The key, or a hash of one that memcached does not take."""
    if len(key) <= _LONGEST_KEY and b" " not in key and key.isascii() and b"\x7f" not in key:
        return key
    return blake2b(key, digest_size=32).hexdigest().encode()
