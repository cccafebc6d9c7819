"""A statement's rows from PostgreSQL at a snapshot that somebody holds, as Arrow batches of texts.

Rows are copied out as CSV in which all but NULL is quoted: the same output functions as a lookup's, one message a row,
so that no quote or newline in a value ends a block of rows, and Arrow makes columns of a block without Python.

*Invariants*: session settings that decide how values print are pinned as those of the stream and the lookups are; a
snapshot is never replaced by another one; problems hold no SQL and no password.

Not here: which statements (`partitions`, `build_plan`); who holds the snapshot (`snapshot_holder`).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
import pyarrow as pa
from pyarrow import csv

from dataflow.spark.problems import SparkProblem

#: As `cdc.postgres.session` pins them (a test compares), which is not imported: this side knows no streams.
SESSION_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "client_encoding": "UTF8",
    "xmlbinary": "base64",
}
#: A batch reads long and waits for nobody. Tasks run beside each other already; compiling costs more than it saves.
_OTHER_SETTINGS = {
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "standard_conforming_strings": "on",
}
_CONNECT_S = 30
_BATCH_BYTES = 4 << 20
_SNAPSHOT = re.compile(r"[0-9A-Fa-f]+(?:-[0-9A-Fa-f]+)*")
#: By the beginning of the SQLSTATE, the longest that fits: code, whether another try may help, what helps.
_KINDS: dict[str, tuple[str, bool, str]] = {
    "08": ("upstream_unavailable", True, "Is the upstream running, and does it let this host in?"),
    "57P": ("upstream_unavailable", True, "The upstream ended the connection."),
    "53": ("upstream_busy", True, "The upstream is short of connections, memory or disk."),
    "28": ("upstream_refused", False, "Check the role and its password."),
    "42501": ("upstream_refused", False, "The role needs SELECT on the table."),
    "42": ("upstream_changed", False, "A table or column is not what it was when the catalog was read."),
    "40": ("upstream_unavailable", True, "A standby cancels long reads: see max_standby_streaming_delay."),
    "57014": ("upstream_unavailable", True, "Somebody cancelled the statement."),
}
_LOST_HINT = "The snapshot ends with the connection that holds it. Begin again with a new one."


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported snapshot, and where it can be imported."""

    url: str = field(repr=False)
    password: str | None = field(repr=False)
    snapshot: str


def session_sql() -> str:
    """The statements that pin a session's settings. (Not as startup options: poolers refuse those.)"""
    return "; ".join(f"SET {name} = '{value}'" for name, value in {**SESSION_SETTINGS, **_OTHER_SETTINGS}.items())


def connect(url: str, password: str | None) -> psycopg.Connection:
    """A connection outside of a transaction, with its settings pinned. Raises SparkProblem."""
    with problems():
        try:
            connection = psycopg.connect(
                url, autocommit=True, application_name="upquery-spark", connect_timeout=_CONNECT_S, password=password
            )
        except psycopg.ProgrammingError:
            # Says which part of the text it stumbled upon, which may be the password.
            raise SparkProblem("upstream_refused", "The upstream's URL is not one.", "Check [upstream] url.") from None
        connection.execute(session_sql().encode())
    return connection


@contextmanager
def at_snapshot(upstream: Exported) -> Iterator[psycopg.Connection]:
    """A connection in a transaction that sees the snapshot. Raises SparkProblem."""
    if not _SNAPSHOT.fullmatch(upstream.snapshot):
        raise SparkProblem("snapshot_lost", "What was given as the snapshot's name is none.", _LOST_HINT)
    connection = connect(upstream.url, upstream.password)
    try:
        with problems():
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                connection.execute(f"SET TRANSACTION SNAPSHOT '{upstream.snapshot}'".encode())
            except psycopg.DatabaseError as problem:
                if problem.sqlstate is None or problem.sqlstate.startswith(("08", "57", "53")):
                    raise
                detail = problem.diag.message_primary or "It cannot be imported."
                raise SparkProblem(
                    "snapshot_lost", f"The snapshot is gone: {detail}", _LOST_HINT, retryable=True
                ) from None
            yield connection
    finally:
        connection.close()


def batches(connection: psycopg.Connection, sql: str, names: list[str]) -> Iterator[pa.RecordBatch]:
    """A statement's rows: columns `names`, all texts, as the server prints them. Raises SparkProblem."""
    with problems(), connection.cursor() as cursor:
        rows: list[bytes] = []
        size = 0
        with cursor.copy(f"COPY ({sql}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)".encode()) as copy:
            # One row is one message, so that blocks end where rows do.
            for row in copy:
                rows.append(bytes(row))
                size += len(row)
                if size >= _BATCH_BYTES:
                    yield from _parsed(b"".join(rows), names)
                    rows, size = [], 0
        if rows:
            yield from _parsed(b"".join(rows), names)


def _parsed(block: bytes, names: list[str]) -> list[pa.RecordBatch]:
    table = csv.read_csv(
        pa.BufferReader(block),
        read_options=csv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    found: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return found


@contextmanager
def problems() -> Iterator[None]:
    """psycopg's and Arrow's errors in our words."""
    try:
        yield
    except psycopg.Error as problem:
        raise _problem(problem) from None
    except pa.ArrowInvalid:
        raise SparkProblem(
            "upstream_failed", "A row is too long for a batch, or is no UTF-8.", "Load the view without Spark."
        ) from None


def _problem(problem: psycopg.Error) -> SparkProblem:
    state = problem.sqlstate or ""
    detail = problem.diag.message_primary if state else None
    if not state:
        # Of the connection itself: libpq's words, of which the first line names host and reason.
        lines = str(problem).strip().splitlines()
        state, detail = "08", lines[0] if lines else "The connection to the upstream was lost."
    for length in (5, 3, 2):
        kind = _KINDS.get(state[:length])
        if kind is not None:
            return SparkProblem(kind[0], str(detail), kind[2], kind[1])
    return SparkProblem("upstream_failed", f"The upstream said: {detail}", "", retryable=False)


__all__ = ["SESSION_SETTINGS", "Exported", "at_snapshot", "batches", "connect", "problems", "session_sql"]
