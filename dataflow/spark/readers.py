"""Processes that read MariaDB or MySQL at one snapshot for Spark (`service.engine.databases.mysql.snapshot_reader`).

All of them accept connections at one Unix socket, each when it has nothing to do: a connection is one question, a line
of JSON, and its answer, a stream of Arrow batches of texts and a line of JSON, empty or a problem.

*Invariants*: an answer counts only when its last line has said that it is whole.

Not here: what is asked (`key_ranges`), the readers.
"""

import json
import os
import socket
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import IOBase
from pathlib import Path
from pickle import loads
from typing import Any

import pyarrow as pa

from dataflow.lookups.mysql.render import table_name
from dataflow.schema import Table
from dataflow.spark.problems import SparkProblem

_BUFFER_BYTES = 1 << 20
_LOST = "The processes that held the snapshot are gone."
_LOST_HINT = "The snapshot ends with them. Begin again with a new one."


@dataclass(frozen=True, slots=True)
class SnapshotServer:
    """Client of the process behind a socket. All methods raise SparkProblem."""

    path: str

    def batches(self, statement: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a statement (`key_ranges.ranged`), columns `names`, all texts."""
        return self._ask({**json.loads(statement), "names": list(names)})

    def require(self, version: str) -> None:
        """Check that the readers' snapshot is of this version."""
        if self._text({"ask": "version"}) != version:
            detail = "The snapshot is not of the announced version."
            raise SparkProblem("snapshot_lost", detail, retryable=True)

    def table(self, name: str) -> Table:
        """The table of that qualified name."""
        text = self._text({"ask": "table", "table": name})
        if text is None:
            raise SparkProblem("upstream_changed", "The table does not exist.", "Give its name with its database.")
        # Who may listen at this socket may read this user's files.
        table = loads(b64decode(text))
        assert isinstance(table, Table)
        return table

    def size(self, table: str) -> int:
        """How many bytes a table takes, by the server's estimate."""
        return int(self._text({"ask": "size", "table": table}) or 0)

    def bounds(self, table: str, column: str) -> tuple[int, int] | None:
        """The least and the greatest value of a column of integers; None if there is no row."""
        sql = f"SELECT MIN({column}), MAX({column}) FROM {table_name(table)}"
        (first, last) = self._row({"sql": sql, "types": ["int8", "int8"], "names": ["first", "last"]})
        return None if first is None or last is None else (int(first), int(last))

    def _text(self, question: Mapping[str, Any]) -> str | None:
        (found,) = self._row({**question, "names": ["answer"]})
        return found

    def _row(self, question: Mapping[str, Any]) -> tuple[str | None, ...]:
        (row,) = [tuple(row.values()) for batch in self._ask(question) for row in batch.to_pylist()]
        return row

    def _ask(self, question: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        with _answer(self.path, question) as file:
            try:
                # Not in a block of its own, which would end the file, too.
                yield from pa.ipc.open_stream(file)
                last = json.loads(file.readline())
            except (OSError, EOFError, ValueError):
                # pa.ArrowInvalid is a ValueError: a stream that was cut off.
                raise SparkProblem("snapshot_lost", _LOST, _LOST_HINT, retryable=True) from None
        if last:
            raise SparkProblem(last["error"], last["detail"], last["hint"], last["retryable"])


@contextmanager
def _answer(path: str, question: Mapping[str, Any]) -> Iterator[IOBase]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            _connect_in_folder(connection, Path(path))
            connection.sendall(json.dumps(question).encode() + b"\n")
        except OSError:
            raise SparkProblem("snapshot_lost", _LOST, _LOST_HINT, retryable=True) from None
        with connection.makefile("rb", buffering=_BUFFER_BYTES) as file:
            yield file


def _connect_in_folder(connection: socket.socket, path: Path) -> None:
    """Connect to a socket, however long its path is: the address of one has room for some hundred bytes. OSError"""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def listen_in_folder(path: Path) -> socket.socket:
    """A socket that listens at `path`, however long that is. OSError"""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        listener.listen()
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener


__all__ = ["SnapshotServer", "listen_in_folder"]
