"""Installation of a lookup's rows, made current: rows(now) = rows(snapshot) + the changes of each applied transaction
that the snapshot does not see.

*Invariants*: runs only when the stream has reached the result's bound, so everything that the snapshot sees is applied.

Not here: rows whose snapshot may or may not include a transaction (`uncertain_visibility`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from dataflow.engine.context import Context
from dataflow.engine.events import LookupDone, TableDelta
from dataflow.engine.flights import LookupQuery
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import GroupingNode, PartitionNode, Store
from dataflow.engine.ring import Ring
from dataflow.engine.upquery import Upqueries
from dataflow.errors import InvariantViolation
from dataflow.ops.groups import Group
from dataflow.ops.partitions import Partition
from dataflow.plan.parts import Interval, Part
from dataflow.schema import SqlType
from dataflow.sizing import sampled_bytes
from dataflow.state.index import key_function
from dataflow.state.intervals import OrderedCover
from dataflow.state.materialization import as_bag
from dataflow.state.ordering import Ordering
from dataflow.types import Delta, Key, Row


class Installation:
    """Installs rows of lookups."""

    def __init__(self, context: Context, ring: Ring, upqueries: Upqueries) -> None:
        self._limits = context.limits
        self._counters = context.counters
        self._ring = ring
        self._upqueries = upqueries

    def unseen(self, sent: LookupQuery, result: LookupDone) -> list[TableDelta]:
        """Changes of the lookup's table that the result's snapshot does not see for sure."""
        return self._ring.unseen(sent.chain.table, result.snapshot)

    def install(self, sent: LookupQuery, result: LookupDone, redo: list[Delta]) -> None:
        """Covers the lookup's keys that are still holes, given what makes the rows current."""
        if redo:
            self._counters["redo"] += 1
        node = sent.node
        if isinstance(node, Leaf) and node.stopped:
            return
        self._upqueries.looked_up(len(sent.keys), len(result.rows))
        if isinstance(node, GroupingNode):
            self._install_groups(node, sent, result.rows, redo)
        elif isinstance(node, PartitionNode):
            self._install_partitions(node, sent, result.rows, redo)
        elif isinstance(node, Store | Leaf):
            if sent.part is not None:
                self._install_part(node, sent, sent.part, result.rows, redo)
            else:
                self._install_rows(node, sent, result.rows, redo)

    def _install_part(
        self, node: Store | Leaf, sent: LookupQuery, part: Part, rows: list[Row], redo: list[Delta]
    ) -> None:
        """Covers what a lookup of a part saw: up to its last row *before redo*, if it gave as many as asked for."""
        (key,) = sent.keys
        ordering = Ordering(part.order, node.types)
        end = part.end
        if part.limit_rows is not None and len(rows) >= part.limit_rows:
            end = ordering.cut_at(rows[-1], behind=True)
        interval = Interval(part.start, end)
        first, last = ordering.place(interval.start), ordering.place(interval.end)
        key_of = key_function(sent.columns, node.types)
        bag: dict[Row, int] = {}
        for sign, batch in [(1, rows), *_signed(redo)]:
            for row in batch:
                if key_of(row) == key:
                    place = ordering.place_of_row(row)
                    if first is not None and first <= place and (last is None or place < last):
                        bag[row] = bag.get(row, 0) + sign
        _check_bag(bag)
        if self._too_large(sent, key, len(bag), bag):
            return
        if isinstance(node, Store):
            cover = OrderedCover(sent.columns, part.order)
            node.extend(cover, key, interval, {row: times for row, times in bag.items() if times})
        elif not node.covered(sent.columns, key):
            self._upqueries.extend(node, key, interval, [row for row, times in bag.items() for _ in range(times)])

    def _install_rows(self, node: Store | Leaf, sent: LookupQuery, rows: list[Row], redo: list[Delta]) -> None:
        by_key = _rows_by_key(sent, node.types, rows)
        changes = [(sign, _rows_by_key(sent, node.types, batch)) for sign, batch in _signed(redo)]
        for key, found in by_key.items():
            if node.covered(sent.columns, key):
                continue
            current = _with_changes(found, [(sign, batch[key]) for sign, batch in changes])
            if self._too_large(sent, key, len(current), current):
                continue
            if isinstance(node, Store):
                node.fill_bag(sent.columns, key, as_bag(current))
            else:
                self._upqueries.fill_rows(node, sent.columns, key, current)

    def _too_large(self, sent: LookupQuery, key: Key, rows: int, bag: Collection[Row] = ()) -> bool:
        if not sent.columns:
            return False
        if rows <= self._limits.key_rows and sampled_bytes(list(bag)) <= self._limits.key_rows_bytes:
            return False
        self._upqueries.refuse(sent.node, sent.columns, key)
        return True

    def _install_groups(self, node: GroupingNode, sent: LookupQuery, rows: list[Row], redo: list[Delta]) -> None:
        grouping = node.grouping
        groups = grouping.groups_of_state_rows(rows)
        wanted = set(sent.keys)
        input_key = key_function(tuple(node.relation.group[c] for c in sent.columns), sent.chain.types)
        for sign, batch in _signed(redo):
            grouping.add_rows(groups, [row for row in batch if input_key(row) in wanted], sign)
        by_key: dict[Key, dict[Key, Group]] = {key: {} for key in sent.keys}
        output_key = key_function(sent.columns, node.types)
        unset = (None,) * len(node.relation.calls)
        for group_key, group in groups.items():
            bucket = by_key.get(output_key(group.values + unset))
            if bucket is not None:
                bucket[group_key] = group
        for key, found in by_key.items():
            if not node.covered(sent.columns, key) and not self._too_large(sent, key, len(found)):
                node.fill_groups(sent.columns, key, found)

    def _install_partitions(self, node: PartitionNode, sent: LookupQuery, rows: list[Row], redo: list[Delta]) -> None:
        partitioned = node.partitioned
        key_of = key_function(sent.columns, sent.chain.types)
        by_key: dict[Key, dict[Key, Partition]] = {key: {} for key in sent.keys}
        sizes: Counter[Key] = Counter()
        for sign, batch in [(1, rows), *_signed(redo)]:
            for row in batch:
                partitions = by_key.get(key := key_of(row))
                if partitions is not None:
                    partitioned.add_rows(partitions, (row,), sign)
                    sizes[key] += sign
        for key, found in by_key.items():
            if not node.covered(sent.columns, key) and not self._too_large(sent, key, sizes[key]):
                node.fill_partitions(sent.columns, key, found)


def redo_deltas(sent: LookupQuery, unseen: list[TableDelta]) -> list[Delta]:
    """Changes of a lookup's chain by the transactions that it did not see."""
    deltas = [sent.chain.delta(delta.removed, delta.added, sent) for delta in unseen]
    return [delta for delta in deltas if delta[0] or delta[1]]


def _signed(redo: list[Delta]) -> list[tuple[int, list[Row]]]:
    return [(sign, rows) for removed, added in redo for sign, rows in ((-1, removed), (1, added))]


def _rows_by_key(sent: LookupQuery, types: Sequence[SqlType], rows: Iterable[Row]) -> dict[Key, list[Row]]:
    """The rows under each of a lookup's keys."""
    found: dict[Key, list[Row]] = {key: [] for key in sent.keys}
    key_of = key_function(sent.columns, types)
    # Rows of one key mostly come one after another.
    for key, group in groupby(rows, key_of):
        of_key = found.get(key)
        if of_key is not None:
            of_key.extend(group)
    return found


def _with_changes(rows: list[Row], changes: Sequence[tuple[int, list[Row]]]) -> list[Row]:
    """Rows after changes; the order does not matter."""
    if not any(changed for _, changed in changes):
        return rows
    bag = as_bag(rows)
    for sign, changed in changes:
        for row in changed:
            bag[row] = bag.get(row, 0) + sign
    _check_bag(bag)
    return [row for row, times in bag.items() for _ in range(times)]


def _check_bag(bag: dict[Row, int]) -> None:
    for row, times in bag.items():
        if times < 0:
            raise InvariantViolation(f"{row} would be stored {times} times")
