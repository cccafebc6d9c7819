"""A hash index over known rows: key -> bag of rows.

Not here: which keys are complete (`coverage`); which rows are known (`materialization`).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from sys import getsizeof
from typing import cast

from dataflow.errors import InvariantViolation
from dataflow.schema import SqlType
from dataflow.sizing import BUCKET_BYTES, CROWDED_BYTES, FEW, TEXT_BYTES, tuple_bytes
from dataflow.state.packed_rows import PackedBag, unpack
from dataflow.types import Columns, Key, Row

#: Rows with their multiplicities, all positive.
Bag = dict[Row, int]
#: A row as an index has it: packed (`packed_rows`) or as it is.
Stored = Row | bytes
StoredBag = dict[Stored, int]
#: Several packed rows, each once.
FewRows = tuple[bytes, ...]
Bucket = Stored | FewRows | StoredBag
PackedRows = dict[bytes, int]

#: A dictionary of so few packed rows becomes a tuple again: fewer than a tuple may have, so that it is not made anew
#: with each change.
_FEWER = 3

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
        return itemgetter(slice(only, only + 1))
    return itemgetter(*columns)


class Index:
    """Known rows by their key in `columns`."""

    __slots__ = ("_bags", "_crowded", "_few_bytes", "_formed", "buckets", "columns", "covers", "key_of", "packed")

    def __init__(self, columns: Columns, types: Sequence[SqlType], packed: bool = False) -> None:
        self.columns = columns
        self.key_of = key_function(columns, types)
        #: Whether rows are stored as bytes.
        self.packed = packed
        #: A bag that is one row, once, is stored as the row, and one of few packed rows, each once, as a tuple of them:
        #: most are. No bag is empty.
        self.buckets: dict[Key, Bucket | None] = {}
        #: Whether it has all keys of a coverage, of which those without rows have no bucket but None.
        self.covers = False
        #: The number of buckets that are dictionaries.
        self._bags = 0
        #: Rows that are the sixth of their dictionary, or a later one.
        self._crowded = 0
        #: What the tuples of rows take.
        self._few_bytes = 0
        #: Columns whose keys have texts of their own, not those of rows.
        self._formed = sum(types[c].normal_form is not None for c in columns)

    def insert(self, row: Row, times: int, stored: Stored, known_key: Key | None = None) -> bool:
        """Adds `times` copies of `row`, which is `stored` as it is or packed; whether it is new. `known_key`: its key,
        if the caller has it; it is stored."""
        key = self.key_of(row) if known_key is None else known_key
        bucket = self.buckets.get(key)
        if bucket is None:
            if times == 1:
                self.buckets[key] = stored
            else:
                self.buckets[key] = {stored: times}
                self._bags += 1
            return True
        if not isinstance(bucket, dict):
            few = self._few(bucket)
            if self.packed and times == 1 and len(few) < FEW and stored not in few:
                self._store(key, (*few, stored), len(few))
                return True
            bucket = self._spread(key, few)
        rows = len(bucket)
        bucket[stored] = bucket.get(stored, 0) + times
        if len(bucket) == rows:
            return False
        if rows >= FEW:
            self._crowded += 1
        return True

    def restore(
        self, rows: Sequence[Row], stored: Sequence[Stored], times: Sequence[int] | None, shared: Mapping[Key, Key]
    ) -> None:
        """Adds rows that it does not have, each so often (None: once). Equal keys in `shared` are used."""
        buckets, known, crowded = self.buckets, shared.get, 0
        for key, row, each, n in zip(map(self.key_of, rows), rows, stored, times or repeat(1)):  # noqa: B905 - endless
            key = known(key, key)
            # Most are the first under their key, or among very many.
            if n != 1:
                self.insert(row, n, each, key)
            elif (bucket := buckets.get(key)) is None:
                buckets[key] = each
            elif isinstance(bucket, dict) and len(bucket) >= FEW:
                bucket[each] = 1
                crowded += 1
            else:
                self.insert(row, 1, each, key)
        self._crowded += crowded

    def put(self, key: Key, rows: Mapping[Stored, int]) -> None:
        """Stores rows, as they are or packed, of a key that has none; there are some. The key is stored, too."""
        few = len(rows) == 1 or (self.packed and len(rows) <= FEW)
        if few and all(times == 1 for times in rows.values()):
            self._store(key, tuple(rows), 0)
        else:
            self.buckets[key] = dict(rows)
            self._bags += 1
            self._crowded += max(0, len(rows) - FEW)

    def delete(self, row: Row, times: int, stored: Stored) -> bool:
        """Takes `times` copies of `row`, which is `stored`, away; they must be there. Whether none is left."""
        key = self.key_of(row)
        bucket = self.buckets.get(key)
        if not isinstance(bucket, dict):
            few = self._few(bucket)
            if times != 1 or stored not in few:
                raise self._missing(row)
            self._store(key, tuple([other for other in few if other != stored]), len(few))
            return True
        left = bucket.get(stored, 0) - times
        if left < 0:
            raise self._missing(row)
        if left:
            bucket[stored] = left
        else:
            del bucket[stored]
            if len(bucket) >= FEW:
                self._crowded -= 1
        if len(bucket) <= (_FEWER if self.packed else 1):
            self._shrink(key, bucket)
        return not left

    def _missing(self, row: Row) -> InvariantViolation:
        return InvariantViolation(f"{row} is removed from index {self.columns} more often than it is in it")

    def _few(self, bucket: Stored | FewRows | None) -> tuple[Stored, ...]:
        """The rows of a bucket that is no dictionary."""
        if bucket is None:
            return ()
        return cast(FewRows, bucket) if self.packed and isinstance(bucket, tuple) else (cast(Stored, bucket),)

    def _store(self, key: Key, few: tuple[Stored, ...], before: int) -> None:
        """Stores these rows, each once, instead of so many."""
        if few:
            self.buckets[key] = few[0] if len(few) == 1 else cast(FewRows, few)
        elif self.covers:
            self.buckets[key] = None
        else:
            del self.buckets[key]
        self._few_bytes += _few_bytes(len(few)) - _few_bytes(before)

    def _spread(self, key: Key, few: tuple[Stored, ...]) -> StoredBag:
        """Makes a dictionary of a bucket."""
        bag = self.buckets[key] = dict.fromkeys(few, 1)
        self._bags += 1
        self._few_bytes -= _few_bytes(len(few))
        return bag

    def _shrink(self, key: Key, bag: StoredBag) -> None:
        """Stores a dictionary of few rows, or of none, as what it may be."""
        if all(times == 1 for times in bag.values()):
            self._store(key, tuple(bag), 0)
            self._bags -= 1

    def replace(self, before: Row, after: Row) -> None:
        """Stores a row instead of another; each occurs once, and neither is packed."""
        key = self.key_of(after)
        bucket = self.buckets.get(key)
        if isinstance(bucket, dict) and before in bucket:
            del bucket[before]
            bucket[after] = 1
        elif bucket == before:
            self.buckets[key] = after
        else:
            self.delete(before, 1, before)
            self.insert(after, 1, after)

    def unpack(self, rows: Bag) -> None:
        """Has these rows as they are instead of packed."""
        keys = list(self.buckets) if self.covers else []
        self.clear()
        self.buckets.update(dict.fromkeys(keys))
        self.packed = False
        for row, times in rows.items():
            self.insert(row, times, row)

    def clear(self) -> None:
        self.buckets.clear()
        self._bags = self._crowded = self._few_bytes = 0

    def take_over(self, other: "Index") -> None:
        """Holds what another index on the same columns holds, which must not be used any more."""
        covered = list(self.buckets) if self.covers else []
        self.buckets, self.packed = other.buckets, other.packed
        if other.covers and not self.covers:
            self.drop_empty()
        for key in covered:
            self.buckets.setdefault(key)
        self._bags, self._crowded, self._few_bytes = other._bags, other._crowded, other._few_bytes

    def drop_empty(self) -> None:
        """Has no keys without rows."""
        for key in [key for key, bucket in self.buckets.items() if bucket is None]:
            del self.buckets[key]

    def state_bytes(self, shared_keys: int = 0) -> int:
        """About what the index takes beside the rows, and beside so many keys that a coverage has too."""
        bags = BUCKET_BYTES * self._bags + CROWDED_BYTES * self._crowded + self._few_bytes
        texts = len(self.columns) if self.packed else self._formed
        per_key = tuple_bytes(len(self.columns)) + texts * TEXT_BYTES
        return getsizeof(self.buckets) + per_key * max(0, len(self.buckets) - shared_keys) + bags

    def get(self, key: Key) -> Mapping[Row, int]:
        """The bag of known rows under `key`."""
        bucket = self.buckets.get(key)
        if bucket is None:
            return _EMPTY
        if isinstance(bucket, dict):
            return PackedBag(cast(PackedRows, bucket)) if self.packed else cast(Bag, bucket)
        if isinstance(bucket, bytes):
            return {unpack(bucket): 1}
        return dict.fromkeys(map(unpack, cast(FewRows, bucket)), 1) if self.packed else {cast(Row, bucket): 1}

    def count(self, key: Key) -> int:
        """The number of known rows under `key`, each as often as it occurs."""
        bucket = self.buckets.get(key)
        if bucket is None:
            return 0
        return sum(bucket.values()) if isinstance(bucket, dict) else len(self._few(bucket))

    def bag(self) -> Bag:
        """All rows; a copy."""
        return {row: times for key in self.buckets for row, times in self.get(key).items()}

    def stored(self) -> StoredBag:
        """All rows as they are stored; a copy."""
        rows: StoredBag = {}
        for bucket in self.buckets.values():
            rows.update(bucket if isinstance(bucket, dict) else dict.fromkeys(self._few(bucket), 1))
        return rows

    def check(self, bag: Bag) -> None:
        """Asserts that it has exactly these rows, each under its key."""
        found: Bag = {}
        for key, bucket in self.buckets.items():
            wrong = list(bucket.values()) in ([], [1]) if isinstance(bucket, dict) else bucket is None
            if wrong and not (bucket is None and self.covers):
                raise InvariantViolation(f"the bucket {key} of index {self.columns} is {bucket!r}")
            for row, times in self.get(key).items():
                if self.key_of(row) != key or times < 1:
                    raise InvariantViolation(f"{row} x{times} stands under {key} in index {self.columns}")
                found[row] = times
        bags = [bucket for bucket in self.buckets.values() if isinstance(bucket, dict)]
        crowded = sum(max(0, len(rows) - FEW) for rows in bags)
        few = sum(_few_bytes(len(self._few(b))) for b in self.buckets.values() if not isinstance(b, dict))
        if (len(bags), crowded, few) != (self._bags, self._crowded, self._few_bytes):
            raise InvariantViolation(f"index {self.columns} counts {self._bags} bags, {self._crowded} crowded rows")
        if any(isinstance(stored, bytes) != self.packed for stored in self.stored()):
            raise InvariantViolation(f"index {self.columns} has rows that are packed and rows that are not")
        if found != bag:
            raise InvariantViolation(f"index {self.columns} does not hold the known rows")


def _few_bytes(rows: int) -> int:
    """Bytes of a tuple of rows; one row has none."""
    return tuple_bytes(rows) if rows > 1 else 0
