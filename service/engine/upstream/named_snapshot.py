"""Interface for holding a snapshot during a build.

Not here: implementations (`service.engine.databases`), reading at the snapshot (`service.engine.builds`).
"""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cdc.stream import UpstreamSnapshot


@dataclass(slots=True)
class NamedSnapshot:
    """Snapshot that other processes can read at, by its name."""

    name: str
    #: Text that identifies it.
    version: str
    snapshot: UpstreamSnapshot
    #: Position by which everything that it sees is in the stream.
    bound: int
    #: Set once the snapshot can no longer be read at.
    expired: asyncio.Event = field(default_factory=asyncio.Event)
    #: Set by the user of the snapshot: the transaction ends, and the database can clean up old rows.
    released: asyncio.Event = field(default_factory=asyncio.Event)


class NamedSnapshots(Protocol):
    #: Reason why only processes on this machine can read at its snapshots, if so.
    local_only: str | None

    @property
    def upstream(self) -> dict[str, Any]:
        """Returns the job's description of the database (`dataflow.spark.build`)."""
        ...

    def held(self, tables: Iterable[str], folder: Path) -> AbstractAsyncContextManager[NamedSnapshot]:
        """Holds a snapshot until the end of the block or its release. Files go into `folder`. Raises
        `UpstreamError`."""
        ...


__all__ = ["NamedSnapshot", "NamedSnapshots"]
