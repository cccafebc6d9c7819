"""What teams write by hand: FastAPI, Redis in front of PostgreSQL, cache-aside with a time to live.

A hit costs one round trip to Redis. Nothing invalidates an entry: within its time to live it may be wrong, which is the
other difference to Upquery.
"""

import os

from fastapi import FastAPI, Response
from psycopg_pool import AsyncConnectionPool
from redis.asyncio import Redis

from load.peers.story import answer, query_story

_TTL_S = 3600
_redis = Redis.from_url(os.environ["PEER_REDIS"])
_pool = AsyncConnectionPool(os.environ["PEER_DATABASE"], min_size=1, max_size=4, open=False)
app = FastAPI()


@app.get("/v1/views/story_with_votes")
async def story_with_votes(id: int) -> Response:  # noqa: A002
    """From Redis, else from the database and into Redis."""
    key = f"story_with_votes:{id}"
    cached = await _redis.get(key)
    if cached is None:
        await _pool.open()
        cached = answer(await query_story(_pool, id))
        await _redis.set(key, cached, ex=_TTL_S)
    return Response(cached, media_type="application/json")
