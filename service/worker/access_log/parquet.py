"""The access log as Parquet, with the columns of the JSON lines. Needs the extra ``parquet``.

Lines are buffered up to a row group, since a Parquet file is unreadable until it is finished anyway.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from service.worker.access_log.files import Line

#: Lines of a row group.
_GROUP = 10_000
_SCHEMA = pa.schema(
    [
        pa.field("time_us", pa.int64(), nullable=False),
        pa.field("view", pa.string(), nullable=False),
        pa.field("key", pa.list_(pa.string()), nullable=False),
        pa.field("kept", pa.list_(pa.int32()), nullable=False),
        pa.field("lists", pa.list_(pa.int32()), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("rows_bytes", pa.int64()),
        pa.field("duration_us", pa.int64(), nullable=False),
        pa.field("status", pa.int32(), nullable=False),
        pa.field("reads", pa.int32(), nullable=False),
        pa.field("worker", pa.int32(), nullable=False),
        pa.field("sample_rate", pa.float64(), nullable=False),
    ]
)
#: Approximate bytes of a buffered line.
_LINE_BYTES = 32


class ParquetFile:
    """An unfinished file. *State*: `_held` has the lines of the next row group."""

    def __init__(self, path: Path, worker: int, sample_rate: float) -> None:
        self._writer = pq.ParquetWriter(path, _SCHEMA, compression="zstd")
        self._path = path
        self._same = worker, sample_rate
        self._held: list[Line] = []

    @property
    def size_bytes(self) -> int:
        return self._path.stat().st_size + len(self._held) * _LINE_BYTES

    def write(self, lines: Sequence[Line]) -> None:
        self._held += lines
        if len(self._held) >= _GROUP:
            self._flush()

    def close(self) -> None:
        if self._held:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        held, self._held = self._held, []
        worker, sample_rate = self._same
        columns = [
            [line.time_us for line in held],
            [line.logged.view for line in held],
            [line.logged.key for line in held],
            [line.logged.kept for line in held],
            [line.logged.lists for line in held],
            [line.outcome.value for line in held],
            [line.rows_bytes for line in held],
            [line.duration_us for line in held],
            [line.status for line in held],
            [line.reads for line in held],
            [worker] * len(held),
            [sample_rate] * len(held),
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        self._writer.write_table(pa.table(arrays, schema=_SCHEMA))
