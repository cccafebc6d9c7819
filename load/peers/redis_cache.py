"""Redis as a `Cache`: redis-py with hiredis, as most people use it."""

from collections.abc import Mapping, Sequence

from redis.asyncio import Redis


class RedisCache:
    """A `Cache`. redis-py keeps a connection for each of the requests that are under way."""

    def __init__(self, url: str) -> None:
        self._redis = Redis.from_url(url)

    async def get(self, key: bytes) -> bytes | None:
        value: bytes | None = await self._redis.get(key)
        return value

    async def get_many(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        values: Sequence[bytes | None] = await self._redis.mget(keys)
        return values

    async def set_many(self, entries: Mapping[bytes, bytes], ttl_s: int | None) -> None:
        """SET, pipelined where there are several."""
        if len(entries) == 1:
            ((key, value),) = entries.items()
            await self._redis.set(key, value, ex=ttl_s)
            return
        async with self._redis.pipeline(transaction=False) as pipeline:
            for key, value in entries.items():
                pipeline.set(key, value, ex=ttl_s)
            await pipeline.execute()

    async def delete_many(self, keys: Sequence[bytes]) -> None:
        await self._redis.unlink(*keys)
