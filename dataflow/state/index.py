"""A hash index over known rows: key -> bag of rows.

Not here: which keys are complete (`coverage`); which rows are known (`materialization`).
"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from sys import getsizeof

from dataflow.errors import InvariantViolation
from dataflow.schema import SqlType
from dataflow.sizing import BUCKET_BYTES, CROWDED_BYTES, FEW, TEXT_BYTES, tuple_bytes
from dataflow.types import Columns, Key, Row

#: Rows with their multiplicities, all positive.
Bag = dict[Row, int]

_EMPTY: Mapping[Row, int] = {}


def key_function(columns: Columns, types: Sequence[SqlType]) -> Callable[[Row], Key]:
    """A function from a row to its key in `columns`: the normal forms of those values."""
    forms = [types[c].normal_form for c in columns]
    if not any(forms):
        return _plain_key(columns)
    pairs = tuple(zip(columns, forms, strict=True))

    def key(row: Row) -> Key:
        return tuple(
            [value if (value := row[c]) is None or form is None else form(value) for c, form in pairs],
        )

    return key


def _plain_key(columns: Columns) -> Callable[[Row], Key]:
    if not columns:
        return lambda _row: ()
    if len(columns) == 1:
        (only,) = columns
        return lambda row: (row[only],)
    return itemgetter(*columns)


class Index:
    """Known rows by their key in `columns`."""

    __slots__ = ("_crowded", "_key_bytes", "buckets", "columns", "key_of")

    def __init__(self, columns: Columns, types: Sequence[SqlType]) -> None:
        self.columns = columns
        self.key_of = key_function(columns, types)
        #: No bucket is empty.
        self.buckets: dict[Key, Bag] = {}
        #: Rows that are the sixth of their bucket, or a later one.
        self._crowded = 0
        #: Texts of a key are those of a row, unless they have a normal form.
        self._key_bytes = tuple_bytes(len(columns)) + sum(TEXT_BYTES for c in columns if types[c].normal_form)

    def insert(self, row: Row, times: int) -> bool:
        """Adds `times` copies of `row`; whether it is new."""
        key = self.key_of(row)
        bucket = self.buckets.get(key)
        if bucket is None:
            self.buckets[key] = {row: times}
            return True
        rows = len(bucket)
        bucket[row] = bucket.get(row, 0) + times
        if len(bucket) == rows:
            return False
        if rows >= FEW:
            self._crowded += 1
        return True

    def delete(self, row: Row, times: int) -> bool:
        """Takes `times` copies of `row` away, which must be there; whether none is left."""
        key = self.key_of(row)
        bucket = self.buckets.get(key)
        left = (bucket.get(row, 0) if bucket is not None else 0) - times
        if bucket is None or left < 0:
            raise InvariantViolation(f"{row} is removed from index {self.columns} more often than it is in it")
        if left:
            bucket[row] = left
            return False
        del bucket[row]
        if not bucket:
            del self.buckets[key]
        elif len(bucket) >= FEW:
            self._crowded -= 1
        return True

    def clear(self) -> None:
        self.buckets, self._crowded = {}, 0

    def take_over(self, other: "Index") -> None:
        """Holds what another index on the same columns holds, which must not be used any more."""
        self.buckets, self._crowded = other.buckets, other._crowded

    def state_bytes(self) -> int:
        """About what the index takes beside the rows."""
        per_bucket = BUCKET_BYTES + self._key_bytes
        return getsizeof(self.buckets) + per_bucket * len(self.buckets) + CROWDED_BYTES * self._crowded

    def get(self, key: Key) -> Mapping[Row, int]:
        """The bag of known rows under `key`. Not a copy."""
        return self.buckets.get(key, _EMPTY)
