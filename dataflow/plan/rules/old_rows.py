"""Old rows of tables whose changes carry the replica identity only (`Table.identity`).

A change of such a table must find the old row where it is materialized, or evict the keys that it may be under. So a
chain that is an input of a block has a unique key among its columns, by which its store finds the row. What holds no
rows itself (a leaf, an aggregate, windows, top-k) is had by a key within the identity, whose change evicts that key
only, or is computed over a block that materializes the chain.

Not here: what a change does then (`engine.partial_images`).
"""

from dataclasses import replace

from dataflow.plan.expressions import sort_key
from dataflow.plan.nodes import Aggregate, Block, Chain, Relation, Source, TopK, Union, View, Window, passed_through
from dataflow.plan.rewriting import as_source, bottom_up
from dataflow.plan.rules.held_inputs import held
from dataflow.plan.rules.merge_blocks import projected
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog, Table
from dataflow.types import Columns


def with_old_rows(view: View, catalog: Catalog) -> View:
    """Returns the view with the old rows that changes of its tables need."""
    if not any(table.identity for table in catalog.tables.values()):
        return view
    relation = as_source(bottom_up(_inputs_with_keys, view.relation, catalog))
    return replace(view, relation=_materialized(relation, view.key_columns, catalog))


def _inputs_with_keys(relation: Relation, catalog: Catalog) -> Relation:
    match relation:
        case Block():
            return _with_keys(relation, catalog)
        case Union():
            return Union(tuple(_materialized(branch, (), catalog) for branch in relation.inputs))
        case Aggregate():
            return replace(relation, input=_materialized(relation.input, relation.group, catalog))
        case Window() | TopK():
            return replace(relation, input=_materialized(relation.input, relation.partition, catalog))
        case Chain():
            return relation


def _materialized(source: Source, columns: Columns, catalog: Catalog) -> Source:
    """The source, beneath a block that materializes it if it is a chain whose old rows would be missing: had by
    `columns` that are not all within the identity."""
    if not isinstance(source, Chain) or source.parameters is not None:
        # Of a parametric chain, keys are evicted in any case (`engine.partial_images`).
        return source
    table, plain = catalog.tables[source.table], passed_through(source)
    if not table.identity or (columns and all(plain.get(c) in table.identity for c in columns)):
        return source
    return _with_keys(held(source), catalog)


def _with_keys(block: Block, catalog: Catalog) -> Block:
    for position, item in enumerate(block.inputs):
        chain = item.relation
        if not isinstance(chain, Chain) or chain.parameters is not None:
            continue
        key = _key_of(catalog.tables[chain.table])
        if key is not None and not set(passed_through(chain).values()).issuperset(key):
            table = catalog.tables[chain.table]
            added = [ColumnRef(c, table.columns[c].type) for c in key]
            columns = tuple(sorted(dict.fromkeys((*chain.columns, *added)), key=sort_key))
            places = [columns.index(column) for column in chain.columns]
            block = projected(block, position, replace(chain, columns=columns), places)
    return block


def _key_of(table: Table) -> Columns | None:
    """The smallest unique key within the identity; None if old rows are whole, or there are none."""
    within = (key for key in table.keys if set(key) <= set(table.identity or ()))
    return min(within, key=len, default=None)
