"""Comparisons of a join column with constants apply to the columns equal to it too.

``stories LEFT JOIN votes … WHERE stories.id = 3`` needs the votes of story 3 only, and a view without parameters would
otherwise keep all.
"""

from collections.abc import Iterator
from dataclasses import replace

from dataflow.plan.expressions import conjunction, conjuncts, used_columns
from dataflow.plan.nodes import Block, BlockInput, Relation, column_types
from dataflow.plan.rewriting import input_columns, offsets
from dataflow.plan.rules.join_conditions import Classes, equal_columns
from dataflow.plan.rules.push_predicates import filtered
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import Catalog, SqlType

_COMPARISONS = frozenset({"=", "<", "<=", ">", ">=", "in"})


def spread_constants(relation: Relation, catalog: Catalog) -> Relation:
    """Repeats comparisons with constants on equal columns: of inner inputs as conjuncts, of left ones inside them.

    A left input's row that does not meet them has no partner. Only where equal values are equal texts, so that the
    comparison cannot tell them apart.
    """
    del catalog
    if not isinstance(relation, Block):
        return relation
    classes = equal_columns(relation)
    parts = conjuncts(relation.predicate)
    columns = input_columns(relation)
    for part in list(parts):
        compared = _compared_column(part)
        if compared is not None:
            others = sorted(_equal(classes, compared.index) - {compared.index})
            parts += [_on(part, columns[c]) for c in others if _same_order(part, compared, columns[c].type)]
    inputs = tuple(_filtered_left(relation, item, parts) for item in relation.inputs)
    return Block(inputs, conjunction(parts), relation.columns)


def _compared_column(part: Scalar) -> ColumnRef | None:
    """The column of ``column < constant`` and the like."""
    if not isinstance(part, Call) or part.function not in _COMPARISONS or len(used_columns(part)) != 1:
        return None
    refs = [a for a in part.arguments if isinstance(a, ColumnRef)]
    constants = [a for a in part.arguments if isinstance(a, Literal)]
    if len(refs) != 1 or len(refs) + len(constants) != len(part.arguments) or refs[0].type.normal_form is not None:
        return None
    return refs[0]


def _same_order(part: Scalar, compared: ColumnRef, sql_type: SqlType) -> bool:
    """Equality is every collation's; an order is one's own."""
    assert isinstance(part, Call)
    return part.function in ("=", "in") or compared.type.collation == sql_type.collation


def _equal(classes: Classes, column: int) -> set[int]:
    return next((members for members in classes if column in members), {column})


def _on(part: Scalar, column: ColumnRef) -> Scalar:
    """The comparison of another column."""
    assert isinstance(part, Call)
    return replace(part, arguments=tuple(column if isinstance(a, ColumnRef) else a for a in part.arguments))


def _filtered_left(block: Block, item: BlockInput, parts: list[Scalar]) -> BlockInput:
    if not item.left:
        return item
    relation = item.relation
    for own, part in _own_comparisons(block, item, parts):
        column = ColumnRef(own, column_types(relation)[own])
        compared = _compared_column(part)
        if compared is not None and _same_order(part, compared, column.type):
            relation = filtered(relation, _on(part, column)) or relation
    return replace(item, relation=relation)


def _own_comparisons(block: Block, item: BlockInput, parts: list[Scalar]) -> Iterator[tuple[int, Scalar]]:
    """Own columns, each with a comparison that holds for what it is joined to."""
    starts = offsets(block.inputs)
    for condition in item.conditions:
        other = starts[condition.input] + condition.column
        for part in parts:
            compared = _compared_column(part)
            if compared is not None and compared.index == other:
                yield condition.own, part
