"""The end of a view's ORDER BY: a unique key of the table that it orders by, so that few rows tie and a page can end
between any two of them.

Not here: whether a key's rows are kept in parts (`dataflow.engine.graph`).
"""

from collections.abc import Sequence
from dataclasses import replace

from dataflow.plan.nodes import Block, Chain, OrderTerm, View
from dataflow.plan.rules.rewriting import input_of, offsets
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog
from dataflow.values import orderable


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
    columns = list(relation.columns)
    order = list(view.order)
    for ref in _key(relation, terms, catalog):
        if ref not in columns:
            columns.append(ref)
        place = columns.index(ref)
        if all(t.column != place for t in order):
            order.append(OrderTerm(place))
    return replace(view, relation=replace(relation, columns=tuple(columns)), order=tuple(order))


def _key(relation: Chain | Block, terms: Sequence[ColumnRef], catalog: Catalog) -> list[ColumnRef]:
    """A unique key of the one table that the terms are columns of, over the relation's input; () if there is none."""
    if isinstance(relation, Chain):
        return _table_key(relation.table, catalog)
    starts = offsets(relation.inputs)
    (position, *others) = {input_of(starts, ref.index) for ref in terms}
    item = relation.inputs[position]
    if others or item.left or not isinstance(item.relation, Chain):
        return []
    own = list(item.relation.columns)
    key = _table_key(item.relation.table, catalog)
    return [ColumnRef(starts[position] + own.index(ref), ref.type) for ref in key] if set(key) <= set(own) else []


def _table_key(table: str, catalog: Catalog) -> list[ColumnRef]:
    columns, keys = catalog.tables[table].columns, catalog.tables[table].keys
    refs = [ColumnRef(c, columns[c].type) for c in keys[0]] if keys else []
    return refs if all(orderable(ref.type) for ref in refs) else []
