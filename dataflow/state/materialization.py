"""Known rows of a relation, indexed, with the coverage of each column set that upqueries ask for:
of whole keys, and of intervals of a key's rows in some order.

*Invariants*: I1 (a covered key's rows are exactly the relation's) is ensured by the callers' obligations below; I2 (a
known row is under at least one covered key) by this class: callers check `is_known` before they add a row.

Not here: how a hole is filled (`engine.upquery`), what depends on a covered key (`engine.evictions`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice
from sys import getsizeof
from typing import Any, cast

from dataflow.errors import InvariantViolation
from dataflow.plan.parts import Interval
from dataflow.schema import SqlType
from dataflow.sizing import packed_bytes, rows_bytes
from dataflow.state.coverage import Coverage
from dataflow.state.index import Bag, Index, Stored, StoredBag
from dataflow.state.intervals import Cover, OrderedCover, OrderedCoverage
from dataflow.state.ordering import Ordering
from dataflow.state.packed_rows import pack, unpack
from dataflow.types import Columns, Delta, Key, Row

#: Rows of so many columns are packed. Narrow ones gain little for the time of packing and unpacking them.
_MANY_COLUMNS = 3


class Materialization:
    """Known rows, a hash index for each column set that anyone looks up by, and coverage."""

    __slots__ = ("coverage", "indexes", "ordered", "own_from", "packed", "row_bytes", "row_count", "types")

    def __init__(self, types: Sequence[SqlType], packed: bool = False) -> None:
        """`packed`: rows are stored as bytes, unless it can be covered whole."""
        self.types = tuple(types)
        #: Whether rows are packed. Not those that are all under one key: whoever derives from them copies its bag.
        self.packed = packed and len(self.types) >= _MANY_COLUMNS
        #: Every index holds every known row.
        self.indexes: dict[Columns, Index] = {}
        #: Each has an index on the same columns.
        self.coverage: dict[Columns, Coverage] = {}
        #: Keys that are covered in part. Each has an index on its columns.
        self.ordered: dict[OrderedCover, OrderedCoverage] = {}
        #: Known rows, copies counted.
        self.row_count = 0
        #: About what the rows take, each once.
        self.row_bytes = 0
        #: The texts of columns before this one are those of rows that are stored elsewhere.
        self.own_from = 0

    # Structure

    def require_index(self, columns: Columns) -> Index:
        """The index on `columns`, made and filled from the known rows if there is none."""
        index = self.indexes.get(columns)
        if index is None:
            if not columns:
                self._unpack()
            index = self._filled(columns)
        return index

    def _filled(self, columns: Columns) -> Index:
        """A new index on `columns`, of the known rows."""
        new = Index(columns, self.types, self.packed)
        for index in islice(self.indexes.values(), 1):
            for stored, times in index.stored().items():
                new.insert(unpack(stored) if isinstance(stored, bytes) else stored, times, stored)
        self.indexes[columns] = new
        return new

    def _unpack(self) -> None:
        """Stores rows as they are from now on."""
        if self.packed:
            rows, self.packed = self.bag(), False
            self.row_bytes = rows_bytes(list(rows), self.own_from)
            for index in self.indexes.values():
                index.unpack(rows)

    def require_coverage(self, columns: Columns) -> Coverage:
        """The coverage of `columns`, empty if nobody asked for it before."""
        index = self.require_index(columns)
        if columns not in self.coverage:
            self._share_table(index, Coverage(columns))
        return self.coverage[columns]

    def require_ordered(self, cover: OrderedCover) -> OrderedCoverage:
        """The ordered coverage of that name, empty if nobody asked for it before."""
        self.require_index(cover.columns)
        if cover not in self.ordered:
            self._set_tables_apart()
            self.ordered[cover] = OrderedCoverage(cover.columns, Ordering(cover.order, self.types))
        return self.ordered[cover]

    def _share_table(self, index: Index, coverage: Coverage) -> None:
        """Adds a coverage. If it is the only one, every known row is under one of its keys, and these and the buckets
        of its index are one dictionary."""
        if self.coverage or self.ordered:
            self._set_tables_apart()
        else:
            index.covers = True
            coverage.be_index(index.buckets)
        self.coverage[coverage.columns] = coverage

    def _set_tables_apart(self) -> None:
        """Has dictionaries of their own for an index and its coverage, which is not the only one any more."""
        for columns, coverage in self.coverage.items():
            index = self.indexes[columns]
            if index.covers:
                coverage.be_apart()
                index.covers = False
                index.drop_empty()

    def coverage_of(self, cover: Cover) -> Coverage:
        """The coverage of that name, which was required before."""
        return self.ordered[cover] if isinstance(cover, OrderedCover) else self.coverage[cover]

    def coverages(self) -> dict[Cover, Coverage]:
        """All coverage, by name."""
        return dict([*self.coverage.items(), *self.ordered.items()])

    # Reading

    def stored(self) -> StoredBag:
        """All known rows as they are stored, with their multiplicities; a copy."""
        for index in self.indexes.values():
            return index.stored()
        return {}

    def bag(self) -> Bag:
        """All known rows; a copy."""
        for index in self.indexes.values():
            return index.bag()
        return {}

    def known_rows(self) -> Iterator[Row]:
        """All known rows, copies repeated."""
        for row, times in self.bag().items():
            for _ in range(times):
                yield row

    def is_known(self, row: Row) -> bool:
        """Return whether `row` is under a covered key, so that it is, or has to be, stored."""
        for columns, coverage in self.coverage.items():
            if coverage.keys and self.indexes[columns].key_of(row) in coverage.keys:
                return True
        for cover, ordered in self.ordered.items():
            if ordered.keys and ordered.holds(self.indexes[cover.columns].key_of(row), row):
                return True
        return False

    def lookup(self, columns: Columns, key: Key) -> Mapping[Row, int] | None:
        """The rows under `key`: an empty bag is known to be empty, None is a hole."""
        if key not in self.coverage[columns].keys:
            return None
        return self.indexes[columns].get(key)

    def state_bytes(self) -> int:
        """About what the rows, their index entries and the covered keys take."""
        total = max(0, self.row_bytes)
        for columns, index in self.indexes.items():
            covered = self.coverage.get(columns)
            total += index.state_bytes(0 if covered is None else len(covered.keys))
        for coverage in self.coverages().values():
            total += coverage.state_bytes()
            if self.packed and not coverage.shares_keys:
                total += coverage.text_bytes
        return total

    def bytes_of(self, rows: Iterable[Row]) -> int:
        """About what these rows take as they are stored, without their places in indexes."""
        return self._bytes_of([pack(row) if self.packed else row for row in rows])

    def table_bytes(self) -> int:
        """Bytes of the dictionaries by key among these. A dictionary that also shrinks has a larger table than one that
        only grows."""
        tables: list[dict[Key, Any]] = [index.buckets for index in self.indexes.values()]
        tables += [c.keys for columns, c in self.coverage.items() if not self.indexes[columns].covers]
        tables += [coverage.keys for coverage in self.ordered.values()]
        return sum(map(getsizeof, tables))

    # Changing

    def insert(self, row: Row, times: int = 1) -> None:
        """Stores a known row."""
        stored = self._insert(row, times)
        if stored is not None:
            self.row_bytes += self._bytes_of((stored,))

    def delete(self, row: Row, times: int = 1) -> None:
        """Takes a known row away."""
        stored = self._delete(row, times)
        if stored is not None:
            self.row_bytes -= self._bytes_of((stored,))

    def _insert(self, row: Row, times: int) -> Stored | None:
        """Returns the row as it is stored if it is new: the caller measures these."""
        self.row_count += times
        stored = pack(row) if self.packed else row
        new = False
        for index in self.indexes.values():
            new = index.insert(row, times, stored)
        return stored if new else None

    def _delete(self, row: Row, times: int) -> Stored | None:
        """Returns the row as it was stored if none is left: the caller measures these."""
        self.row_count -= times
        stored = pack(row) if self.packed else row
        gone = False
        for index in self.indexes.values():
            gone = index.delete(row, times, stored)
        return stored if gone else None

    def _bytes_of(self, stored: Sequence[Stored]) -> int:
        """About what rows take, without their places in indexes."""
        if self.packed:
            return packed_bytes(cast(Sequence[bytes], stored))
        return rows_bytes(cast(Sequence[Row], stored), self.own_from)

    def grow(self, state_bytes: int) -> None:
        """Add the bytes by which `replace` made the rows larger; tiny differences may be left out."""
        self.row_bytes += state_bytes

    def replace(self, before: Row, after: Row) -> None:
        """Stores a known row instead of another; each occurs once. If the sizes differ, the caller calls `grow`."""
        for index in self.indexes.values():
            index.replace(before, after)

    def absorb(self, delta: Delta) -> Delta:
        """Applies what of `delta` is known, drops the rest at the door, and returns what was applied."""
        is_known = self.is_known
        removed = [row for row in delta[0] if is_known(row)]
        added = [row for row in delta[1] if is_known(row)]
        delete, insert = self._delete, self._insert
        gone = [stored for row in removed if (stored := delete(row, 1)) is not None]
        new = [stored for row in added if (stored := insert(row, 1)) is not None]
        self.row_bytes += self._bytes_of(new) - self._bytes_of(gone)
        return removed, added

    def fill(self, columns: Columns, key: Key, rows: Mapping[Row, int]) -> None:
        """Covers `key`, whose rows are exactly `rows` now.

        All copies of a row are known or none is, since being known depends on its values alone. So only rows that are
        not known by another key are new.
        """
        coverage = self.coverage[columns]
        if rows:
            others = chain(self.coverage.values(), self.ordered.values())
            if key in coverage.keys or any(other.keys for other in others if other is not coverage):
                rows = self._unknown(rows)
        self._learn(columns, key, rows, coverage)

    def extend(self, cover: OrderedCover, key: Key, interval: Interval, rows: Mapping[Row, int]) -> None:
        """Covers an interval of `key` too, whose rows are exactly `rows` now."""
        self._learn(cover.columns, key, self._unknown(rows))
        self.ordered[cover].extend(key, interval)

    def _unknown(self, rows: Mapping[Row, int]) -> Mapping[Row, int]:
        return {row: times for row, times in rows.items() if not self.is_known(row)}

    def _learn(self, columns: Columns, key: Key, new: Mapping[Row, int], coverage: Coverage | None = None) -> None:
        """Stores rows of a key that are not known, and covers it in `coverage`; the index and the coverage are to share
        the key."""
        stored: Sequence[Stored] = list(map(pack, new)) if self.packed else list(new)
        # All that can fail comes first: a key that is covered has all its rows, in every index.
        keys = {by: list(map(index.key_of, new)) for by, index in self.indexes.items() if by != columns}
        if coverage is not None:
            coverage.add(key)
        if not new:
            return
        self.row_count += sum(new.values())
        self.row_bytes += self._bytes_of(stored)
        for by, index in self.indexes.items():
            if by == columns and index.buckets.get(key) is None:
                index.put(key, dict(zip(stored, new.values(), strict=True)))
                continue
            own = keys.get(by) or [key] * len(stored)
            for (row, times), each, known_key in zip(new.items(), stored, own, strict=True):
                index.insert(row, times, each, known_key)

    def restore(
        self, stored: Sequence[Stored], times: Sequence[int] | None, shared: Mapping[Key, Key], *, all_known: bool
    ) -> None:
        """Stores rows that this one does not have, as another one stored them, each so often (None: once). `all_known`:
        all are under covered keys; otherwise those that are not are left out."""
        packed = isinstance(next(iter(stored), None), bytes)
        rows = list(map(unpack, cast(Sequence[bytes], stored))) if packed else list(cast(Sequence[Row], stored))
        if not all_known:
            known = list(map(self.is_known, rows))
            rows, stored = list(compress(rows, known)), list(compress(stored, known))
            times = None if times is None else list(compress(times, known))
        if self.packed != packed:
            stored = list(map(pack, rows)) if self.packed else rows
        for index in self.indexes.values():
            index.restore(rows, stored, times, shared)
        self.row_count += len(rows) if times is None else sum(times)
        self.row_bytes += self._bytes_of(stored)

    def evict(self, cover: Cover, key: Key) -> list[Row]:
        """Makes `key` a hole and forgets its rows that no other covered key holds; returns those, each once."""
        columns = cover.columns if isinstance(cover, OrderedCover) else cover
        coverage, index = self.coverage_of(cover), self.indexes[columns]
        if not index.covers:
            coverage.discard(key)
        gone = [(row, n) for row, n in index.get(key).items() if index.covers or not self.is_known(row)]
        stored = [self._delete(row, times) for row, times in gone]
        if index.covers:
            coverage.discard(key)
        self.row_bytes -= self._bytes_of([each for each in stored if each is not None])
        return [row for row, _ in gone]

    def take_over(self, other: "Materialization") -> None:
        """Knows exactly what another one knows, which has all of these indexes and must not be used any more. What is
        covered here stays so. References to this one, or to an index of it, remain valid."""
        for columns, index in self.indexes.items():
            index.take_over(other.indexes[columns])
            if index.covers:
                self.coverage[columns].be_index(index.buckets)
        self.row_count, self.row_bytes, self.packed = other.row_count, other.row_bytes, other.packed

    def clear(self) -> None:
        """Makes every key a hole, also when a change was applied half-way."""
        for coverage in self.coverages().values():
            for key in list(coverage):
                coverage.discard(key)
        for index in self.indexes.values():
            index.clear()
        self.row_count = self.row_bytes = 0

    def subsumed(self, columns: Columns, keys: Iterable[Key]) -> list[Key]:
        """Those keys whose part on fewer columns is covered, so that their rows are all known (thesis §9.12)."""
        fewer = [
            (coverage.keys, tuple(map(columns.index, other)))
            for other, coverage in self.coverage.items()
            if coverage.keys and len(other) < len(columns) and set(other) <= set(columns)
        ]
        if not fewer:
            return []
        return [key for key in keys if any(tuple([key[p] for p in place]) in covered for covered, place in fewer)]

    # Checking

    def check(self) -> None:
        """Asserts I2 and that the indexes agree."""
        bag = self.bag()
        if sum(bag.values()) != self.row_count:
            raise InvariantViolation(f"{self.row_count} rows counted, {sum(bag.values())} stored")
        for row in bag:
            if not self.is_known(row):
                raise InvariantViolation(f"I2: {row} is stored under no covered key")
        for index in self.indexes.values():
            index.check(bag)
        for columns in self.coverage:
            if columns not in self.indexes:
                raise InvariantViolation(f"coverage of {columns} has no index")


def as_bag(rows: Sequence[Row]) -> Bag:
    """Rows with their multiplicities."""
    bag = dict.fromkeys(rows, 1)
    return bag if len(bag) == len(rows) else dict(Counter(rows))


def grouped(delta: Delta, key_of: Callable[[Row], Key]) -> dict[Key, Delta]:
    """Rows removed and added, by key."""
    by_key: dict[Key, Delta] = {}
    for row in delta[0]:
        key = key_of(row)
        sides = by_key.get(key)
        if sides is None:
            by_key[key] = ([row], [])
        else:
            sides[0].append(row)
    for row in delta[1]:
        key = key_of(row)
        sides = by_key.get(key)
        if sides is None:
            by_key[key] = ([], [row])
        else:
            sides[1].append(row)
    return by_key


def consolidate(delta: Delta) -> Delta:
    """Returns the change without the rows that are both removed and added."""
    removed, added = delta
    if not removed or not added or set(removed).isdisjoint(added):
        return delta
    bag = as_bag(removed)
    kept: list[Row] = []
    for row in added:
        if times := bag.get(row):
            bag[row] = times - 1
        else:
            kept.append(row)
    return [row for row, times in bag.items() for _ in range(times)], kept
