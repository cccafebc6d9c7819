"""Groups of an aggregate: objects with their accumulators, or made of the rows that they give.

Not here: what becomes of a group when rows come and go (`aggregate`).
"""

from collections.abc import Iterator, MutableMapping
from typing import Any, cast

from dataflow.errors import InvariantViolation
from dataflow.ops.aggregate_accumulator import Accumulator
from dataflow.state.materialization import Materialization
from dataflow.types import Columns, Key, Row

#: What a group's object takes, and one that remembers more.
GROUP_BYTES, LARGE_GROUP_BYTES = 64, 80


class Group:
    """One group's state. There are many, so it has only what every aggregate needs."""

    __slots__ = ("accumulators", "row", "rows", "values")

    def __init__(self, values: Row, accumulators: tuple[Accumulator, ...]) -> None:
        #: The group columns' values, as one of the group's rows has them. The group's key, where no other can be equal.
        self.values = values
        #: Input rows in the group.
        self.rows = 0
        #: Of the calls that do not just count these rows.
        self.accumulators = accumulators
        #: The output row that the materialization holds; None before the first.
        self.row: Row | None = None


class LargeGroup(Group):
    """A group whose columns can have several texts, or whose accumulators grow."""

    __slots__ = ("grown", "texts")

    def __init__(self, values: Row, accumulators: tuple[Accumulator, ...]) -> None:
        super().__init__(values, accumulators)
        #: How often the rows have which texts of the group columns, where that can be several; else None.
        self.texts: dict[Row, int] | None = None
        #: What those of its accumulators that grow take, when it was last measured.
        self.grown = 0

    def measure(self) -> int:
        """Measures those of its accumulators that grow; what they take more than before."""
        before = self.grown
        self.grown = sum(a.state_bytes() for a in self.accumulators if a.grows)
        return self.grown - before

    def count_text(self, values: Row, times: int) -> None:
        """Notes that rows with these texts of the group columns came, or went."""
        texts = self.texts
        if texts is None:
            texts = self.texts = {}
        if count := texts.get(values, 0) + times:
            texts[values] = count
        else:
            texts.pop(values, None)
        if self.values not in texts:
            self.values = next(iter(texts), self.values)


class CountedGroups(MutableMapping[Key, Group]):
    """Groups that know the number of their rows and nothing else: their output row says it, so they are made of the
    rows in an index when they are asked for.

    A group is there exactly while its row is. So whoever adds or takes one away does that to its row; here, nothing
    is to be done.
    """

    __slots__ = ("_index", "_rows", "_width")

    def __init__(self, rows: Materialization, columns: Columns) -> None:
        """`rows`: the output rows, with a count behind the group's `columns`."""
        self._rows = rows
        self._index = rows.require_index(columns)
        self._width = len(columns)

    def get(self, key: Key, default: Any = None) -> Any:
        # A group has one row: its bucket.
        row = self._index.buckets.get(key)
        if row is None:
            return default
        if not isinstance(row, tuple):
            raise InvariantViolation(f"group {key} has several rows")
        group = Group(cast(Row, row[: self._width]), ())
        group.rows, group.row = int(cast(str, row[self._width])), cast(Row, row)
        return group

    def __getitem__(self, key: Key) -> Group:
        group: Group | None = self.get(key)
        if group is None:
            raise KeyError(key)
        return group

    def __setitem__(self, key: Key, group: Group) -> None: ...

    def __delitem__(self, key: Key) -> None: ...

    def clear(self) -> None: ...

    def __iter__(self) -> Iterator[Key]:
        return iter([key for key, bucket in self._index.buckets.items() if bucket is not None])

    def __len__(self) -> int:
        return self._rows.row_count
