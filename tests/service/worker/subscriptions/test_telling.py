"""Messages of an engine process to workers that do not read."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from dataflow.types import Key, Position, ViewId
from service.protocol.engine_client import EngineClient
from service.protocol.engine_server import EngineServer


class Touching:
    """An engine whose topics are touched when the test says so."""

    def __init__(self) -> None:
        self.tell: Callable[[set[int], Position], None] = lambda *_: None
        self.followed: set[int] = set()
        self.closed = 0

    def subscriber(self, tell: Callable[[set[int], Position], None]) -> "Touching":
        self.tell = tell
        return self

    def pin(self, topic: int, epoch: str, view: ViewId, keys: Sequence[Key]) -> None:
        assert (epoch, view, keys) == ("e", 7, [("a", None)])
        self.followed.add(topic)

    def unpin(self, topic: int) -> None:
        self.followed.discard(topic)

    def close(self) -> None:
        self.closed += 1


class Told:
    """Messages that a worker received."""

    def __init__(self) -> None:
        self.frames: list[tuple[list[int], Position]] = []
        self.disconnections = 0

    def changed(self, topics: Sequence[int], position: Position) -> None:
        self.frames.append((list(topics), position))

    def disconnected(self) -> None:
        self.disconnections += 1


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def test_what_is_not_read_becomes_one_frame(tmp_path: Path) -> None:
    async def main() -> None:
        engine, told = Touching(), Told()
        server = EngineServer(tmp_path / "e.sock", engine)  # type: ignore[arg-type]
        await server.start()
        client = EngineClient(tmp_path / "e.sock")
        client.listen(told)
        for topic in (1, 2):
            await client.pin(topic, "e", ViewId(7), [("a", None)], 5)
        for position in range(1000):
            engine.tell({1, position % 5}, position)
        await until(lambda: told.frames)
        assert told.frames == [([0, 1, 2, 3, 4], 999)]
        engine.tell({2}, 1000)
        engine.tell(set(), 1001)
        await until(lambda: len(told.frames) == 2)
        assert told.frames[-1] == ([2], 1001)
        client.unpin(1)
        await until(lambda: engine.followed == {2})
        await server.close()
        await until(lambda: told.disconnections)
        assert (told.disconnections, engine.closed) == (1, 1)
        client.unpin(2)
        await client.close()

    asyncio.run(main())
