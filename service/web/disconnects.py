"""Detection of clients that leave while nothing is sent to them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from service.web.messages import Receive


@contextmanager
def until_left(receive: Receive, after_s: float = 0.0) -> Iterator[None]:
    """End the block, without an error, when the request's client disconnects. Watching begins after `after_s`, which
    spares short requests its cost."""
    task = asyncio.current_task()
    assert task is not None
    left = False
    watching: asyncio.Future[None] | None = None

    def has_left(watched: asyncio.Future[None]) -> None:
        nonlocal left
        if not watched.cancelled():
            left = True
            task.cancel()

    def watch() -> None:
        nonlocal watching
        watching = asyncio.ensure_future(_watch(receive))
        watching.add_done_callback(has_left)

    starting = asyncio.get_running_loop().call_later(after_s, watch) if after_s else None
    if starting is None:
        watch()
    try:
        yield
    except asyncio.CancelledError:
        if not left:
            raise
        task.uncancel()
    finally:
        if starting is not None:
            starting.cancel()
        if watching is not None:
            watching.remove_done_callback(has_left)
            watching.cancel()


async def _watch(receive: Receive) -> None:
    # The body is not needed.
    while (await receive())["type"] != "http.disconnect":
        pass
