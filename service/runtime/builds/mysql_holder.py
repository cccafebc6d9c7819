"""Holds a snapshot of MariaDB or MySQL, in processes that each have a connection which sees the same.

Such a snapshot belongs to its connection. So readers are started, as many as Spark has tasks on this machine, and begin
until all of them have begun at one place in the binary log; where writers leave no moment for that, while nothing
commits (`service.upstream.mysql.exact`). Tasks ask whichever reader has nothing to do.

*Invariants*: readers end with the block, and with this process; none of them is replaced: with the first that is gone,
the snapshot is.

Not here: what a reader does (`builds.reader`), who asks (`dataflow.spark.readers`).
"""

import asyncio
import json
import os
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from pickle import loads
from typing import Any

from dataflow.spark.readers import listen_in_folder
from service.child import child_environment
from service.runtime.builds.holder import Held
from service.upstream.mysql.connect import UpstreamPool
from service.upstream.mysql.exact import TRIES, Exact, locked, pause
from service.upstream.words import UpstreamError

#: Of one snapshot, at most.
READERS = 16
_PROGRAM = "service.runtime.builds.reader"
#: How long one may take until it is connected, and to answer a word.
_START_S = 60.0
_ANSWER_S = 30.0


class MySqlHolder:
    """Is a `Holder`. `readers` is how many there are of one snapshot, `nice` how far others come first."""

    def __init__(self, pool: UpstreamPool, url: str, password: str | None, readers: int, nice: int) -> None:
        self._pool = pool
        self._url = url
        self._password = password
        self._readers = min(readers, READERS)
        self._nice = nice

    @property
    def upstream(self) -> dict[str, Any]:
        """What a job is told of it: the snapshot's name says where."""
        return {"kind": "readers"}

    def held(self, tables: Iterable[str], folder: Path) -> AbstractAsyncContextManager[Held]:
        """A snapshot of all tables; readers listen in `folder`."""
        del tables
        return self._held(folder / "readers")

    @asynccontextmanager
    async def _held(self, path: Path) -> AsyncIterator[Held]:
        async with AsyncExitStack() as stack:
            readers = await self._started(stack, path)
            snapshot = await _agreed(self._pool, readers)
            await asyncio.gather(*(reader.ask("serve") for reader in readers))
            held = Held(str(path), str(snapshot), snapshot, snapshot.position)
            watching = asyncio.ensure_future(_watch(readers, held))
            stack.callback(watching.cancel)
            yield held

    async def _started(self, stack: AsyncExitStack, path: Path) -> list["_Reader"]:
        told = {"url": self._url, "password": self._password}
        with listen_in_folder(path) as listener:
            readers = [
                await stack.enter_async_context(_reader(told, listener.fileno(), self._nice))
                for _ in range(self._readers)
            ]
        # They connect beside each other.
        await asyncio.gather(*(reader.answer(_START_S) for reader in readers))
        return readers


@dataclass(frozen=True, slots=True)
class _Reader:
    """A reader's process."""

    process: asyncio.subprocess.Process

    async def begin(self, word: str) -> Exact | None:
        """The snapshot that it has begun. Raises UpstreamError."""
        packed = (await self.ask(word))["snapshot"]
        # Our own child's.
        return None if packed is None else loads(b64decode(packed))

    async def ask(self, word: str) -> dict[str, Any]:
        """Its answer to a word. Raises UpstreamError."""
        assert self.process.stdin is not None
        with suppress(ConnectionError):  # It is gone: that is seen below.
            self.process.stdin.write(word.encode() + b"\n")
            await self.process.stdin.drain()
        return await self.answer(_ANSWER_S)

    async def answer(self, limit_s: float) -> dict[str, Any]:
        """What it says next. Raises UpstreamError."""
        assert self.process.stdout is not None
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), limit_s)
        except TimeoutError:
            raise UpstreamError("timeout", "A process that reads for Spark does not answer.", retryable=True) from None
        if not line:
            raise UpstreamError(
                "unavailable", "A process that reads for Spark has ended; the log says why.", None, True
            )
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise UpstreamError(told["error"], told["detail"], told.get("hint"), retryable=True)
        return told


@asynccontextmanager
async def _reader(told: dict[str, Any], listener: int, nice: int) -> AsyncIterator[_Reader]:
    """A process that has been told where to connect, until the end of the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "service.runtime.builds.child", str(os.getpid()), str(nice), "-m", _PROGRAM,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        pass_fds=(listener,),
        env=child_environment(),
    )  # fmt: skip
    assert process.stdin is not None
    try:
        with suppress(ConnectionError):
            process.stdin.write(json.dumps({**told, "listens": listener}).encode() + b"\n")
            await process.stdin.drain()
        yield _Reader(process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())


async def _agreed(pool: UpstreamPool, readers: Sequence[_Reader]) -> Exact:
    """The snapshot that all have begun. Raises UpstreamError."""
    for number in range(TRIES):
        found = await asyncio.gather(*(reader.begin("begin") for reader in readers))
        if found[0] is not None and all(other == found[0] for other in found):
            return found[0]
        await pause(number)
    async with locked(pool):
        found = await asyncio.gather(*(reader.begin("locked") for reader in readers))
    if found[0] is None or any(other != found[0] for other in found):
        raise UpstreamError("failed", "Connections that began while nothing was committed differ.", retryable=True)
    return found[0]


async def _watch(readers: Sequence[_Reader], held: Held) -> None:
    """Says when the first is gone; ends all once nobody needs them."""
    gone = [asyncio.ensure_future(reader.process.wait()) for reader in readers]
    released = asyncio.ensure_future(held.released.wait())
    try:
        await asyncio.wait({*gone, released}, return_when=asyncio.FIRST_COMPLETED)
        for reader in readers:
            with suppress(ProcessLookupError):
                reader.process.kill()
    finally:
        held.expired.set()
        for task in (*gone, released):
            task.cancel()


__all__ = ["READERS", "MySqlHolder"]
