"""About how many bytes things take in this process: CPython's object sizes.

Tables of dictionaries and lists are asked for their size, which costs nothing; of a batch of rows a few are measured,
and stand for the others. `tests/dataflow/engine/test_state_bytes.py` compares the sums with what is really taken.
"""

from collections.abc import Sequence
from sys import getsizeof

from dataflow.types import Row

#: Memory is given in units of 16 bytes: what texts and tuples take beyond their size, on average.
_TEXT_ROUNDING, _TUPLE_ROUNDING = 8, 4
#: A text without its characters.
TEXT_BYTES = 49 + _TEXT_ROUNDING
#: An integer that is not among the smallest.
NUMBER_BYTES = 32
#: A dictionary of up to so many rows or keys; what each more takes.
FEW = 5
BUCKET_BYTES = getsizeof({((),): 1})
CROWDED_BYTES = 45
#: Rows of a batch that are measured.
_SAMPLE = 8


def tuple_bytes(width: int) -> int:
    """A tuple without what is in it."""
    return getsizeof((None,) * width) + _TUPLE_ROUNDING


def texts_bytes(row: Row) -> int:
    """The texts of a row or key, which are taken to be its own."""
    return sum(map(getsizeof, row)) + _TEXT_ROUNDING * len(row)


def row_bytes(row: Row) -> int:
    """A row tuple with its texts."""
    return getsizeof(row) + _TUPLE_ROUNDING + texts_bytes(row)


def rows_bytes(rows: Sequence[Row], own_from: int = 0) -> int:
    """About what some rows take; the texts of columns before `own_from` are not theirs."""
    number = len(rows)
    sample = rows if number <= _SAMPLE else rows[:: number // _SAMPLE]
    if not own_from:
        return sum(map(row_bytes, sample)) * number // max(1, len(sample))
    tuples = number * tuple_bytes(len(sample[0])) if sample else 0
    return tuples + sum(texts_bytes(row[own_from:]) for row in sample) * number // max(1, len(sample))
