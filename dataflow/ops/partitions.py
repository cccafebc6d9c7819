"""Windows and top-k: partitions under covered keys, each with its input rows, recomputed when they change.

*Maintains*: a partition exists exactly if it has rows and is known, that is, under a covered key, whose columns are
partition columns. The materialization holds the output rows of all partitions.

Not here: what becomes of one partition's rows (`window`, `top_k`), coverage and eviction (`state.materialization`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from sys import getsizeof

from dataflow.errors import InvariantViolation
from dataflow.ops.top_k import PartitionFunction, TopPartition, TopRows
from dataflow.ops.window import window_rows
from dataflow.plan.nodes import TopK, Window, column_types
from dataflow.sizing import BUCKET_BYTES, CROWDED_BYTES, FEW, TEXT_BYTES, rows_bytes, tuple_bytes
from dataflow.state.index import Bag, key_function
from dataflow.state.materialization import Materialization, as_bag
from dataflow.types import Columns, Delta, Key, Row


class WindowPartition:
    """One partition's input rows, for a window: computed anew."""

    __slots__ = ("_compute", "rows")

    def __init__(self, compute: PartitionFunction) -> None:
        self._compute = compute
        #: With their multiplicities; none is zero.
        self.rows: Bag = {}

    def add(self, row: Row, times: int) -> None:
        """Adds a row, or takes it away."""
        if count := self.rows.get(row, 0) + times:
            self.rows[row] = count
        else:
            self.rows.pop(row, None)

    def clear(self) -> None:
        """Takes all rows away."""
        self.rows = {}

    def output(self) -> Bag:
        """Computes the output rows."""
        for row, times in self.rows.items():
            if times < 0:
                raise InvariantViolation(f"row {row} is {times} times in its partition")
        return as_bag(self._compute([row for row, times in self.rows.items() for _ in range(times)]))


Partition = WindowPartition | TopPartition
#: What a partition takes without rows; what the place of a row takes, in bytes and in its list.
_PARTITION_BYTES = 200 + BUCKET_BYTES
_PLACE_BYTES = TEXT_BYTES + 24


def _maker(relation: Window | TopK) -> Callable[[], Partition]:
    if isinstance(relation, Window):
        compute = window_rows(relation)
        return lambda: WindowPartition(compute)
    top = TopRows(relation)
    return lambda: TopPartition(top)


class Partitioned:
    """The executable form of a `Window` or a `TopK`, over its own materialization."""

    def __init__(self, relation: Window | TopK, materialization: Materialization) -> None:
        self.relation = relation
        self.materialization = materialization
        self._new = _maker(relation)
        input_types = column_types(relation.input)
        self._key_of = key_function(relation.partition, input_types)
        #: The output rows of one partition are found by it.
        self._index = materialization.require_index(relation.partition)
        self._unset = (None,) * (len(column_types(relation)) - len(input_types))
        #: By the normal form of the partition columns.
        self.partitions: dict[Key, Partition] = {}
        #: Partitions without output rows.
        self._silent: dict[Key, None] = {}
        #: Input rows of all partitions, copies counted.
        self._row_count = 0
        #: About what they take, each once, with their places in an order.
        self._row_bytes = 0
        self._bytes_of = _ranked_bytes if isinstance(relation, TopK) else _bare_bytes
        if isinstance(relation, TopK):
            # What comes first is stored as it is.
            materialization.own_from = len(input_types)
        #: Input rows that came under no covered key.
        self.rows_dropped = 0

    # Deltas

    def absorb(self, delta: Delta) -> Delta:
        """Applies an input's change to the partitions that are known; returns the change of their output rows."""
        touched: dict[Key, Partition] = {}
        for sign, rows in ((-1, delta[0]), (1, delta[1])):
            for row in rows:
                key = self._key_of(row)
                partition = self.partitions.get(key) or self._known_partition(key, row)
                if partition is not None:
                    touched[key] = partition
                    self._add(partition, row, sign)
                else:
                    self.rows_dropped += 1
        return self._publish(touched)

    def _add(self, partition: Partition, row: Row, sign: int) -> None:
        before = len(partition.rows)
        partition.add(row, sign)
        self._row_count += sign
        if len(partition.rows) != before:
            self._row_bytes += sign * self._bytes_of((row,))

    def _known_partition(self, key: Key, row: Row) -> Partition | None:
        if not self.materialization.is_known(row + self._unset):
            return None
        partition = self.partitions[key] = self._new()
        return partition

    def _publish(self, touched: dict[Key, Partition]) -> Delta:
        # First what can fail: the materialization is not half changed then.
        outputs = {key: partition.output() for key, partition in touched.items()}
        removed: list[Row] = []
        added: list[Row] = []
        for key, after in outputs.items():
            before = self._index.get(key)
            removed += _missing(before, after)
            added += _missing(after, before)
            self._settle(key, touched[key], after)
        for row in removed:
            self.materialization.delete(row)
        for row in added:
            self.materialization.insert(row)
        return removed, added

    def _settle(self, key: Key, partition: Partition, output: Bag) -> None:
        """Forgets a partition without rows, and notes one without output."""
        if not partition.rows:
            del self.partitions[key]
        if partition.rows and not output:
            self._silent[key] = None
        else:
            self._silent.pop(key, None)

    # In the making (`engine.staging`): all partitions are known, their output rows are published later

    def always(self) -> list[Key]:
        """The partitions that are there without rows: none."""
        return []

    def stage(self, rows: Sequence[Row], sign: int) -> dict[Key, None]:
        """Adds input rows to their partitions, or takes them away; returns the partitions' keys."""
        touched: dict[Key, None] = {}
        for row in rows:
            key = self._key_of(row)
            touched[key] = None
            partition = self.partitions.get(key)
            if partition is None:
                partition = self.partitions[key] = self._new()
            self._add(partition, row, sign)
        return touched

    def stage_found(self, rows: Sequence[Row]) -> dict[Key, None]:
        """Adds rows that a lookup found; returns the partitions' keys."""
        return self.stage(rows, 1)

    def publish_one(self, key: Key) -> int:
        """Brings the output rows of a partition up to date; about how many rows that was."""
        partition = self.partitions[key]
        rows = len(partition.rows)
        self._publish({key: partition})
        return max(1, rows)

    def take_over(self, other: "Partitioned") -> None:
        """Has the partitions of another one, which are all there are and which must not be used any more there."""
        self.partitions, self._silent = other.partitions, other._silent
        self._row_count, self._row_bytes = other._row_count, other._row_bytes
        self.materialization.take_over(other.materialization)

    def truncate(self) -> Delta:
        """Takes all rows of all partitions away; returns the change of the output rows."""
        for partition in self.partitions.values():
            partition.clear()
        self._row_count = self._row_bytes = 0
        return self._publish(dict(self.partitions))

    # Filling

    def fill(self, columns: Columns, key: Key, partitions: dict[Key, Partition]) -> None:
        """Covers `key`, whose partitions are exactly `partitions` now. `columns` are partition columns."""
        new = {k: p for k, p in partitions.items() if p.rows and k not in self.partitions}
        # First what can fail: nothing is half filled then.
        outputs = {k: partition.output() for k, partition in new.items()}
        rows: Bag = {}
        for partition_key, output in outputs.items():
            partition = self.partitions[partition_key] = new[partition_key]
            self._settle(partition_key, partition, output)
            rows.update(output)
            self._row_count += sum(partition.rows.values())
            self._row_bytes += self._bytes_of(list(partition.rows))
        self.materialization.fill(columns, key, rows)

    def cover_known(self, columns: Columns, key: Key) -> None:
        """Covers `key`, whose partitions are known already (subsumption) or do not exist."""
        self.fill(columns, key, {})

    def partitions_of_rows(self, rows: Iterable[Row]) -> dict[Key, Partition]:
        """Partitions made of input rows."""
        partitions: dict[Key, Partition] = {}
        self.add_rows(partitions, rows, 1)
        return partitions

    def add_rows(self, partitions: dict[Key, Partition], rows: Iterable[Row], sign: int) -> None:
        """Adds input rows to partitions that are not installed yet, or takes them away."""
        for row in rows:
            key = self._key_of(row)
            partition = partitions.get(key)
            if partition is None:
                partition = partitions[key] = self._new()
            partition.add(row, sign)

    def input_rows(self) -> Iterator[tuple[Row, int]]:
        """The input rows of all partitions, with their multiplicities."""
        for partition in self.partitions.values():
            yield from partition.rows.items()

    def restore(self, rows: Sequence[Row], times: Sequence[int] | None) -> None:
        """Adds those of another one's input rows, each so often (None: once), that are under covered keys, without
        their output rows."""
        for row, n in zip(rows, times or repeat(1)):  # noqa: B905 - endless
            key = self._key_of(row)
            partition = self.partitions.get(key) or self._known_partition(key, row)
            if partition is not None:
                partition.add(row, n)
                self._row_count += n
                self._row_bytes += self._bytes_of((row,))

    def publish_restored(self) -> None:
        """Brings the output rows of all partitions up to date."""
        self._publish(dict(self.partitions))

    def evict(self, columns: Columns, key: Key) -> None:
        """Makes `key` a hole and forgets its partitions that no other covered key holds."""
        silent = [k for k in self._silent if self._under(columns, key, k)]
        gone = dict.fromkeys([self._key_of(row) for row in self.materialization.evict(columns, key)])
        gone.update(dict.fromkeys(k for k in silent if not self._is_known(k)))
        for partition_key in gone:
            rows = self.partitions.pop(partition_key).rows
            self._row_count -= sum(rows.values())
            self._row_bytes -= self._bytes_of(list(rows))
            self._silent.pop(partition_key, None)

    def _under(self, columns: Columns, key: Key, partition_key: Key) -> bool:
        positions = [self.relation.partition.index(c) for c in columns]
        return all(partition_key[p] == part for p, part in zip(positions, key, strict=True))

    def _is_known(self, partition_key: Key) -> bool:
        return self.materialization.is_known(next(iter(self.partitions[partition_key].rows)) + self._unset)

    def clear(self) -> None:
        """Forgets everything, also when a change was applied half-way."""
        self.partitions.clear()
        self._silent.clear()
        self._row_count = self._row_bytes = 0
        self.materialization.clear()

    def state_bytes(self) -> int:
        """About what the input rows take, beside the materialization."""
        tables = getsizeof(self.partitions) + getsizeof(self._silent)
        number = len(self.partitions)
        crowded = max(0, self._row_count - FEW * number)
        return tables + _PARTITION_BYTES * number + CROWDED_BYTES * crowded + max(0, self._row_bytes)

    # Checking

    def check(self) -> None:
        """Asserts that input rows and output rows agree."""
        if self._row_count != sum(sum(p.rows.values()) for p in self.partitions.values()):
            raise InvariantViolation(f"the number of input rows is {self._row_count}")
        outputs: Bag = {}
        for key, partition in self.partitions.items():
            fresh = self._new()
            for row, times in partition.rows.items():
                fresh.add(row, times)
            output = fresh.output()
            if not partition.rows or not self._is_known(key):
                raise InvariantViolation(f"partition {key} is empty, or under no covered key")
            if (key in self._silent) == bool(output):
                raise InvariantViolation(f"partition {key} is marked silent exactly if it has output")
            outputs.update(output)
        if outputs != self.materialization.bag():
            raise InvariantViolation("the partitions' outputs are not the known rows")


def _bare_bytes(rows: Sequence[Row]) -> int:
    """Rows whose texts are those of output rows."""
    return len(rows) * tuple_bytes(len(rows[0])) if rows else 0


def _ranked_bytes(rows: Sequence[Row]) -> int:
    """Rows in an order: beside each stands its rank, with a pair for each value."""
    if not rows:
        return 0
    width = len(rows[0])
    rank = 2 * tuple_bytes(2) + _PLACE_BYTES + tuple_bytes(width) + width * tuple_bytes(2)
    return rows_bytes(rows) + len(rows) * rank


def _missing(bag: Mapping[Row, int], other: Mapping[Row, int]) -> list[Row]:
    """Returns the rows of `bag` that `other` lacks, with their copies."""
    return [row for row, times in bag.items() for _ in range(times - other.get(row, 0))]
