"""Equalities between inner inputs become join conditions, and inputs stand in an order in which each is connected."""

from collections.abc import Sequence
from dataclasses import replace

from dataflow.plan.expressions import column_equality, conjunction, conjuncts, equality, substitute, used_columns
from dataflow.plan.nodes import Block, BlockInput, JoinCondition, Relation
from dataflow.plan.rewriting import input_columns, input_of, inputs_used, offsets, widths
from dataflow.scalar import Call, ColumnRef, Scalar
from dataflow.schema import Catalog

#: Columns of the concatenated row that inner joins make equal.
Classes = list[set[int]]


def join_conditions(relation: Relation, catalog: Catalog) -> Relation:
    """Makes a loose block proper. An input that nothing connects to earlier ones is joined with all of them."""
    del catalog
    if not isinstance(relation, Block):
        return relation
    classes, others = _equalities(relation)
    others = [part for part in others if not _implied(part, classes)]
    others += _within_inputs(relation, classes)
    order = _connected_order(relation, classes)
    return _arranged(replace(relation, predicate=conjunction(others)), order, classes)


def equal_columns(block: Block) -> Classes:
    """Columns of the concatenated row that the inner joins of a loose block make equal."""
    return _equalities(block)[0]


def _equalities(block: Block) -> tuple[Classes, list[Scalar]]:
    """Classes of equal columns of inner inputs, and the conjuncts that say something else."""
    starts = offsets(block.inputs)
    classes: Classes = []
    others: list[Scalar] = []
    for part in conjuncts(block.predicate):
        pair = column_equality(part)
        if pair is None or not _joinable(block, starts, *pair):
            others.append(part)
            continue
        merged = {pair[0].index, pair[1].index}
        for known in [c for c in classes if c & merged]:
            merged |= known
            classes.remove(known)
        classes.append(merged)
    return classes, others


def _joinable(block: Block, starts: Sequence[int], left: ColumnRef, right: ColumnRef) -> bool:
    sides = {input_of(starts, left.index), input_of(starts, right.index)}
    inner = not any(block.inputs[i].left for i in sides)
    return len(sides) == 2 and inner and left.type.comparable and left.type.family == right.type.family


def _implied(part: Scalar, classes: Classes) -> bool:
    """Return whether a conjunct says no more than that a joined column is not NULL."""
    if not isinstance(part, Call) or part.function != "is not null":
        return False
    (column,) = part.arguments
    return isinstance(column, ColumnRef) and any(column.index in equal for equal in classes)


def _within_inputs(block: Block, classes: Classes) -> list[Scalar]:
    """Two columns of one input that are equal to the same column elsewhere are equal."""
    starts, columns = offsets(block.inputs), input_columns(block)
    found: list[Scalar] = []
    for equal in classes:
        first: dict[int, int] = {}
        for column in sorted(equal):
            representative = first.setdefault(input_of(starts, column), column)
            if representative != column:
                found.append(equality(columns[representative], columns[column]))
    return found


def _connected_order(block: Block, classes: Classes) -> list[int]:
    """Inner inputs, each connected to an earlier one if any is, then the left ones behind what they hang off.

    What this leaves open is by the inputs' own text, so that the same join is one plan however the SQL puts it.
    """
    starts = offsets(block.inputs)
    members = [{input_of(starts, c) for c in equal} for equal in classes]
    sorted_inputs = sorted(range(len(block.inputs)), key=lambda i: repr(block.inputs[i].relation))
    inner = [i for i in sorted_inputs if not block.inputs[i].left]
    order = inner[:1]
    waiting = inner[1:]
    while waiting:
        ready = next((i for i in waiting if any(i in m and m & set(order) for m in members)), waiting[0])
        waiting.remove(ready)
        order.append(ready)
    waiting = [i for i in sorted_inputs if block.inputs[i].left]
    while waiting:
        ready = next(i for i in waiting if hung_off(block, starts, i) <= set(order))
        waiting.remove(ready)
        order.append(ready)
    return order


def hung_off(block: Block, starts: Sequence[int], position: int) -> set[int]:
    """The inputs that the ON of the left input at `position` reads, but for itself."""
    item = block.inputs[position]
    return (inputs_used(starts, used_columns(item.on)) | {c.input for c in item.conditions}) - {position}


def _arranged(block: Block, order: list[int], classes: Classes) -> Block:
    """The block with its inputs in `order`, inner ones joined by `classes`."""
    starts, sizes = offsets(block.inputs), widths(block.inputs)
    moved: dict[int, int] = {}
    for old in order:
        for column in range(starts[old], starts[old] + sizes[old]):
            moved[column] = len(moved)
    equal = [{moved[c] for c in members} for members in classes]

    def move(ref: ColumnRef) -> Scalar:
        return ColumnRef(moved[ref.index], ref.type)

    inputs: list[BlockInput] = []
    for old in order:
        item = block.inputs[old]
        if item.left:
            others = [moved[starts[c.input] + c.column] for c in item.conditions]
            firsts = [_first_equal(other, equal) for other in others]
            conditions = [
                _condition(c.own, first, offsets(inputs)) for c, first in zip(item.conditions, firsts, strict=True)
            ]
        else:
            conditions = _conditions(inputs, sizes[old], equal)
        on = None if item.on is None else conjunction(substitute(p, move) for p in conjuncts(item.on))
        inputs.append(replace(item, conditions=tuple(sorted(set(conditions), key=condition_key)), on=on))

    parts = [substitute(p, move) for p in conjuncts(block.predicate)]
    return Block(tuple(inputs), conjunction(parts), tuple(substitute(c, move) for c in block.columns))


def _first_equal(column: int, classes: Sequence[set[int]]) -> int:
    """The first column that inner joins make equal to `column`, so that it does not matter which one the SQL names."""
    return next((min(equal) for equal in classes if column in equal), column)


def _condition(own: int, other: int, starts: Sequence[int]) -> JoinCondition:
    at = input_of(starts, other)
    return JoinCondition(own, at, other - starts[at])


def _conditions(earlier: Sequence[BlockInput], width: int, classes: Sequence[set[int]]) -> list[JoinCondition]:
    """How the next input, of `width` columns, hangs together with the earlier ones: by each class, to the first."""
    starts = offsets(earlier)
    begin = sum(widths(earlier))
    conditions = []
    for equal in classes:
        own = [c - begin for c in equal if begin <= c < begin + width]
        others = [c for c in equal if c < begin]
        if own and others:
            conditions.append(_condition(min(own), min(others), starts))
    return conditions


def condition_key(condition: JoinCondition) -> tuple[int, int, int]:
    """The order that conditions stand in."""
    return condition.own, condition.input, condition.column
