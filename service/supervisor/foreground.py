"""A service from its start to its end, whichever kind it is: until a signal says stop."""

import asyncio
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from service.settings.errors import SettingsError
from service.supervisor.children import StartError
from service.supervisor.ports import Endpoints

if TYPE_CHECKING:
    from service.settings.auth import AuthSettings


class Service(Protocol):
    """A stack or a gateway."""

    async def start(self) -> Endpoints:
        """Starts all of it. After a `StartError` nothing is left behind."""
        ...

    async def stop(self) -> None:
        """Stops all of it. May be called again."""
        ...


async def serve(service: Service, ready: Callable[[Endpoints], None]) -> None:
    """A service until SIGTERM or SIGINT. `ready` is called once it answers. Raises `StartError`."""
    waiting = asyncio.create_task(_told_to_stop())
    starting = asyncio.create_task(service.start())
    try:
        await asyncio.wait({waiting, starting}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            ready(starting.result())
            await waiting
    finally:
        for task in (starting, waiting):
            task.cancel()
        await asyncio.gather(starting, waiting, return_exceptions=True)
        await service.stop()


async def _told_to_stop() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()


def check_auth(auth: "AuthSettings | None") -> None:
    """Raises `StartError` if nobody could be let in."""
    if auth is None:
        return
    # Only who has [auth] needs what checks it.
    from service.web.auth.authority import check_settings

    try:
        check_settings(auth)
    except SettingsError as error:
        raise StartError(str(error), exit_code=2) from None
