"""Snapshot of MariaDB or MySQL for a build: several processes whose connections see the same rows.

Such a snapshot belongs to its connection. So as many readers are started as Spark has tasks on this machine, and each
takes snapshots until all are at one place in the binary log; if writers prevent that, while commits are blocked
(`exact_snapshot`). Tasks query any idle reader.

*Invariants*: readers end with the block, and with this process; none is replaced: when the first one ends, the snapshot
has expired.

Not here: the readers (`snapshot_reader`), the tasks (`dataflow.spark.readers`).
"""

import asyncio
import json
import os
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from pickle import loads
from typing import Any

from dataflow.spark.readers import listen_in_folder
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.exact_snapshot import TRIES, Exact, locked, pause
from service.engine.upstream.named_snapshot import NamedSnapshot
from service.engine.upstream.results import UpstreamError
from service.protocol.child import child_environment

#: Maximum readers of a snapshot.
_READERS = 8
_PROGRAM = "service.engine.databases.mysql.snapshot_reader"
#: Time limits for connecting, and for the reply to a command.
_START_S = 60.0
_ANSWER_S = 60.0
#: Time limits while commits are blocked, and for cancelling the current statement.
_LOCKED_S = 2.0
_END_S = 3.0
#: Log positions have long digits in frequently rotated logs.
_LINE_LIMIT = 16 << 20


class MySqlHolder:
    """Implementation of `NamedSnapshots`. `readers`: number of readers per snapshot; `nice`: their priority."""

    local_only: str | None = (
        "tables of MariaDB and MySQL are read by processes on this machine, which other masters do not reach"
    )

    def __init__(self, pool: MySqlPool, url: str, password: str | None, readers: int, nice: int) -> None:
        self._pool = pool
        self._url = url
        self._password = password
        self._readers = min(readers, _READERS)
        self._nice = nice

    @property
    def upstream(self) -> dict[str, Any]:
        """Returns the job's description; the snapshot's name contains the address of the readers."""
        return {"kind": "readers"}

    def held(self, tables: Iterable[str], folder: Path) -> AbstractAsyncContextManager[NamedSnapshot]:
        """Holds a snapshot of all tables; readers listen in `folder`."""
        return self._held(sorted(set(tables)), folder / "readers")

    @asynccontextmanager
    async def _held(self, tables: Sequence[str], path: Path) -> AsyncIterator[NamedSnapshot]:
        readers: list[_Reader] = []
        watching: asyncio.Future[None] | None = None
        try:
            await self._start(readers, tables, path)
            snapshot = await _agreed(self._pool, readers)
            await asyncio.gather(*(reader.ask("serve") for reader in readers))
            held = NamedSnapshot(str(path), str(snapshot), snapshot, snapshot.position)
            watching = asyncio.ensure_future(_watch(readers, held))
            yield held
        finally:
            if watching is not None:
                watching.cancel()
            await asyncio.shield(asyncio.ensure_future(_end(readers)))

    async def _start(self, readers: list["_Reader"], tables: Sequence[str], path: Path) -> None:
        """Starts the readers and appends each to `readers` as soon as it runs."""
        message = {"url": self._url, "password": self._password, "tables": tables}
        with listen_in_folder(path) as listener:
            for _ in range(self._readers):
                readers.append(await _reader(listener.fileno(), self._nice))
                readers[-1].say(json.dumps({**message, "listens": listener.fileno()}))
        # They connect concurrently.
        await asyncio.gather(*(reader.answer(_START_S) for reader in readers))


@dataclass(frozen=True, slots=True)
class _Reader:
    process: asyncio.subprocess.Process

    async def begin(self, word: str, limit_s: float) -> Exact | None:
        """Takes a snapshot and returns it. Raises UpstreamError."""
        packed = (await self.ask(word, limit_s))["snapshot"]
        # Pickled by a child process of this one.
        return None if packed is None else loads(b64decode(packed))

    async def ask(self, word: str, limit_s: float = _ANSWER_S) -> dict[str, Any]:
        """Sends a command and returns the reply. Raises UpstreamError."""
        self.say(word)
        return await self.answer(limit_s)

    def say(self, word: str) -> None:
        """Sends a command. A dead reader is detected when its reply is missing."""
        assert self.process.stdin is not None
        # uvloop's equivalent of ConnectionError.
        with suppress(ConnectionError, RuntimeError):
            self.process.stdin.write(word.encode() + b"\n")

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def answer(self, limit_s: float) -> dict[str, Any]:
        """Returns the next reply. Raises UpstreamError."""
        assert self.process.stdout is not None
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), limit_s)
        except TimeoutError:
            raise UpstreamError("timeout", "A process that reads for Spark does not respond.", retryable=True) from None
        if not line:
            raise UpstreamError(
                "failed", "A process that reads for Spark has ended; the log has the reason.", None, True
            )
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise UpstreamError(told["error"], told["detail"], told.get("hint"), retryable=True)
        return told


async def _reader(listener: int, nice: int) -> _Reader:
    """Starts a process that waits for the upstream's address."""
    return _Reader(
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "service.protocol.launcher",
            str(os.getpid()),
            str(nice),
            "-m",
            _PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(listener,),
            env=child_environment(),
            limit=_LINE_LIMIT,
            # Ctrl-C in a terminal is handled by the service.
            start_new_session=True,
        )
    )


async def _end(readers: Sequence[_Reader]) -> None:
    """Ends all readers and their statements on the server; slow ones are killed."""
    for reader in readers:
        reader.leave()
    ending = [asyncio.ensure_future(reader.process.wait()) for reader in readers]
    if ending:
        await asyncio.wait(ending, timeout=_END_S)
    for reader in readers:
        with suppress(ProcessLookupError):
            reader.process.kill()
    await asyncio.gather(*ending)


async def _agreed(pool: MySqlPool, readers: Sequence[_Reader]) -> Exact:
    """Returns the snapshot that all readers have taken. Raises UpstreamError."""
    for number in range(TRIES):
        found = await asyncio.gather(*(reader.begin("begin", _ANSWER_S) for reader in readers))
        if found[0] is not None and all(other == found[0] for other in found):
            return found[0]
        await pause(number)
    try:
        async with locked(pool):
            found = await asyncio.gather(*(reader.begin("locked", _LOCKED_S) for reader in readers))
    except UpstreamError as error:
        # Waiting does not help here: a way with fewer connections may succeed.
        raise UpstreamError("failed", error.detail, error.hint, retryable=True) from None
    if found[0] is None or any(other != found[0] for other in found):
        raise UpstreamError(
            "failed", "Connections took different snapshots although commits were blocked.", retryable=True
        )
    return found[0]


async def _watch(readers: Sequence[_Reader], held: NamedSnapshot) -> None:
    """Sets `expired` when the first reader ends; ends all readers after the release."""
    gone = [asyncio.ensure_future(reader.process.wait()) for reader in readers]
    released = asyncio.ensure_future(held.released.wait())
    try:
        await asyncio.wait({*gone, released}, return_when=asyncio.FIRST_COMPLETED)
        for reader in readers:
            reader.leave()
    finally:
        held.expired.set()
        for task in (*gone, released):
            task.cancel()


__all__ = ["MySqlHolder"]
