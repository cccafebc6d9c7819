"""About how many bytes things take in this process (CPython's object sizes)."""

from collections.abc import Sequence
from sys import getsizeof

from dataflow.types import Row

#: What an object takes beyond its size, since memory is given in units of 16 bytes.
_ROUNDING = 8
#: Rows of a batch that are measured; they stand for the others.
_SAMPLE = 8


def row_bytes(row: Row) -> int:
    """A row tuple with its texts, which are taken to be its own."""
    return getsizeof(row) + sum(map(getsizeof, row)) + _ROUNDING * (1 + len(row))


def rows_bytes(rows: Sequence[Row]) -> int:
    """About what some rows take: a few of them are measured."""
    number = len(rows)
    if number <= _SAMPLE:
        return sum(map(row_bytes, rows))
    sample = rows[:: number // _SAMPLE]
    return sum(map(row_bytes, sample)) * number // len(sample)
