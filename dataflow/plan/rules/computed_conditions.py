"""Equalities of computed values become join conditions where nothing else joins an input: the inputs compute them.

``orders LEFT JOIN days ON orders.placed_at::date = days.d::date`` compares each order with each day else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dataflow.plan.expressions import (
    column_equality,
    conjunction,
    conjuncts,
    equality,
    inline,
    shift,
    substitute,
    used_columns,
)
from dataflow.plan.nodes import Block, BlockInput, Chain, JoinCondition, Relation, column_types
from dataflow.plan.rewriting import inputs_used, offsets
from dataflow.plan.rules.join_conditions import equal_columns
from dataflow.scalar import Call, ColumnRef, Scalar
from dataflow.schema import Catalog, SqlType

#: An input, and what it is joined by, over the concatenated row.
_Side = tuple[int, Scalar]


def computed_conditions(relation: Relation, catalog: Catalog) -> Relation:
    """Gives inputs of a loose block the computed columns that they are joined by."""
    del catalog
    if not isinstance(relation, Block) or len(relation.inputs) < 2:
        return relation
    rewrite = _Rewrite(relation)
    rewrite.join_left_inputs()
    rewrite.join_inner_inputs()
    return rewrite.result() if any(rewrite.computed) else relation


@dataclass(slots=True)
class _Rewrite:
    """A block whose inputs get columns behind their own."""

    block: Block
    #: By input: what it computes, over the concatenated row.
    computed: list[list[Scalar]] = field(init=False)
    inputs: list[BlockInput] = field(init=False)
    #: Conjuncts, without and of new columns (by input and column).
    conjuncts: list[Scalar] = field(init=False)
    equalities: list[tuple[JoinCondition, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inputs = list(self.block.inputs)
        self.computed = [[] for _ in self.inputs]
        self.conjuncts = conjuncts(self.block.predicate)

    def join_left_inputs(self) -> None:
        """Takes the equalities out of the ON of each left input that has no condition."""
        for i, item in enumerate(self.block.inputs):
            if not item.left or item.conditions:
                continue
            rest, conditions = [], []
            for part in conjuncts(item.on):
                sides = self._sides(part)
                own = next((side for side in sides if side[0] == i), None)
                other = next((side for side in sides if side[0] != i), None)
                if own is None or other is None:
                    rest.append(part)
                else:
                    conditions.append(JoinCondition(self._column(own), other[0], self._column(other)))
            self.inputs[i] = replace(item, conditions=tuple(dict.fromkeys(conditions)), on=conjunction(rest))

    def join_inner_inputs(self) -> None:
        """Takes the equalities out of the predicate that join an inner input with which nothing else is joined."""
        starts, rest = offsets(self.block.inputs), list[Scalar]()
        joined = {i for equal in equal_columns(self.block) for i in inputs_used(starts, equal)}
        for part in self.conjuncts:
            sides = self._sides(part)
            places = {i for i, _ in sides}
            if not sides or any(self.block.inputs[i].left for i in places) or places <= joined:
                rest.append(part)
                continue
            joined |= places
            (one, first), (other, second) = sides
            self.equalities.append(
                (JoinCondition(self._column((one, first)), other, self._column((other, second))), one)
            )
        self.conjuncts = rest

    def _sides(self, part: Scalar) -> tuple[_Side, ...]:
        """The two inputs that an equality is about, with its sides; () if it is of columns, or something else."""
        if not isinstance(part, Call) or part.function != "=" or column_equality(part) is not None:
            return ()
        starts = offsets(self.block.inputs)
        sides = [(sorted(inputs_used(starts, used_columns(a))), a) for a in part.arguments]
        if any(len(inputs) != 1 for inputs, _ in sides) or sides[0][0] == sides[1][0]:
            return ()
        types = [a.type for _, a in sides]
        if not all(map(_plain, types)) or types[0].family != types[1].family:
            return ()
        return tuple((inputs[0], a) for inputs, a in sides)

    def _column(self, side: _Side) -> int:
        """The column of the input that a side is."""
        position, expression = side
        if isinstance(expression, ColumnRef):
            return expression.index - offsets(self.block.inputs)[position]
        found = self.computed[position]
        if expression not in found:
            found.append(expression)
        return len(column_types(self.block.inputs[position].relation)) + found.index(expression)

    def result(self) -> Block:
        """The block whose inputs have their computed columns, with each column reference moved to its new place."""
        starts, inputs = offsets(self.block.inputs), self.inputs
        for i, (start, more) in enumerate(zip(starts, self.computed, strict=True)):
            if more:
                relation = _with(inputs[i].relation, [shift(e, -start) for e in more])
                inputs[i] = replace(inputs[i], relation=relation)
        moved, places = dict[int, int](), offsets(inputs)
        for old, new, item in zip(starts, places, self.block.inputs, strict=True):
            moved |= {old + c: new + c for c in range(len(column_types(item.relation)))}

        def move(expression: Scalar) -> Scalar:
            return substitute(expression, lambda ref: ColumnRef(moved[ref.index], ref.type))

        inputs = [item if item.on is None else replace(item, on=move(item.on)) for item in inputs]
        parts = [move(part) for part in self.conjuncts]
        for condition, position in self.equalities:
            own = column_types(inputs[position].relation)[condition.own]
            other = column_types(inputs[condition.input].relation)[condition.column]
            left = ColumnRef(places[position] + condition.own, own)
            parts.append(equality(left, ColumnRef(places[condition.input] + condition.column, other)))
        return Block(tuple(inputs), conjunction(parts), tuple(map(move, self.block.columns)))


def _plain(sql_type: SqlType) -> bool:
    """Return whether equal values of a type are one text, whatever computes them."""
    return sql_type.comparable and sql_type.normal_form is None and not sql_type.is_string


def _with(relation: Relation, computed: Sequence[Scalar]) -> Relation:
    """The relation with further columns, over its own."""
    if isinstance(relation, Chain):
        return replace(relation, columns=(*relation.columns, *(inline(e, relation.columns) for e in computed)))
    columns = [ColumnRef(i, sql_type) for i, sql_type in enumerate(column_types(relation))]
    return Block((BlockInput(relation),), None, (*columns, *computed))
