"""What holds a snapshot for a build: of which database, in which words.

Not here: PostgreSQL's (`postgres_holder`), MariaDB's and MySQL's (`mysql_holder`), who reads at it (`builds.build`).
"""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cdc.mysql.bracket import BracketSnapshot
from cdc.mysql.position import BinlogSnapshot
from cdc.postgres.position import PostgresSnapshot


@dataclass(slots=True)
class NamedSnapshot:
    """A snapshot that others can read at, by its name."""

    name: str
    #: Its text, by which it is recognised.
    version: str
    snapshot: PostgresSnapshot | BinlogSnapshot | BracketSnapshot
    #: All that it sees is in the stream by it.
    bound: int
    #: Set as soon as it is known that nobody can read at the snapshot any more.
    expired: asyncio.Event = field(default_factory=asyncio.Event)
    #: Set by whoever needs it no more: the transaction ends, and what it keeps of old rows can go.
    released: asyncio.Event = field(default_factory=asyncio.Event)


class Holder(Protocol):
    """Of one database."""

    @property
    def upstream(self) -> dict[str, Any]:
        """What a job is told of it (`dataflow.spark.build`)."""
        ...

    def held(self, tables: Iterable[str], folder: Path) -> AbstractAsyncContextManager[NamedSnapshot]:
        """A snapshot, until the end of the block or until it is released. What is needed on disk goes into `folder`.
        Raises `UpstreamError` if there is none."""
        ...


__all__ = ["Holder", "NamedSnapshot"]
