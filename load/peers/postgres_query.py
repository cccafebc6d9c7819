"""No cache at all: FastAPI runs the view's SQL for each request, prepared, over a pool of connections."""

import os

from fastapi import FastAPI, Response
from psycopg_pool import AsyncConnectionPool

from load.peers.story import answer, query_story

_pool = AsyncConnectionPool(os.environ["PEER_DATABASE"], min_size=4, max_size=16, open=False)
app = FastAPI()


@app.get("/v1/views/story_with_votes")
async def story_with_votes(id: int) -> Response:  # noqa: A002
    """From the database."""
    await _pool.open()
    return Response(answer(await query_story(_pool, id)), media_type="application/json")
