"""A file of rows: Parquet, columns ``c0`` … of texts, written under another name until it is whole.

*Invariants*: a file that has its name is whole and on the disk, and was of these bytes when `FilePart` was made.

Not here: which rows (`build_tasks`), reading the files (`service.engine.builds`).
"""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from dataflow.spark.manifest import FilePart, write_note
from dataflow.spark.problems import SparkProblem

#: Of a row group, which readers hold as a whole.
_GROUP_ROWS = 50_000
_GROUP_BYTES = 16 << 20


def schema(width: int) -> pa.Schema:
    """Arrow schema of a file with so many columns."""
    return pa.schema([(name, pa.string()) for name in names(width)])


def names(width: int) -> list[str]:
    return [f"c{index}" for index in range(width)]


def write_part(path: Path, width: int, batches: Iterator[pa.RecordBatch]) -> FilePart:
    """Write a file, and beside it what it is. Raises SparkProblem (the disk is full, or gone)."""
    with disk_problems():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                hashed = _HashedFile(file)
                rows = _write(hashed, schema(width), batches)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        part = FilePart(path.name, rows, hashed.sha256.hexdigest())
        write_note(path, part)
        return part


def _write(hashed: "_HashedFile", of: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    rows = 0
    with pq.ParquetWriter(pa.PythonFile(hashed, mode="w"), of, compression="zstd", compression_level=1) as writer:
        group: list[pa.RecordBatch] = []
        for batch in batches:
            rows += batch.num_rows
            group.append(pa.RecordBatch.from_arrays(batch.columns, schema=of))
            if sum(b.num_rows for b in group) >= _GROUP_ROWS or sum(b.nbytes for b in group) >= _GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(group), row_group_size=_GROUP_ROWS)
                group = []
        if group:
            writer.write_table(pa.Table.from_batches(group), row_group_size=_GROUP_ROWS)
    return rows


class _HashedFile:
    """A file with the hash of the bytes written to it, `sha256`."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """The file is closed where it was opened."""


@contextmanager
def disk_problems() -> Iterator[None]:
    """Converts errors of files into problems for users."""
    try:
        yield
    except OSError as problem:
        raise _disk_problem(problem) from None


def _disk_problem(problem: OSError) -> SparkProblem:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return SparkProblem(
            "disk_full", "The disk that the build is written to is full.", "Make room, or set another directory.", True
        )
    return SparkProblem(
        "disk_failed",
        f"The build cannot be written: {problem.strerror or 'input/output error'}.",
        "All of Spark's machines must be able to write into the same directory.",
        retryable=True,
    )


__all__ = ["disk_problems", "names", "schema", "write_part"]
