"""Known rows of a relation, indexed, with the coverage of each column set that upqueries ask for:
of whole keys, and of intervals of a key's rows in some order.

*Invariants*: I1 (a covered key's rows are exactly the relation's) is ensured by the callers' obligations below; I2 (a
known row is under at least one covered key) by this class: callers check `is_known` before they add a row.

Not here: how a hole is filled (`engine.upquery`), what depends on a covered key (`engine.evictions`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import getsizeof

from dataflow.errors import InvariantViolation
from dataflow.plan.parts import Interval
from dataflow.schema import SqlType
from dataflow.sizing import rows_bytes
from dataflow.state.coverage import Coverage
from dataflow.state.index import Bag, Index
from dataflow.state.intervals import Cover, OrderedCover, OrderedCoverage
from dataflow.state.ordering import Ordering
from dataflow.types import Columns, Delta, Key, Row


class Materialization:
    """Known rows, a hash index for each column set that anyone looks up by, and coverage."""

    __slots__ = ("_row_bytes", "coverage", "indexes", "ordered", "own_from", "row_count", "types")

    def __init__(self, types: Sequence[SqlType]) -> None:
        self.types = tuple(types)
        #: Every index holds every known row.
        self.indexes: dict[Columns, Index] = {}
        #: Each has an index on the same columns.
        self.coverage: dict[Columns, Coverage] = {}
        #: Keys that are covered in part. Each has an index on its columns.
        self.ordered: dict[OrderedCover, OrderedCoverage] = {}
        #: Known rows, copies counted.
        self.row_count = 0
        #: About what the rows take, each once.
        self._row_bytes = 0
        #: The texts of columns before this one are those of rows that are stored elsewhere.
        self.own_from = 0

    # Structure

    def require_index(self, columns: Columns) -> Index:
        """The index on `columns`, made and filled from the known rows if there is none."""
        index = self.indexes.get(columns)
        if index is None:
            index = Index(columns, self.types)
            for row, times in self.bag().items():
                index.insert(row, times)
            self.indexes[columns] = index
        return index

    def require_coverage(self, columns: Columns) -> Coverage:
        """The coverage of `columns`, empty if nobody asked for it before."""
        self.require_index(columns)
        return self.coverage.setdefault(columns, Coverage(columns))

    def require_ordered(self, cover: OrderedCover) -> OrderedCoverage:
        """The ordered coverage of that name, empty if nobody asked for it before."""
        self.require_index(cover.columns)
        if cover not in self.ordered:
            self.ordered[cover] = OrderedCoverage(cover.columns, Ordering(cover.order, self.types))
        return self.ordered[cover]

    def coverage_of(self, cover: Cover) -> Coverage:
        """The coverage of that name, which was required before."""
        return self.ordered[cover] if isinstance(cover, OrderedCover) else self.coverage[cover]

    def coverages(self) -> dict[Cover, Coverage]:
        """All coverage, by name."""
        return dict([*self.coverage.items(), *self.ordered.items()])

    # Reading

    def bag(self) -> Bag:
        """All known rows; a copy."""
        for index in self.indexes.values():
            return {row: times for bucket in index.buckets.values() for row, times in bucket.items()}
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
        total = max(0, self._row_bytes)
        for index in self.indexes.values():
            total += index.state_bytes()
        for coverage in self.coverage.values():
            total += coverage.state_bytes()
        for ordered in self.ordered.values():
            total += ordered.state_bytes()
        return total

    def table_bytes(self) -> int:
        """Bytes of the dictionaries by key among these. A dictionary that also shrinks has a larger table than one that
        only grows."""
        tables = [index.buckets for index in self.indexes.values()]
        keys = [coverage.keys for coverage in self.coverages().values()]
        return sum(map(getsizeof, tables)) + sum(map(getsizeof, keys))

    # Changing

    def insert(self, row: Row, times: int = 1) -> None:
        """Stores a known row."""
        if self._insert(row, times):
            self._row_bytes += rows_bytes((row,), self.own_from)

    def delete(self, row: Row, times: int = 1) -> None:
        """Takes a known row away."""
        if self._delete(row, times):
            self._row_bytes -= rows_bytes((row,), self.own_from)

    def _insert(self, row: Row, times: int) -> bool:
        """Return whether it is new. The caller measures new rows."""
        self.row_count += times
        new = False
        for index in self.indexes.values():
            new = index.insert(row, times)
        return new

    def _delete(self, row: Row, times: int) -> bool:
        """Return whether none is left. The caller measures removed rows."""
        self.row_count -= times
        gone = False
        for index in self.indexes.values():
            gone = index.delete(row, times)
        return gone

    def grow(self, state_bytes: int) -> None:
        """Add the bytes by which `replace` made the rows larger; tiny differences may be left out."""
        self._row_bytes += state_bytes

    def replace(self, before: Row, after: Row) -> None:
        """Stores a known row instead of another; each occurs once. If the sizes differ, the caller calls `grow`."""
        for index in self.indexes.values():
            bucket = index.buckets.get(index.key_of(after))
            if bucket is not None and before in bucket:
                del bucket[before]
                bucket[after] = 1
            else:
                index.delete(before, 1)
                index.insert(after, 1)

    def absorb(self, delta: Delta) -> Delta:
        """Applies what of `delta` is known, drops the rest at the door, and returns what was applied."""
        is_known = self.is_known
        removed = [row for row in delta[0] if is_known(row)]
        added = [row for row in delta[1] if is_known(row)]
        delete, insert = self._delete, self._insert
        gone = [row for row in removed if delete(row, 1)]
        new = [row for row in added if insert(row, 1)]
        self._row_bytes += rows_bytes(new, self.own_from) - rows_bytes(gone, self.own_from)
        return removed, added

    def fill(self, columns: Columns, key: Key, rows: Mapping[Row, int]) -> None:
        """Covers `key`, whose rows are exactly `rows` now.

        All copies of a row are known or none is, since being known depends on its values alone. So only rows that are
        not known by another key are new.
        """
        self._learn(rows)
        self.coverage[columns].add(key)

    def extend(self, cover: OrderedCover, key: Key, interval: Interval, rows: Mapping[Row, int]) -> None:
        """Covers an interval of `key` too, whose rows are exactly `rows` now."""
        self._learn(rows)
        self.ordered[cover].extend(key, interval)

    def _learn(self, rows: Mapping[Row, int]) -> None:
        new = [row for row in rows if not self.is_known(row)]
        for row in new:
            self._insert(row, rows[row])
        self._row_bytes += rows_bytes(new, self.own_from)

    def evict(self, cover: Cover, key: Key) -> list[Row]:
        """Makes `key` a hole and forgets its rows that no other covered key holds; returns those, each once."""
        columns = cover.columns if isinstance(cover, OrderedCover) else cover
        self.coverage_of(cover).discard(key)
        gone = [(row, n) for row, n in self.indexes[columns].get(key).items() if not self.is_known(row)]
        for row, times in gone:
            self._delete(row, times)
        rows = [row for row, _ in gone]
        self._row_bytes -= rows_bytes(rows, self.own_from)
        return rows

    def take_over(self, other: "Materialization") -> None:
        """Knows exactly what another one knows, which has all of these indexes and must not be used any more. What is
        covered here stays so. References to this one, or to an index of it, remain valid."""
        for columns, index in self.indexes.items():
            index.take_over(other.indexes[columns])
        self.row_count, self._row_bytes = other.row_count, other._row_bytes

    def clear(self) -> None:
        """Makes every key a hole, also when a change was applied half-way."""
        for coverage in self.coverages().values():
            for key in list(coverage):
                coverage.discard(key)
        for index in self.indexes.values():
            index.clear()
        self.row_count = self._row_bytes = 0

    def subsumed(self, columns: Columns, key: Key) -> bool:
        """Return whether the key's part on fewer columns is covered, so that its rows are all known (thesis §9.12)."""
        for other, coverage in self.coverage.items():
            if coverage.keys and len(other) < len(columns) and set(other) <= set(columns):
                part = tuple(key[columns.index(c)] for c in other)
                if part in coverage.keys:
                    return True
        return False

    # Checking

    def check(self) -> None:
        """Asserts I2 and that the indexes agree."""
        bag = self.bag()
        if sum(bag.values()) != self.row_count:
            raise InvariantViolation(f"{self.row_count} rows counted, {sum(bag.values())} stored")
        for row in bag:
            if not self.is_known(row):
                raise InvariantViolation(f"I2: {row} is stored under no covered key")
        for columns, index in self.indexes.items():
            _check_index(columns, index, bag)
        for columns in self.coverage:
            if columns not in self.indexes:
                raise InvariantViolation(f"coverage of {columns} has no index")


def _check_index(columns: Columns, index: Index, bag: Bag) -> None:
    stored: Bag = {}
    for key, bucket in index.buckets.items():
        if not bucket:
            raise InvariantViolation(f"empty bucket {key} in index {columns}")
        for row, times in bucket.items():
            if index.key_of(row) != key or times < 1:
                raise InvariantViolation(f"{row} x{times} stands under {key} in index {columns}")
            stored[row] = times
    if stored != bag:
        raise InvariantViolation(f"index {columns} does not hold the known rows")


def as_bag(rows: Iterable[Row]) -> Bag:
    """Rows with their multiplicities."""
    bag: Bag = {}
    for row in rows:
        bag[row] = bag.get(row, 0) + 1
    return bag


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
