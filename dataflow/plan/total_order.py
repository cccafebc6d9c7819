"""The end of a view's ORDER BY: a unique key of the table that it orders by, so that few rows tie and a page can end
between any two of them.

Not here: whether a key's rows are materialized in parts (`dataflow.engine.graph`).
"""

from collections.abc import Sequence
from dataclasses import replace

from dataflow.plan.expressions import substitute
from dataflow.plan.nodes import Block, Chain, OrderTerm, View
from dataflow.plan.rewriting import input_of, offsets
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog


def with_total_order(view: View, catalog: Catalog) -> View:
    """The view with tie-breaking terms behind its ORDER BY, where all of that is plain columns of one table.

    What is grouped, united or cut by a LIMIT below keeps its order.
    """
    relation = view.relation
    if not view.order or not isinstance(relation, Chain | Block):
        return view
    terms = [c for t in view.storage_order if isinstance(c := relation.columns[t.column], ColumnRef)]
    if len(terms) != len(view.storage_order):
        return view
    if isinstance(relation, Chain):
        key = _table_key(relation.table, catalog)
    else:
        relation, key = _with_key(relation, terms, catalog)
    columns = list(relation.columns)
    order = list(view.order)
    for ref in key:
        if ref not in columns:
            columns.append(ref)
        place = columns.index(ref)
        if all(t.column != place for t in order):
            order.append(OrderTerm(place))
    return replace(view, relation=replace(relation, columns=tuple(columns)), order=tuple(order))


def _with_key(block: Block, terms: Sequence[ColumnRef], catalog: Catalog) -> tuple[Block, list[ColumnRef]]:
    """The block with a unique key of the one table that the terms are columns of in its joined row, and where it is."""
    starts = offsets(block.inputs)
    (position, *others) = {input_of(starts, ref.index) for ref in terms}
    item = block.inputs[position]
    if others or item.left or not isinstance(item.relation, Chain):
        return block, []
    own = item.relation.columns
    key = _table_key(item.relation.table, catalog)
    missing = tuple(ref for ref in key if ref not in own)
    end = starts[position] + len(own)

    def moved(ref: ColumnRef) -> ColumnRef:
        return ColumnRef(ref.index + len(missing), ref.type) if ref.index >= end else ref

    wider = replace(item, relation=replace(item.relation, columns=(*own, *missing)))
    inputs = (*block.inputs[:position], wider, *block.inputs[position + 1 :])
    places = [ColumnRef(starts[position] + (*own, *missing).index(ref), ref.type) for ref in key]
    return (
        Block(
            tuple(i if i.on is None else replace(i, on=substitute(i.on, moved)) for i in inputs),
            None if block.predicate is None else substitute(block.predicate, moved),
            tuple(substitute(c, moved) for c in block.columns),
        ),
        places,
    )


def _table_key(table: str, catalog: Catalog) -> list[ColumnRef]:
    """The first unique key of a table, if its order is known; else nothing."""
    columns, keys = catalog.tables[table].columns, catalog.tables[table].keys
    refs = [ColumnRef(c, columns[c].type) for c in keys[0]] if keys else []
    return refs if all(ref.type.orderable for ref in refs) else []
