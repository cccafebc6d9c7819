"""Access of a relation's lookups to its table: the table, the columns that keys are of, indexes that serve them.

Not here: the statements (`dataflow.lookups`).
"""

from dataflow.plan.expressions import used_columns
from dataflow.plan.nodes import Aggregate, Chain, OrderTerm, Relation, View, inputs_of
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog
from dataflow.types import Columns


def chain_of(relation: Relation) -> Chain:
    """The chain that a lookup of `relation` reads. ValueError if it is none."""
    chain = relation.input if isinstance(relation, Aggregate) else relation
    if not isinstance(chain, Chain):
        raise ValueError("only what reads one table is looked up")
    return chain


def key_columns(relation: Chain | Aggregate, columns: Columns) -> list[ColumnRef]:
    """The base table's columns that keys on `columns` of `relation` are of."""
    return [_column(chain_of(relation), c) for c in _chain_columns(relation, columns)]


def _chain_columns(relation: Chain | Aggregate, columns: Columns) -> Columns:
    return tuple(relation.group[c] for c in columns) if isinstance(relation, Aggregate) else columns


def _column(chain: Chain, column: int) -> ColumnRef:
    expression = chain.columns[column]
    if not isinstance(expression, ColumnRef):
        raise ValueError("a computed column cannot be looked up by")
    return expression


def tables_read(view: View) -> frozenset[str]:
    """The base tables below a view."""
    return _tables(view.relation)


def _tables(relation: Relation) -> frozenset[str]:
    if isinstance(relation, Chain):
        return frozenset((relation.table,))
    return frozenset().union(*(_tables(i) for i in inputs_of(relation)))


def unsupported_by_index(relation: Chain | Aggregate, columns: Columns, catalog: Catalog) -> str | None:
    """A warning, if no index of the upstream begins with a column that a lookup is by."""
    chain = relation.input if isinstance(relation, Aggregate) else relation
    assert isinstance(chain, Chain)
    table = catalog.tables[chain.table]
    keys = {_column(chain, c).index for c in _chain_columns(relation, columns)}
    if chain.parameters is not None:
        # A condition with a parameter may be one that an index serves.
        keys = {c for c in keys | used_columns(chain.predicate) if c < chain.parameters.first}
    if not keys or any(index[:1] and index[0] in keys for index in table.indexes):
        return None
    names = ", ".join(table.columns[c].name for c in sorted(keys))
    return f"no index of {chain.table} begins with {names}: each lookup reads the whole table"


def unordered_by_index(chain: Chain, columns: Columns, first: OrderTerm, catalog: Catalog) -> str | None:
    """A warning, if no index of the upstream has a key's rows in an order that begins with `first`."""
    table = catalog.tables[chain.table]
    own = len(table.columns) if chain.parameters is None else chain.parameters.first
    keys = {ref.index for c in columns if (ref := _column(chain, c)).index < own}
    term = chain.columns[first.column]
    if any(keys.issuperset(key) for key in table.keys):
        return None
    wanted = term.index if isinstance(term, ColumnRef) else None
    for index in table.indexes:
        if set(index[: len(keys)]) == keys and index[len(keys) : len(keys) + 1] == (wanted,):
            return None
    names = [table.columns[c].name for c in sorted(keys)]
    order = "a computed column" if wanted is None else table.columns[wanted].name
    behind = f"{', '.join(names)}, then " if names else ""
    return f"no index of {chain.table} begins with {behind}{order}: each part is sorted anew"
