"""Holds one snapshot of PostgreSQL's, for any number of connections to read at.

*Invariants*: the tables were locked (ACCESS SHARE, which only keeps them from being rewritten or dropped) before the
snapshot was taken, so that what it sees of them is all there, in the same pages, until it is let go.

Not here: reading (`postgres_reader`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from dataflow.spark.postgres_reader import connect, problems
from dataflow.spark.problems import SparkProblem


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """`name` is what others import, `version` its text (``pg_current_snapshot()``). Everything that it sees was
    committed at or before `bound`, a place in the log."""

    name: str
    version: str
    bound: int


class SnapshotHolder:
    """A connection whose open transaction keeps the snapshot. It must not be used for anything else."""

    def __init__(self, url: str, password: str | None, tables: Sequence[str], lock_timeout_s: float = 30.0) -> None:
        """`tables` are qualified and quoted names. Raises SparkProblem."""
        self._connection = connect(url, password)
        try:
            with problems():
                self.snapshot = self._take(tables, lock_timeout_s)
        except BaseException:
            self.close()
            raise

    def _take(self, tables: Sequence[str], lock_timeout_s: float) -> HeldSnapshot:
        execute = self._connection.execute
        execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        execute(f"SET LOCAL lock_timeout = {round(lock_timeout_s * 1000)}".encode())
        if tables:
            # Takes no snapshot: the next statement does.
            execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS SHARE MODE".encode())
        row = execute(
            "SELECT pg_catalog.pg_export_snapshot(), pg_catalog.pg_current_snapshot()::text,"
            " pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_catalog.pg_lsn"
        ).fetchone()
        if row is None:
            raise SparkProblem("upstream_failed", "The upstream exported no snapshot.")
        return HeldSnapshot(str(row[0]), str(row[1]), int(row[2]))

    def check(self) -> None:
        """Raises SparkProblem if the snapshot is gone."""
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            raise SparkProblem(
                "snapshot_lost", "The connection that held the snapshot is gone.", "Begin again.", retryable=True
            ) from None

    def close(self) -> None:
        """Let go of snapshot and locks."""
        self._connection.close()


@contextmanager
def holding(url: str, password: str | None, tables: Sequence[str]) -> Iterator[HeldSnapshot]:
    """A snapshot for the length of a block. Raises SparkProblem."""
    holder = SnapshotHolder(url, password, tables)
    try:
        yield holder.snapshot
    finally:
        holder.close()


__all__ = ["HeldSnapshot", "SnapshotHolder", "holding"]
