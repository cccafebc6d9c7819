"""The join block: an n-way equi-join over materialized inputs, without state of its own (a *delta join*).

Its output delta is the sum over inputs i of the change of input i joined with the *new* state of the inputs before i
and the *old* state (new minus change) of those after i. That telescopes: it is what replacing the inputs one by one by
their new states does to the output, so it is exact also when several inputs change at once or are one materialization.

A left input's change acts on the rows that it hangs off: where its first match comes, the padded row goes, and the
other way round. Without a rest of its ON (`BlockInput.on`) that is so for all rows that look up one key; with one it is
asked combination by combination.

*Invariants*: the inputs' materializations are new already when `delta` runs; joins see known rows only.

Not here: which lookups must be covered (`engine.upquery`, `engine.incongruence`), how orders are chosen
(`plan.routes`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from operator import itemgetter
from typing import Any

from dataflow.evaluate import compile_predicate, compile_scalar
from dataflow.plan.expressions import conjunction, renumber
from dataflow.plan.nodes import Block, column_types
from dataflow.plan.route_conditions import asked_last, conditions
from dataflow.plan.routes import DeltaOrder, Source, Step, delta_order, input_offsets, mentioned
from dataflow.scalar import ColumnRef, Scalar
from dataflow.state.materialization import Materialization, consolidate, grouped
from dataflow.types import Delta, Key, Row, Value

#: One row per input, in input order, then a multiplicity. A row is None while it is not bound, and as the padding of
#: a left input without a match.
Combination = list[Any]
Normal = Callable[[str], str] | None
#: The bag under a key.
Lookup = Callable[[Key], Mapping[Row, int]]
#: What leaves and what enters a left input's place; None is padding.
Replacement = tuple[Sequence[Row | None], Sequence[Row | None]]
#: Whether something is TRUE for a row of one input (None: its padding), given what it reads of others.
RowCondition = Callable[[Combination], Callable[[Row | None], bool]]
#: Whether something is TRUE of a combination whose inputs that it reads are bound.
Condition = Callable[[Combination], bool]
#: How a step finds rows: input, columns -> the lookup to use.
Find = Callable[[int, tuple[int, ...]], Lookup]


class InputChange:
    """One input's change in this step, with its old state: the new one minus the change."""

    __slots__ = ("_by_key", "added", "materialization", "removed")

    def __init__(self, materialization: Materialization, delta: Delta) -> None:
        self.materialization = materialization
        self.removed, self.added = delta
        self._by_key: dict[tuple[int, ...], dict[Key, tuple[list[Row], list[Row]]]] = {}

    def old(self, columns: tuple[int, ...], key: Key) -> Mapping[Row, int]:
        """The bag of rows that were known under `key` before this step."""
        new = self.materialization.indexes[columns].get(key)
        changed = self.by_key(columns).get(key)
        if changed is None:
            return new
        bag = dict(new)
        for row in changed[1]:
            bag[row] = bag.get(row, 0) - 1
        for row in changed[0]:
            bag[row] = bag.get(row, 0) + 1
        return {row: times for row, times in bag.items() if times}

    def by_key(self, columns: tuple[int, ...]) -> dict[Key, tuple[list[Row], list[Row]]]:
        """Rows removed and added, by their key in `columns`."""
        if columns not in self._by_key:
            key_of = self.materialization.indexes[columns].key_of
            self._by_key[columns] = grouped((self.removed, self.added), key_of)
        return self._by_key[columns]


class BlockJoin:
    """The executable form of a `Block` over its inputs' materializations."""

    def __init__(self, block: Block, inputs: Sequence[Materialization], counters: "Counter[str]") -> None:
        self.block = block
        self._counters = counters
        self.inputs = list(inputs)
        self._types = [column_types(item.relation) for item in block.inputs]
        self._padding = [(None,) * len(types) for types in self._types]
        #: Per input and column.
        self._normal: list[list[Normal]] = [[t.normal_form for t in types] for types in self._types]
        self.output = compile_output(block, self._padding)
        #: Per left input with a rest of its ON: whether that is TRUE for a row of it, given a combination.
        self._rests = {i: _of_row(block, item.on, i) for i, item in enumerate(block.inputs) if item.on is not None}
        self.orders = [delta_order(block, i) for i in range(len(block.inputs))]
        #: Per order: by how many inputs are bound. A left input's own row comes after what it hangs off.
        self._asked = [self.conditions(_bound_by(block, order)) for order in self.orders]
        for order in self.orders:
            self.require_indexes(order.inner + order.above + order.left)
        for i, item in enumerate(block.inputs):
            if item.left:
                self.inputs[i].require_index(own_columns(block, i))

    def require_indexes(self, steps: Sequence[Step]) -> None:
        """Makes sure that every step has an index to look up."""
        for step in steps:
            self.inputs[step.input].require_index(step.columns)

    # Steps

    def keys_at(self, step: Step, combinations: Sequence[Combination]) -> list[Key | None]:
        """The key that `step` looks up for each combination; None if a part is NULL, which matches nothing."""
        if len(step.sources) != 1:
            return [self._key_of_several(step, combination) for combination in combinations]
        (source,) = step.sources
        input_, column = source.input, source.column
        form = self._normal[input_][column]
        values = [None if (row := c[input_]) is None else row[column] for c in combinations]
        if form is None:
            return [None if value is None else (value,) for value in values]
        return [None if value is None else (form(value),) for value in values]

    def _key_of_several(self, step: Step, combination: Combination) -> Key | None:
        key = tuple([self.value_at(source, combination) for source in step.sources])
        return None if None in key else key

    def matches(self, step: Step, combination: Combination, row: Row) -> bool:
        """Return whether `row` of the step's input meets the step's further equalities."""
        for own, source in step.checks:
            value = self.value_at(source, combination)
            if value is None or value != self._normalized(step.input, own, row[own]):
                return False
        return True

    def bind(
        self,
        step: Step,
        combinations: list[Combination],
        condition: RowCondition | None = None,
        find: Find | None = None,
    ) -> list[Combination]:
        """Every combination with each row that `step` finds for it, multiplicities multiplied, of which `condition` is
        TRUE.

        `find` says in which state; by default the inputs are taken as they are now.
        """
        target, pads, checks = step.input, step.pads, step.checks
        rest = self._rests.get(target) if pads else None
        lookup = (find or self.known_by)(target, step.columns)
        keys = self.keys_at(step, combinations)
        if not checks and rest is None and condition is None:
            return _bound_to_all(target, combinations, keys, lookup, pads=pads)
        bound: list[Combination] = []
        for combination, key in zip(combinations, keys, strict=True):
            found = lookup(key) if key is not None else None
            if not found and not pads:
                continue
            matched = False
            matches = rest(combination) if rest is not None and found else None
            keeps = condition(combination) if condition is not None else None
            for row, copies in found.items() if found else ():
                if (not checks or self.matches(step, combination, row)) and (matches is None or matches(row)):
                    matched = True
                    if keeps is None or keeps(row):
                        bound.append(_extended(combination, target, row, copies))
            if pads and not matched and (keeps is None or keeps(None)):
                bound.append(combination)
        return bound

    def conditions(self, order: Sequence[int]) -> list[RowCondition | None]:
        """Returns the conditions to check as inputs are bound in this order, for each input."""
        predicates = map(conjunction, conditions(self.block, order))
        return [
            None if predicate is None else _of_row(self.block, predicate, input_)
            for input_, predicate in zip(order, predicates, strict=True)
        ]

    def condition(self, parts: Sequence[Scalar]) -> Condition | None:
        """Return the condition that all of these parts of the predicate are TRUE; None without any."""
        predicate = conjunction(parts)
        if predicate is None:
            return None
        read = mentioned(self.block, predicate)
        offsets = input_offsets(self.block)
        keeps = compile_predicate(renumber(predicate, {offsets[s.input] + s.column: n for n, s in enumerate(read)}))
        places = [(source.input, source.column) for source in read]

        def holds(combination: Combination) -> bool:
            return keeps(tuple([None if (row := combination[i]) is None else row[c] for i, c in places]))

        return holds

    def where_matches(self, lefts: Sequence[int], combinations: list[Combination]) -> list[Combination]:
        """The combinations in which the rest of these left inputs' ON is TRUE; their rows are taken for matches."""
        for left in lefts:
            rest = self._rests.get(left)
            if rest is not None:
                combinations = [c for c in combinations if rest(c)(c[left])]
        return combinations

    def known(self, input_: int, columns: tuple[int, ...], key: Key) -> Mapping[Row, int]:
        """Known rows of an input as they are now."""
        return self.inputs[input_].indexes[columns].get(key)

    def known_by(self, input_: int, columns: tuple[int, ...]) -> Lookup:
        """The lookup of an input's known rows as they are now."""
        return self.inputs[input_].indexes[columns].get

    def value_at(self, source: Source, combination: Combination) -> Value:
        """The normal form of a bound input's value; None is NULL, or the padding of a left input."""
        row = combination[source.input]
        return None if row is None else self._normalized(source.input, source.column, row[source.column])

    def _normalized(self, input_: int, column: int, value: Value) -> Value:
        form = self._normal[input_][column]
        return value if value is None or form is None else form(value)

    def start(self, input_: int, row: Row, times: int = 1) -> Combination:
        """A combination in which only one input is bound."""
        combination: Combination = [None] * len(self.inputs)
        combination[input_] = row
        combination.append(times)
        return combination

    def rows(self, combinations: Iterable[Combination]) -> list[Row]:
        """The block's rows of complete combinations, whose conditions have been asked as they were bound."""
        output = self.output
        rows: list[Row] = []
        for combination in combinations:
            row = output(combination)
            if row is not None:
                if combination[-1] == 1:
                    rows.append(row)
                else:
                    rows.extend([row] * combination[-1])
        return rows

    # Deltas

    def delta(
        self,
        changes: Sequence[InputChange | None],
        matters: Sequence[Condition | None] | None = None,
        *,
        counts: Condition | None = None,
    ) -> Delta:
        """The output's change, given each input's (None: unchanged). With `counts`, a condition on the row of one inner
        input, of the output that comes of such rows; `matters`: conditions on the changed rows of each inner input,
        before they are joined."""
        removed: list[Row] = []
        added: list[Row] = []
        for i, change in enumerate(changes):
            if change is not None:
                find = self._stage(i, changes)
                if self.block.inputs[i].left:
                    changed = self._left_change(self.orders[i], change, find)
                else:
                    changed = self._inner_change(self.orders[i], change, find, matters[i] if matters else None)
                removed += self.rows(where(counts, changed[0]))
                added += self.rows(where(counts, changed[1]))
        return consolidate((removed, added))

    def _stage(self, i: int, changes: Sequence[InputChange | None]) -> Find:
        """Inputs before `i` in their new state, those after it in their old one."""
        if not any(changes[i + 1 :]):
            return self.known_by

        def find(input_: int, columns: tuple[int, ...]) -> Lookup:
            change = self._old_state(i, input_, changes)
            return self.known_by(input_, columns) if change is None else partial(change.old, columns)

        return find

    def _old_state(self, i: int, input_: int, changes: Sequence[InputChange | None]) -> InputChange | None:
        """The change to take back when input `input_` is looked up while input `i` changes."""
        return changes[input_] if input_ > i else None

    def _inner_change(
        self, order: DeltaOrder, change: InputChange, find: Find, matters: Condition | None
    ) -> list[list[Combination]]:
        """The combinations that go and come."""
        changed: list[list[Combination]] = []
        for rows in (change.removed, change.added):
            first, *others = self._asked[order.start]
            started = where(matters, [self.start(order.start, row) for row in rows])
            combinations = where_row(first, order.start, started)
            for step, condition in zip(order.inner + order.left, others, strict=True):
                if not combinations:
                    break
                combinations = self.bind(step, combinations, condition, find)
            changed.append(combinations)
        return changed

    def _left_change(self, order: DeltaOrder, change: InputChange, find: Find) -> list[list[Combination]]:
        """The combinations that go and come: a left input's rows under what it hangs off, and padding with them."""
        i = order.start
        columns = own_columns(self.block, i)
        index = self.inputs[i].indexes[columns]
        changed = {key: rows for key, rows in change.by_key(columns).items() if None not in key}
        sides = {key: self._with_padding(rows, index.count(key)) for key, rows in changed.items()}
        # Any row with the key stands for all of them until the inputs that it hangs off are bound.
        combinations = [self.start(i, (gone or come)[0]) for gone, come in changed.values()]
        above = order.inner + order.above
        asked = self._asked[i]
        for step, condition in zip(above, asked, strict=False):
            combinations = self.bind(step, combinations, condition, find)
        combinations = self.where_matches(order.matched, combinations)
        keys = [index.key_of(combination[i]) for combination in combinations]
        rest = self._rests.get(i)
        if rest is None:
            changes = [sides[key] for key in keys]
        else:
            changes = [
                self._matching(rest(combination), changed[key], index.get(key))
                for combination, key in zip(combinations, keys, strict=True)
            ]
        changed_combinations: list[list[Combination]] = []
        for side in (0, 1):
            replaced = [
                self._replaced(combination, i, row)
                for combination, change in zip(combinations, changes, strict=True)
                for row in change[side]
            ]
            replaced = where_row(asked[len(above)], i, replaced)
            for step, condition in zip(order.left, asked[len(above) + 1 :], strict=True):
                replaced = self.bind(step, replaced, condition, find)
            changed_combinations.append(replaced)
        return changed_combinations

    def _matching(
        self, keeps: Callable[[Row | None], bool], rows: tuple[list[Row], list[Row]], now: Mapping[Row, int]
    ) -> Replacement:
        """Returns the rows removed and added at a left input's place in one combination."""
        gone, come = ([row for row in side if keeps(row)] for side in rows)
        if not gone and not come:
            return gone, come
        return self._with_padding((gone, come), sum(times for row, times in now.items() if keeps(row)))

    def _with_padding(self, rows: tuple[list[Row], list[Row]], now: int) -> Replacement:
        """Returns the rows removed and added at a left input's place with `now` matches; None is padding, and last."""
        gone, come = rows
        had = bool(gone) or now > len(come)
        if had is bool(now):
            return rows
        self._counters["padding"] += 1
        return ([*gone], [*come, None]) if had else ([*gone, None], [*come])

    @staticmethod
    def _replaced(combination: Combination, i: int, row: Row | None) -> Combination:
        replaced = combination.copy()
        replaced[i] = row
        return replaced


def _bound_to_all(
    target: int, combinations: list[Combination], keys: Sequence[Key | None], lookup: Lookup, *, pads: bool
) -> list[Combination]:
    """Every combination with each row that is found for it."""
    bound: list[Combination] = []
    for combination, key in zip(combinations, keys):  # noqa: B905 - one for each
        found = lookup(key) if key is not None else None
        if found:
            for row, copies in found.items():
                extended = combination.copy()
                extended[target] = row
                extended[-1] *= copies
                bound.append(extended)
        elif pads:
            bound.append(combination)
    return bound


def _extended(combination: Combination, target: int, row: Row, copies: int) -> Combination:
    extended = combination.copy()
    extended[target] = row
    extended[-1] *= copies
    return extended


def where(condition: Condition | None, combinations: list[Combination]) -> list[Combination]:
    """The combinations of which a condition is TRUE."""
    return combinations if condition is None else [c for c in combinations if condition(c)]


def where_row(condition: RowCondition | None, input_: int, combinations: list[Combination]) -> list[Combination]:
    """The combinations of which a condition on the row of an input is TRUE."""
    return combinations if condition is None else [c for c in combinations if condition(c)(c[input_])]


def _bound_by(block: Block, order: DeltaOrder) -> list[int]:
    """The inputs as a change binds them."""
    first, then = [step.input for step in order.inner + order.above], [step.input for step in order.left]
    return [*first, order.start, *then] if block.inputs[order.start].left else [order.start, *first, *then]


def own_columns(block: Block, left: int) -> tuple[int, ...]:
    """The columns that a left input's ON compares, ascending."""
    return tuple(sorted({c.own for c in block.inputs[left].conditions}))


def _of_row(block: Block, expression: Scalar, input_: int) -> RowCondition:
    """An expression as a function of a combination, and then of the row of an input."""
    offsets = input_offsets(block)
    first, end = offsets[input_], offsets[input_ + 1]
    outer = [source for source in mentioned(block, expression) if source.input != input_]
    places = {offsets[source.input] + source.column: place for place, source in enumerate(outer)}
    places |= {column: len(outer) + column - first for column in range(first, end)}
    keeps = compile_predicate(renumber(expression, places))
    padding = (None,) * (end - first)

    def given(combination: Combination) -> Callable[[Row | None], bool]:
        fixed = tuple([None if (row := combination[s.input]) is None else row[s.column] for s in outer])
        return lambda row: keeps(fixed + (row or padding))

    return given


def compile_output(block: Block, padding: Sequence[Row]) -> Callable[[Combination], Row | None]:
    """A function from a complete combination to the block's row; None if what is asked last is not TRUE."""
    project, last = compile_projection(block.columns), asked_last(block)
    keeps = compile_predicate(last) if last is not None else None

    # Input 0 is inner: it always has a row.
    others = tuple(enumerate(padding))[1:]

    def output(combination: Combination) -> Row | None:
        wide: Row = combination[0]
        for i, pad in others:
            wide += combination[i] or pad
        if keeps is not None and not keeps(wide):
            return None
        return project(wide)

    return output


def compile_projection(columns: Sequence[Scalar]) -> Callable[[Row], Row]:
    """A function that evaluates `columns`, a tuple of scalars, over a row."""
    plain = [c.index for c in takewhile(lambda c: isinstance(c, ColumnRef), columns) if isinstance(c, ColumnRef)]
    computed = [compile_scalar(c) for c in columns[len(plain) :]]
    if len(plain) < 2:
        every = [compile_scalar(c) for c in columns]
        return lambda row: tuple([f(row) for f in every])
    # Most of a relation's columns are plain and come first: they are taken in one go.
    first = itemgetter(*plain)
    if not computed:
        return first
    if len(computed) == 1:
        (last,) = computed
        return lambda row: (*first(row), last(row))
    return lambda row: (*first(row), *[f(row) for f in computed])
