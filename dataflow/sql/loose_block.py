"""The loose block that FROM and WHERE make: inputs, conjuncts and parameters, as they come.

Columns are numbered by the concatenated row in the order in which inputs came, whatever becomes of those: joining some
of them to one input, swapping the sides of a RIGHT JOIN, or adding an input for a subquery moves no column.

*Invariants*: inner inputs have no conditions, only conjuncts. A left input's ON is split into equalities with what it
hangs off, filters of its own rows, which go into its relation, and the rest (`BlockInput.on`).

Not here: names and syntax (`from_clause`), the order of inputs (`plan.rules.join_conditions`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from dataflow.errors import Span, UnsupportedQuery
from dataflow.plan.expressions import (
    BOOL,
    column_equality,
    conjunction,
    equality,
    null_of_nulls,
    rejects_nulls,
    shift,
    substitute,
    used_columns,
)
from dataflow.plan.nodes import Block, BlockInput, JoinCondition, Relation, Union, column_types
from dataflow.plan.rewriting import input_columns, input_of, inputs_used, offsets, widths
from dataflow.plan.rules.push_predicates import filtered
from dataflow.scalar import Call, ColumnRef, Scalar
from dataflow.sql.conditions import BoundParameter
from dataflow.sql.expressions import functions


@dataclass(frozen=True, slots=True)
class Pending:
    """A parameter in the ON of a left input, or inside it: it does not filter the rows that are padded."""

    #: The first column of the left input.
    column: int
    parameter: BoundParameter


@dataclass(frozen=True, slots=True)
class Mark:
    """How much there was at some time."""

    inputs: int
    conjuncts: int
    parameters: int


@dataclass(slots=True)
class LooseBlock:
    """The block in the making."""

    inputs: list[BlockInput] = field(default_factory=list)
    conjuncts: list[Scalar] = field(default_factory=list)
    parameters: list[BoundParameter] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)

    @property
    def width(self) -> int:
        """How many columns there are."""
        return sum(widths(self.inputs))

    def mark(self) -> Mark:
        """How much there is now."""
        return Mark(len(self.inputs), len(self.conjuncts), len(self.parameters))

    def append(self, relation: Relation) -> int:
        """A further inner input; its first column."""
        offset = self.width
        self.inputs.append(BlockInput(relation))
        return offset

    # Outer joins

    def pad(self, position: int) -> None:
        """Makes the input at `position` a left one, whose ON is still to come (`join_left`)."""
        self.inputs[position] = replace(self.inputs[position], left=True)

    def join_left(self, position: int, on: Iterable[Scalar], parameters: Sequence[BoundParameter] = ()) -> None:
        """Makes the input at `position` a left one, with that ON."""
        column = offsets(self.inputs)[position]
        self.pad(position)
        self.pending += [Pending(column, parameter) for parameter in parameters]
        self._add_to_on(position, on)

    def _add_to_on(self, position: int, on: Iterable[Scalar]) -> None:
        """Further parts of the ON of the left input at `position`."""
        starts, sizes = offsets(self.inputs), widths(self.inputs)
        start = starts[position]
        own = set(range(start, start + sizes[position]))
        item = self.inputs[position]
        relation, conditions, rest = item.relation, list(item.conditions), [] if item.on is None else [item.on]
        for part in on:
            condition = _condition(part, starts, position)
            used = used_columns(part)
            if condition is not None:
                conditions.append(condition)
            elif used and used <= own:
                local = substitute(part, lambda ref: ColumnRef(ref.index - start, ref.type))
                relation = filtered(relation, local) or _filtered_above(relation, local)
            else:
                rest.append(part)
        unique = tuple(dict.fromkeys(conditions))
        self.inputs[position] = BlockInput(relation, True, unique, conjunction(rest))

    def collapse(self, since: Mark, end: Mark) -> None:
        """Makes one inner input of those that came between, with the conjuncts among them."""
        items = self.inputs[since.inputs : end.inputs]
        parts = self.conjuncts[since.conjuncts : end.conjuncts]
        if len(items) == 1 and not parts and not items[0].left:
            return
        start = offsets(self.inputs)[since.inputs]
        inside = range(start, start + sum(widths(items)))
        if any(p.column in inside for p in self.pending):
            raise UnsupportedQuery("A parameter inside nested outer joins is not kept up to date.")
        if not used_columns(*parts, *(i.on for i in items)) <= set(inside) or any(
            c.input < since.inputs for i in items for c in i.conditions
        ):
            raise UnsupportedQuery("LATERAL that leaves the right side of an outer join is not kept up to date.")
        local = tuple(
            replace(
                item,
                conditions=tuple(replace(c, input=c.input - since.inputs) for c in item.conditions),
                on=None if item.on is None else shift(item.on, -start),
            )
            for item in items
        )
        block = Block(local, conjunction(shift(p, -start) for p in parts), ())
        self.inputs[since.inputs : end.inputs] = [BlockInput(replace(block, columns=tuple(input_columns(block))))]
        self.conjuncts[since.conjuncts : end.conjuncts] = []

    def take_parameters(self, since: Mark, end: Mark) -> list[BoundParameter]:
        """The parameters that came between, which no longer filter what is joined."""
        taken = self.parameters[since.parameters : end.parameters]
        self.parameters[since.parameters : end.parameters] = []
        return taken

    def padded(self, column: int) -> bool:
        """Return whether a column is one of a left input."""
        return self.inputs[input_of(offsets(self.inputs), column)].left

    def join_full(self, position: int, on: Sequence[Scalar], span: Span | None) -> None:
        """FULL JOIN of the last two inputs: what a LEFT JOIN gives, and the right side's rows without a partner."""
        left, right = (item.relation for item in self.inputs[position : position + 2])
        start = offsets(self.inputs)[position]
        local = [shift(part, -start) for part in on]
        first = LooseBlock([BlockInput(left), BlockInput(right)])
        first.join_left(1, local)
        columns = input_columns(Block(tuple(first.inputs), None, ()))
        both = Block(tuple(first.inputs), None, tuple(columns))
        second = LooseBlock([BlockInput(right), BlockInput(left)])
        width, other = len(column_types(left)), len(column_types(right))
        moved = {c: c + other if c < width else c - width for c in range(width + other)}
        second.join_left(1, [substitute(p, lambda r: ColumnRef(moved[r.index], r.type)) for p in local])
        if not second.inputs[1].conditions:
            raise UnsupportedQuery(
                "A FULL JOIN without an equality of columns of both sides is not kept up to date.", span
            )
        # A row that is there is not NULL in what it is joined by.
        own = second.inputs[1].conditions[0].own
        alone = Call("is null", (ColumnRef(other + own, column_types(left)[own]),), BOOL)
        rest = Block(tuple(second.inputs), alone, tuple(ColumnRef(moved[c.index], c.type) for c in columns))
        self.inputs[position : position + 2] = [BlockInput(Union((both, rest)))]

    # In the end

    def finish(self) -> list[Pending]:
        """Makes inner inputs of left ones whose padding a parameter or conjunct drops, and binds pending parameters.

        Returns what is still pending.
        """
        while True:
            before = len(self.pending), sum(item.left for item in self.inputs)
            self._require()
            self.pending = [p for p in self.pending if not self._settled(p)]
            if (len(self.pending), sum(item.left for item in self.inputs)) == before:
                return self.pending

    def _require(self) -> None:
        """A parameter on a left input's column lets none of its padding through: the input is an inner one."""
        for parameter in self.parameters:
            for i in range(len(self.inputs)):
                if self.inputs[i].left and null_of_nulls(parameter.expression, self._own(i)):
                    self._make_inner(i)

    def _own(self, position: int) -> set[int]:
        start = offsets(self.inputs)[position]
        return set(range(start, start + widths(self.inputs)[position]))

    def _make_inner(self, position: int) -> None:
        item = self.inputs[position]
        starts, columns = offsets(self.inputs), input_columns(Block(tuple(self.inputs), None, ()))
        self.conjuncts += [
            equality(columns[starts[position] + c.own], columns[starts[c.input] + c.column]) for c in item.conditions
        ]
        self.conjuncts += [] if item.on is None else [item.on]
        self.inputs[position] = BlockInput(item.relation)

    def _settled(self, pending: Pending) -> bool:
        """Return whether the parameter could be bound: as one of the whole SELECT, or by what it equals anyway."""
        position = input_of(offsets(self.inputs), pending.column)
        own = self._own(position)
        if not self.inputs[position].left or any(rejects_nulls(p, own) for p in self.conjuncts):
            if self.inputs[position].left:
                self._make_inner(position)
            self.parameters.append(pending.parameter)
            return True
        value = self.bound(pending.parameter)
        if value is not None:
            self._join_on(pending, value)
        return value is not None

    def bind(self, pending: Pending, value: Scalar) -> None:
        """Binds what is pending to what it equals."""
        self.pending.remove(pending)
        self._join_on(pending, value)

    def _join_on(self, pending: Pending, value: Scalar) -> None:
        position = input_of(offsets(self.inputs), pending.column)
        self._add_to_on(position, [functions.comparison("=", pending.parameter.expression, value)])

    def bound(self, parameter: BoundParameter) -> Scalar | None:
        """Returns a column of an inner input that equals the parameter in every row of the SELECT; None without one."""
        starts = offsets(self.inputs)
        for known in self.parameters:
            inner = not any(self.inputs[i].left for i in inputs_used(starts, used_columns(known.expression)))
            same = known.expression.type.family == parameter.expression.type.family
            if known.name == parameter.name and known.single and parameter.single and inner and same:
                return known.expression
        return None


def _filtered_above(relation: Relation, part: Scalar) -> Block:
    columns = tuple(ColumnRef(i, t) for i, t in enumerate(column_types(relation)))
    return Block((BlockInput(relation),), part, columns)


def _condition(part: Scalar, starts: list[int], position: int) -> JoinCondition | None:
    """``own = other`` as a condition of the input at `position`."""
    pair = column_equality(part)
    if pair is None:
        return None
    sides = [input_of(starts, ref.index) for ref in pair]
    if sides.count(position) != 1:
        return None
    own, other = pair if sides[0] == position else pair[::-1]
    if not own.type.comparable or own.type.family != other.type.family:
        return None
    at = input_of(starts, other.index)
    return JoinCondition(own.index - starts[position], at, other.index - starts[at])


def refuse_pending(pending: Pending) -> UnsupportedQuery:
    """The error of a parameter that could not be bound."""
    parameter = pending.parameter
    if parameter.current is not None:
        return parameter.refused(
            f"{parameter.title} does not decide which rows there are, only what is joined to them (inside a LEFT JOIN,"
            " NOT EXISTS, or a value)."
        )
    name = parameter.name
    return parameter.refused(
        f"The parameter :{name} does not decide which rows there are, only what is joined to them (inside a LEFT JOIN,"
        f" NOT EXISTS, or a value): it is kept up to date only if :{name} is also compared with a column of the rows."
    )
