"""About how many bytes things take in this process: CPython's object sizes.

Tables of dictionaries and lists are asked for their size, which costs nothing; rows are measured as they come and go,
others by a sample. `tests/dataflow/engine/test_state_bytes.py` compares the sums with what is really taken.
"""

from collections.abc import Sequence
from itertools import chain
from sys import getsizeof
from typing import Any

from dataflow.types import Row

#: Memory is given in units of 16 bytes: what texts and tuples take beyond their size, on average.
_TEXT_ROUNDING, _TUPLE_ROUNDING = 8, 4
#: A tuple of nothing, and each place in one.
_EMPTY_BYTES, _POINTER_BYTES = getsizeof(()) + _TUPLE_ROUNDING, getsizeof((None,)) - getsizeof(())
#: A text without its characters.
TEXT_BYTES = 49 + _TEXT_ROUNDING
#: An integer that is not among the smallest.
NUMBER_BYTES = 32
#: A dictionary of up to so many rows or keys; what each more takes.
FEW = 5
BUCKET_BYTES = getsizeof({((),): 1})
CROWDED_BYTES = 45
#: Numbers that many keys have: the size of a key, which is mostly small, does not take an object of its own.
_SHARED: Sequence[Any] = tuple(range(4096))
#: Rows of a sample.
_SAMPLE = 8


def shared_number(number: int) -> Any:
    """The number as an object that others store, too, if it is small. (Not typed as an integer: compiled code would
    make a new one.)"""
    return _SHARED[number] if 0 <= number < len(_SHARED) else number


def tuple_bytes(width: int) -> int:
    """A tuple without what is in it."""
    return _EMPTY_BYTES + width * _POINTER_BYTES


def texts_bytes(row: Row) -> int:
    """The texts of a row or key, which are taken to be its own."""
    return sum(map(getsizeof, row)) + _TEXT_ROUNDING * len(row)


def keys_bytes(keys: Sequence[Row]) -> int:
    """Bytes of the texts of keys of one width."""
    width = len(keys[0]) if keys else 0
    return sum(map(getsizeof, chain.from_iterable(keys))) + _TEXT_ROUNDING * width * len(keys)


def row_bytes(row: Row) -> int:
    """A row tuple with its texts."""
    return getsizeof(row) + _TUPLE_ROUNDING + texts_bytes(row)


def rows_bytes(rows: Sequence[Row], own_from: int = 0) -> int:
    """Bytes of rows of one relation; the texts of columns before `own_from` are not theirs.

    Each is measured. Rows come in some batches and go in others: a sum in which a few stood for them would wander off.
    """
    if not rows:
        return 0
    width = len(rows[0])
    own = width - own_from
    total = len(rows) * (tuple_bytes(width) + own * _TEXT_ROUNDING)
    if own:
        total += sum(map(getsizeof, chain.from_iterable([row[own_from:] for row in rows] if own_from else rows)))
    return total


def packed_bytes(rows: Sequence[bytes]) -> int:
    """Bytes of packed rows."""
    return sum(map(getsizeof, rows)) + _TEXT_ROUNDING * len(rows)


def sampled_bytes(rows: Sequence[Row]) -> int:
    """About what rows take, by a few of them."""
    sample = rows if len(rows) <= _SAMPLE else rows[:: len(rows) // _SAMPLE]
    return rows_bytes(sample) * len(rows) // max(1, len(sample))
