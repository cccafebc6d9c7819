"""The databases that Spark's tasks read, each at a snapshot that somebody else holds.

Of PostgreSQL any number of connections may see an exported snapshot. One of MariaDB's or MySQL's belongs to its
connection, so that tasks ask processes that have such connections (`readers`).

*Invariants*: a task that is tried again reads the same rows; an upstream goes to tasks as it is, and how it prints has
no password.

Not here: who holds the snapshot (`snapshot_holder`, `service.engine.databases`).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg
import pyarrow as pa

from dataflow.plan.nodes import Aggregate, Chain
from dataflow.schema import Table
from dataflow.spark import key_ranges, partitions
from dataflow.spark.key_ranges import KeyRange
from dataflow.spark.partitions import Range
from dataflow.spark.postgres_reader import Exported, at_snapshot, batches, problems
from dataflow.spark.problems import SparkProblem
from dataflow.spark.readers import SnapshotServer

#: What one task reads, one after the other.
Part = tuple[Range | KeyRange, ...]


class BatchConnection(Protocol):
    """A snapshot that is read. Everything raises SparkProblem."""

    def require(self, version: str, tables: Sequence[str]) -> None:
        """Make sure that this is the snapshot of that version, and that no table is rewritten as long as it is open."""
        ...

    def table(self, name: str) -> Table:
        """The table of that qualified name."""
        ...

    def parts(self, table: Table, part_bytes: int, count: int | None = None) -> Sequence[Part]:
        """The table's rows in parts of about `part_bytes`, or in about `count` parts."""
        ...

    def batches(self, statement: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """A statement's rows (`BatchUpstream.ranged`): columns `names`, all texts, as a lookup gives them."""
        ...


class BatchUpstream(Protocol):
    """A database with a snapshot to read at."""

    @property
    def snapshot(self) -> str: ...

    @property
    def compares_texts(self) -> bool:
        """True if texts of a deterministic collation are equal only if all their characters are."""
        ...

    def options(self) -> dict[str, str]:
        """Options of the data source for this upstream. Spark leaves options called `password` out of its plans."""
        ...

    def opened(self) -> AbstractContextManager[BatchConnection]:
        """The snapshot, for the length of a block."""
        ...

    def ranged(self, relation: Chain | Aggregate, table: Table, part: Part) -> Sequence[str]:
        """The statements of a lookup of everything of `relation` that see nothing but `part` of the table."""
        ...

    def part(self, fields: Sequence[Mapping[str, Any]]) -> Part:
        """A part of which each range was made a dictionary."""
        ...


@dataclass(frozen=True, slots=True)
class PostgresBatchUpstream:
    exported: Exported

    @property
    def snapshot(self) -> str:
        return self.exported.snapshot

    @property
    def compares_texts(self) -> bool:
        """True if texts of a deterministic collation are equal only if all their characters are."""
        return True

    def options(self) -> dict[str, str]:
        found = {"url": self.exported.url, "snapshot": self.exported.snapshot}
        return found if self.exported.password is None else {**found, "password": self.exported.password}

    @contextmanager
    def opened(self) -> "Iterator[PostgresBatchConnection]":
        """The snapshot, for the length of a block. Raises SparkProblem."""
        with at_snapshot(self.exported) as connection:
            yield PostgresBatchConnection(connection)

    def ranged(self, relation: Chain | Aggregate, table: Table, part: Part) -> Sequence[str]:
        return partitions.ranged(relation, table, [of for of in part if isinstance(of, Range)])

    def part(self, fields: Sequence[Mapping[str, Any]]) -> Part:
        """A part of which each range was made a dictionary."""
        return tuple(Range(**one) for one in fields)


@dataclass(frozen=True, slots=True)
class PostgresBatchConnection:
    connection: psycopg.Connection

    def require(self, version: str, tables: Sequence[str]) -> None:
        """Make sure that it is that version, and that no table is rewritten."""
        with problems():
            row = self.connection.execute("SELECT pg_catalog.pg_current_snapshot()::text").fetchone()
            if row is None or row[0] != version:
                detail = "The snapshot is not of the announced version."
                raise SparkProblem("snapshot_lost", detail, retryable=True)
            if tables:
                self.connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS SHARE MODE".encode())

    def table(self, name: str) -> Table:
        """The table of that qualified name."""
        return partitions.table_of(self.connection, name)

    def parts(self, table: Table, part_bytes: int, count: int | None = None) -> Sequence[Part]:
        """Ranges of the table's pages."""
        return partitions.parts_of(self.connection, table.name, part_bytes, count)

    def batches(self, statement: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return batches(self.connection, statement, list(names))


@dataclass(frozen=True, slots=True)
class ReadersUpstream:
    """`BatchUpstream` of processes on this machine that read MariaDB or MySQL, behind one socket."""

    socket: str

    @property
    def snapshot(self) -> str:
        return self.socket

    @property
    def compares_texts(self) -> bool:
        """Trailing spaces do not count, in most collations."""
        return False

    def options(self) -> dict[str, str]:
        return {"readers": self.socket}

    @contextmanager
    def opened(self) -> "Iterator[ReadersConnection]":
        """The snapshot. It is open as long as the readers live."""
        yield ReadersConnection(SnapshotServer(self.socket))

    def ranged(self, relation: Chain | Aggregate, table: Table, part: Part) -> Sequence[str]:
        return key_ranges.ranged(relation, table, [of for of in part if isinstance(of, KeyRange)])

    def part(self, fields: Sequence[Mapping[str, Any]]) -> Part:
        """A part of which each range was made a dictionary."""
        return tuple(KeyRange(**one) for one in fields)


@dataclass(frozen=True, slots=True)
class ReadersConnection:
    readers: SnapshotServer

    def require(self, version: str, tables: Sequence[str]) -> None:
        """Make sure that it is that version. (The server itself notices when a table was altered.)"""
        del tables
        self.readers.require(version)

    def table(self, name: str) -> Table:
        """The table of that qualified name."""
        return self.readers.table(name)

    def parts(self, table: Table, part_bytes: int, count: int | None = None) -> Sequence[Part]:
        """Ranges of the table's key."""
        return key_ranges.parts_of(self.readers, table, part_bytes, count)

    def batches(self, statement: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self.readers.batches(statement, names)


__all__ = ["BatchConnection", "BatchUpstream", "Part", "PostgresBatchUpstream", "ReadersUpstream"]
