"""The connection between a worker and the engine's process, on the loop that both run on."""

import asyncio
from pathlib import Path

import uvloop

from service.ground.errors import ApiError
from service.protocol.engine_client import EngineClient
from service.settings.sections import HttpSettings
from tests.service.worker.conftest import running


def test_a_request_right_after_the_connection_broke_finds_another_one(tmp_path: Path) -> None:
    """Neither the closed transport nor the reader's end may have been noticed yet."""

    async def scenario() -> None:
        async with running(tmp_path, HttpSettings()) as service:
            for turns in range(6):
                assert await problem(service.client) in ("", "engine_unavailable")
                connection = service.client._connection
                assert connection is not None
                connection._writer.transport.abort()
                for _ in range(turns):
                    await asyncio.sleep(0)
                assert await problem(service.client) in ("", "engine_unavailable")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


async def problem(client: EngineClient) -> str:
    """The code of the one that a read meets, if any."""
    try:
        await client.read([], 5.0)
    except ApiError as error:
        return error.code
    return ""
