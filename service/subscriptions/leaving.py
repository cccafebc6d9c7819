"""Clients that go away while nothing is sent to them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from service.http.messages import Receive


@contextmanager
def until_left(receive: Receive) -> Iterator[None]:
    """Ends the block, without an error, as soon as the client of the request goes away."""
    task = asyncio.current_task()
    assert task is not None
    left = False

    def has_left(watched: asyncio.Future[None]) -> None:
        nonlocal left
        if not watched.cancelled():
            left = True
            task.cancel()

    watching = asyncio.ensure_future(_watch(receive))
    watching.add_done_callback(has_left)
    try:
        yield
    except asyncio.CancelledError:
        if not left:
            raise
        task.uncancel()
    finally:
        watching.remove_done_callback(has_left)
        watching.cancel()


async def _watch(receive: Receive) -> None:
    # A body that nobody asked for is not kept.
    while (await receive())["type"] != "http.disconnect":
        pass
