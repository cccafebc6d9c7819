"""GROUP BY: groups under covered keys, each with the accumulators of its calls and the row it last gave. Groups that
only count are made of their rows (`groups`).

Equal values can have several texts (1.0 and 1.00 are one group): a group shows one that its rows have.

*Maintains*: a group exists exactly if it has rows and its row is known; the materialization holds each group's row. An
aggregate without GROUP BY keeps an empty group for every covered key of all group columns.

Not here: what a call remembers (`aggregate_state`), coverage and eviction (`state.materialization`).
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import islice
from sys import getsizeof
from typing import Any, cast

from dataflow.errors import InvariantViolation
from dataflow.ops.aggregate_call import CompiledCall
from dataflow.ops.aggregate_records import record_of, restore
from dataflow.ops.aggregate_sums import integer_text
from dataflow.ops.groups import GROUP_BYTES, LARGE_GROUP_BYTES, CountedGroups, Group, LargeGroup
from dataflow.plan.nodes import Aggregate, column_types
from dataflow.schema import SqlType
from dataflow.sizing import BUCKET_BYTES, TEXT_BYTES, row_bytes, tuple_bytes
from dataflow.state.index import key_function
from dataflow.state.materialization import Materialization
from dataflow.types import Columns, Delta, Key, Row


class Grouping:
    """The executable form of an `Aggregate`, over its own materialization."""

    def __init__(self, aggregate: Aggregate, materialization: Materialization, staged: bool = False) -> None:
        """`staged`: its groups are made before their rows (`engine.staging`)."""
        self.aggregate = aggregate
        self.materialization = materialization
        input_types: Sequence[SqlType] = column_types(aggregate.input)
        calls = [CompiledCall(call) for call in aggregate.calls]
        #: The calls that have accumulators. A COUNT(*) needs none: a group has the number of its rows.
        self._calls = [call for call in calls if not call.counts_rows]
        #: By call, the place of its accumulator.
        self._places = [None if call.counts_rows else self._calls.index(call) for call in calls]
        self._key_of_input = key_function(aggregate.group, input_types)
        width = len(aggregate.group)
        self.all_columns: Columns = tuple(range(width))
        self._key_of_output = key_function(self.all_columns, column_types(aggregate))
        self._unset = (None,) * len(aggregate.calls)
        self._has_texts = any(input_types[c].normal_form is not None for c in aggregate.group)
        self._is_counted = bool(calls) and not self._calls and not self._has_texts and not staged
        #: By the normal form of the group columns.
        self.groups: MutableMapping[Key, Group] = {}
        if self._is_counted:
            self.groups = CountedGroups(materialization, self.all_columns)
        #: Input rows that came under no covered key.
        self.rows_dropped = 0
        #: Whether groups take more the more rows they have; what they take by that.
        fresh = [call.make() for call in self._calls]
        self._grows = any(accumulator.grows for accumulator in fresh)
        self._grown = 0
        #: What a group takes but for that.
        fixed = sum(accumulator.state_bytes() for accumulator in fresh if not accumulator.grows)
        self._is_large = self._grows or self._has_texts
        self._group_bytes = (LARGE_GROUP_BYTES if self._is_large else GROUP_BYTES) + fixed
        self._group_bytes += tuple_bytes(len(fresh)) if fresh else 0
        if self._has_texts:
            self._group_bytes += BUCKET_BYTES + 2 * tuple_bytes(width) + width * TEXT_BYTES

    def _new(self, values: Row) -> Group:
        made = LargeGroup if self._is_large else Group
        return made(values, tuple([call.make() for call in self._calls]))

    def _output(self, group: Group) -> Row:
        """The group's row as it should be now."""
        count, accumulators = integer_text(group.rows), group.accumulators
        return (*group.values, *[count if place is None else accumulators[place].result() for place in self._places])

    def _measure(self, group: Group) -> None:
        """Measures a group that may have grown."""
        if self._grows:
            self._grown += cast(LargeGroup, group).measure()

    # Deltas

    def absorb(self, delta: Delta) -> Delta:
        """Applies an input's change to the groups that are known; returns the change of their rows."""
        touched: dict[Key, Group] = {}
        groups, key_of, add = self.groups, self._key_of_input, self._add
        for sign, rows in ((-1, delta[0]), (1, delta[1])):
            for row in rows:
                key = key_of(row)
                group = touched.get(key)
                if group is None:
                    group = groups.get(key) or self._known_group(key, row)
                    if group is None:
                        self.rows_dropped += 1
                        continue
                    touched[key] = group
                add(group, row, sign)
        return self._publish(touched)

    def _add(self, group: Group, row: Row, sign: int) -> None:
        """Adds an input row to its group, or takes it away."""
        group.rows += sign
        if self._has_texts:
            cast(LargeGroup, group).count_text(tuple([row[c] for c in self.aggregate.group]), sign)
        if not group.accumulators:
            return
        for call, accumulator in zip(self._calls, group.accumulators):  # noqa: B905 - equal lengths, on the hot path
            if call.simple:
                accumulator.add(call.argument(row) if call.argument is not None else None, sign)
            else:
                call.add(accumulator, row, sign)

    def _known_group(self, key: Key, row: Row) -> Group | None:
        values = tuple([row[c] for c in self.aggregate.group])
        if not self.materialization.is_known(values + self._unset):
            return None
        group = self.groups[key] = self._new(values if self._has_texts else key)
        return group

    def _publish(self, touched: dict[Key, Group]) -> Delta:
        removed: list[Row] = []
        added: list[Row] = []
        for key, group in touched.items():
            before = group.row
            after = self._output(group) if group.rows or self._stays_empty(key) else None
            if group.rows < 0:
                raise InvariantViolation(f"group {key} has {group.rows} rows")
            if after is None:
                self._forget(key)
            elif self._grows:
                self._measure(group)
            if before == after:
                continue
            group.row = after
            if after is not None:
                added.append(after)
            if before is not None:
                removed.append(before)
            self._store(before, after)
        return removed, added

    def _forget(self, key: Key) -> None:
        group = self.groups.pop(key, None)
        if group is not None:
            self._grown -= _grown(group)

    def _store(self, before: Row | None, after: Row | None) -> None:
        if before is not None and after is not None:
            self.materialization.replace(before, after)
            if self._grows:
                self.materialization.grow(row_bytes(after) - row_bytes(before))
        elif before is not None:
            self.materialization.delete(before)
        elif after is not None:
            self.materialization.insert(after)

    def _stays_empty(self, key: Key) -> bool:
        coverage = self.materialization.coverage.get(self.all_columns)
        return self.aggregate.scalar and coverage is not None and key in coverage

    # In the making (`engine.staging`): all groups are known, their rows are published later

    def always(self) -> list[Key]:
        """The groups that are there without rows, which are made now: the only one of an aggregate without any."""
        if not self.aggregate.scalar or self.all_columns:
            return []
        self.groups[()] = self._new(())
        return [()]

    def stage(self, rows: Sequence[Row], sign: int) -> dict[Key, None]:
        """Adds input rows to their groups, or takes them away; returns the groups' keys."""
        return self.add_rows(self.groups, rows, sign)

    def stage_found(self, rows: Sequence[Row]) -> dict[Key, None]:
        """Adds the upstream's state rows to their groups; returns the groups' keys."""
        return self.add_state_rows(self.groups, rows)

    def publish_one(self, key: Key) -> int:
        """Brings the row of a group up to date; about how many rows that was."""
        self._publish({key: self.groups[key]})
        return 1

    def take_over(self, other: "Grouping") -> None:
        """Has the groups of another one, which are all there are and which must not be used any more there. Those that
        were known here stay as they are: others know them by the texts that they show."""
        for key, group in self.groups.items():
            other._show_as(key, group)
        if not self._is_counted:
            self.groups, self._grown = other.groups, other._grown
        self.materialization.take_over(other.materialization)

    def _show_as(self, key: Key, group: Group) -> None:
        mine = self.groups.get(key)
        if group.row is None or (mine is None and group.rows):
            raise InvariantViolation(f"group {key} is known but must not exist")
        if mine is not None and mine.row == group.row:
            return
        self._store(None if mine is None else mine.row, group.row)
        self._grown += _grown(group) - (0 if mine is None else _grown(mine))
        self.groups[key] = group

    def truncate(self) -> Delta:
        """Takes all rows of all groups away; returns the change of the groups' rows."""
        emptied: dict[Key, Group] = {}
        for key, group in self.groups.items():
            emptied[key] = self._new(group.values)
            emptied[key].row = group.row
            self._grown -= _grown(group)
        self.groups.update(emptied)
        return self._publish(emptied)

    # Filling

    def fill(self, columns: Columns, key: Key, groups: dict[Key, Group]) -> None:
        """Covers `key`, whose groups are exactly `groups` now."""
        rows: dict[Row, int] = {}
        if columns == self.all_columns:
            # The only group's key is the covered one: they are stored as one object.
            groups = dict(zip([key], groups.values(), strict=False))
        # First what can fail: nothing is half filled then.
        for group_key, group in groups.items():
            if group.rows < 0:
                raise InvariantViolation(f"group {group_key} has {group.rows} rows in a fill")
            if not self._has_texts:
                group.values = group_key
            group.row = self._output(group) if group.rows else None
        for group_key, group in groups.items():
            known = self.groups.setdefault(group_key, group) if group.rows else self.groups.get(group_key)
            if known is group:
                self._measure(group)
            if known is not None and known.row is not None:
                rows[known.row] = 1
        if self.aggregate.scalar and columns == self.all_columns and not rows and key not in self.groups:
            empty = self.groups[key] = self._new(key)
            empty.row = self._output(empty)
            self._measure(empty)
            rows[empty.row] = 1
        self.materialization.fill(columns, key, rows)

    def cover_known(self, columns: Columns, key: Key) -> None:
        """Covers `key`, whose rows are known already (subsumption) or do not exist."""
        if self.aggregate.scalar:
            self.fill(columns, key, {})
        else:
            self.materialization.fill(columns, key, {})

    def groups_of_rows(self, rows: Sequence[Row]) -> dict[Key, Group]:
        """Groups made of input rows."""
        groups: dict[Key, Group] = {}
        self.add_rows(groups, rows, 1)
        return groups

    def add_rows(self, groups: MutableMapping[Key, Group], rows: Sequence[Row], sign: int) -> dict[Key, None]:
        """Adds input rows to groups that are not installed yet, or takes them away; returns the groups' keys."""
        touched: dict[Key, None] = {}
        for row in rows:
            key = self._key_of_input(row)
            touched[key] = None
            group = groups.get(key)
            if group is None:
                group = groups[key] = self._new(tuple([row[c] for c in self.aggregate.group]))
            self._add(group, row, sign)
        return touched

    def groups_of_state_rows(self, rows: Sequence[Row]) -> dict[Key, Group]:
        """Groups made of the upstream's state rows (layout: `aggregate_state`)."""
        groups: dict[Key, Group] = {}
        self.add_state_rows(groups, rows)
        return groups

    def add_state_rows(self, groups: MutableMapping[Key, Group], rows: Sequence[Row]) -> dict[Key, None]:
        """Adds state rows to groups that are not installed yet; returns the groups' keys."""
        width = len(self.aggregate.group)
        touched: dict[Key, None] = {}
        for row in rows:
            values = row[:width]
            key = self._key_of_output(values)
            touched[key] = None
            group = groups.get(key)
            if group is None:
                group = groups[key] = self._new(values)
            columns = iter(row[width:])
            for place in self._places:
                if place is None:
                    next(columns)
                else:
                    accumulator = group.accumulators[place]
                    accumulator.merge(tuple(islice(columns, accumulator.width)))
            number = int(next(columns) or 0)
            group.rows += number
            if self._has_texts:
                cast(LargeGroup, group).count_text(values, number)
        return touched

    # Checkpoints

    def records(self) -> Iterator[tuple[Any, ...]]:
        """The groups as plain values, with the rows that they give."""
        for group in self.groups.values():
            texts = group.texts if isinstance(group, LargeGroup) else None
            held = list(map(record_of, group.accumulators))
            accumulators = tuple([(group.rows,) if place is None else held[place] for place in self._places])
            yield group.values, texts, group.rows, group.row, accumulators

    def restore(self, records: Iterable[tuple[Any, ...]], shared: Mapping[Key, Key], *, all_known: bool) -> None:
        """Knows groups of another one, those that are under covered keys unless `all_known` says that all are. Equal
        keys in `shared` are used. InvariantViolation if one of them gives another row than it did."""
        found: dict[Key, Row] = {}
        known, has_texts = shared.get, self._has_texts
        for values, texts, number, row, accumulators in records:
            if all_known or self.materialization.is_known(row):
                key = self._key_of_output(values) if has_texts else values
                key = known(key, key)
                group = self._new(values if has_texts else key)
                group.rows = number
                if isinstance(group, LargeGroup):
                    group.texts = texts
                for place, record in zip(self._places, accumulators):  # noqa: B905 - equal digests
                    if place is not None:
                        restore(group.accumulators[place], record)
                group.row = after = self._output(group)
                if after != row or key in found or self.groups.setdefault(key, group) is not group:
                    raise InvariantViolation(f"group {key} gave {row}, its state gives {after}")
                self._measure(group)
                found[key] = after
        self.materialization.restore(list(found.values()), None, shared, all_known=True)

    def evict(self, columns: Columns, key: Key) -> None:
        """Makes `key` a hole and forgets its groups that no other covered key holds."""
        for row in self.materialization.evict(columns, key):
            self._forget(self._key_of_output(row))

    def clear(self) -> None:
        """Forgets everything, also when a change was applied half-way."""
        self.groups.clear()
        self._grown = 0
        self.materialization.clear()

    def state_bytes(self) -> int:
        """About what the groups take, beside the materialization."""
        number, shared = len(self.groups), 0
        # A count's text is in the group's row, and counted there; most are of few rows, whose texts are shared.
        total = self._grown - TEXT_BYTES * self._places.count(None) * number
        coverage = self.materialization.coverage.get(self.all_columns)
        if coverage is not None and coverage.shares_keys and not (self._has_texts or self.materialization.own_from):
            # Rows begin with the texts of keys, which are those of another node.
            # Keys without rows may have longer texts.
            shared = min(coverage.text_bytes * number // max(1, len(coverage)), self.materialization.row_bytes)
        if not self._is_counted:
            key_bytes = tuple_bytes(len(self.all_columns)) if coverage is None else 0
            total += getsizeof(self.groups) + (self._group_bytes + key_bytes) * number
        return total - shared

    # Checking

    def check(self) -> None:
        """Asserts that groups and rows agree."""
        rows = {group.row for group in self.groups.values()}
        if rows != set(self.materialization.bag()):
            raise InvariantViolation("the groups' rows are not the known rows")
        if sum(map(_grown, self.groups.values())) != self._grown:
            raise InvariantViolation(f"the groups' growth is {self._grown} bytes, not the sum over the groups")
        for key, group in self.groups.items():
            if isinstance(group, LargeGroup) and group.measure():
                raise InvariantViolation(f"group {key} has grown unmeasured")
            if group.row != self._output(group):
                raise InvariantViolation(f"group {key} holds {group.row}, its state gives {self._output(group)}")
            if not group.rows and not self._stays_empty(key):
                raise InvariantViolation(f"group {key} is empty")


def _grown(group: Group) -> int:
    return group.grown if isinstance(group, LargeGroup) else 0
