"""Frames between API workers and the engine process, over a Unix socket.

A frame is a 4-byte big-endian length and a JSON body. A request has an id, an operation and its arguments; its reply has
the same id and either a result or a problem. Replies come in any order.

The engine process implements `EngineService` and runs a `WireServer`; a worker has an `EngineClient`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dataflow.types import Key, Position
from service.leaf_store.answer import Answer, Window


@dataclass(frozen=True, slots=True)
class ReadItem:
    """One key of a view, by the view's name: `key` has the normal forms, in the order of the view's parameters."""

    view: str
    key: Key
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class ReadReply:
    """Answers to all items of a request, all exact at `position` (see `LeafState` for `at_ms`)."""

    answers: list[Answer]
    position: Position
    at_ms: int


class EngineService(Protocol):
    """What the engine process does for workers.

    Each call runs as its own task; it is cancelled when the worker has gone or no longer waits. An `ApiError` that a call
    raises reaches the worker's client as it is; any other exception is logged and becomes ``internal_error``.
    """

    async def read(self, items: Sequence[ReadItem]) -> ReadReply:
        """Fill what is missing and answer all items in one step, at one version."""
        ...

    async def reach(self, position: Position) -> None:
        """Return once a commit of the leaf store has at least `position`; push the stream if it is idle."""
        ...

    async def checkpoint(self) -> Position:
        """The upstream's position now; makes an idle stream get there."""
        ...

    def report(self, worker: int, counters: dict[str, dict[str, int]]) -> None:
        """A worker's counters since its start, by view: ``hits``, ``misses``, ``errors``. Once a second; must not block."""
        ...


class WireServer:
    """The engine process's side: ``server = WireServer(path, service); await server.start(); …; await server.close()``."""

    def __init__(self, path: Path, service: EngineService) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        """Listen; a socket file left by a dead process is replaced."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop listening, cancel what runs, close the connections."""
        raise NotImplementedError


class EngineClient:
    """A worker's side. Connects when it is first needed, and again after the engine went away.

    Every method raises ApiError ``engine_unavailable`` when there is no engine, and what the service raised.
    """

    def __init__(self, path: Path) -> None:
        raise NotImplementedError

    async def read(self, items: Sequence[ReadItem], timeout_s: float) -> ReadReply:
        """ApiError ``read_timeout`` after `timeout_s`."""
        raise NotImplementedError

    async def reach(self, position: Position, timeout_s: float) -> None:
        """ApiError ``version_timeout`` after `timeout_s`."""
        raise NotImplementedError

    async def checkpoint(self, timeout_s: float) -> Position:
        """ApiError ``read_timeout`` after `timeout_s`."""
        raise NotImplementedError

    async def report(self, worker: int, counters: dict[str, dict[str, int]]) -> None:
        """Sends and does not wait; nothing happens without an engine."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the connection; calls that still wait get ``engine_unavailable``."""
        raise NotImplementedError
