"""About how many bytes things take in this process (CPython's object sizes)."""

from dataflow.types import Row

_TUPLE = 56
_POINTER = 8
_TEXT = 49


def row_bytes(row: Row) -> int:
    """A row tuple with its texts, which are taken to be its own."""
    return _TUPLE + sum(_POINTER if value is None else _POINTER + _TEXT + len(value) for value in row)
