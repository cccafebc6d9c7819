"""Rows of Parquet files in batches, read without blocking the loop.

A thread reads and converts one batch ahead. Conversion holds the GIL for one column of a batch at a time: far below a
millisecond.

Not here: verification of the files (`builds.build`).
"""

import asyncio
from collections.abc import AsyncIterator, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq

from dataflow.types import Row


async def rows_of(files: Sequence[Path], batch_rows: int) -> AsyncIterator[list[Row]]:
    """Yields the rows of all files, at most `batch_rows` at a time. Raises OSError (of which `pyarrow.ArrowInvalid` is
    a subclass)."""
    loop = asyncio.get_running_loop()
    batches = _batches(files, batch_rows)
    with ThreadPoolExecutor(1, "parquet") as thread:
        reading = loop.run_in_executor(thread, next, batches, None)
        try:
            while (batch := await reading) is not None:
                reading = loop.run_in_executor(thread, next, batches, None)
                yield batch
        finally:
            # Close the file before it may be removed, even if the rest is not wanted.
            await asyncio.gather(reading, return_exceptions=True)
            batches.close()


def _batches(files: Sequence[Path], batch_rows: int) -> Generator[list[Row], None, None]:
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=batch_rows, use_threads=False):
                columns = [column.to_pylist() for column in batch.columns]
                yield list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows
