"""An application that is built when the first request for it comes."""

import asyncio
import threading

import pytest

from service.web.lazy_app import LazyApp
from service.web.messages import App, Receive, Scope, Send


async def _never() -> dict[str, object]:
    raise AssertionError("nothing is received")


class Building:
    """Builds an application that notes its requests; not before it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.times = 0
        self.served: list[str] = []

    def __call__(self) -> App:
        self.times += 1
        assert self.may.wait(10)

        async def app(scope: Scope, _: Receive, __: Send) -> None:
            self.served.append(scope["path"])

        return app


async def _send(_: object) -> None:
    raise AssertionError("nothing is sent")


def test_it_is_built_once_for_all_who_wait_also_if_the_first_leaves() -> None:
    asyncio.run(_several_wait())


async def _several_wait() -> None:
    building = Building()
    app = LazyApp(building)
    first, second = (asyncio.create_task(app({"path": path}, _never, _send)) for path in "ab")
    await asyncio.sleep(0)
    first.cancel()
    building.may.set()
    await second
    await app({"path": "c"}, _never, _send)
    assert (building.times, building.served) == (1, ["b", "c"])
    with pytest.raises(asyncio.CancelledError):
        await first


def test_others_have_their_turn_meanwhile() -> None:
    asyncio.run(_others_have_their_turn())


async def _others_have_their_turn() -> None:
    building = Building()
    waiting = asyncio.create_task(LazyApp(building)({"path": "a"}, _never, _send))
    async with asyncio.timeout(10):
        while not building.times:
            await asyncio.sleep(0.001)
    assert not waiting.done()
    building.may.set()
    await waiting
