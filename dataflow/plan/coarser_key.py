"""Fewer, larger keys: a view ``a = :a AND b = :b`` materialized by ``a`` alone, where few rows have the same ``a``.

A client that reads one pair soon reads others with the same ``a`` (has this reader voted for, saved or hidden it, for
each story of a list). By pairs, each is a key of its own, looked up and cached even without a row; by ``a``, one read
fills all of them. Reads pick their rows of a key, which are sorted by the other columns.

*Invariant*: each read is answered as before.

Not here: how reads pick rows (`service.leaf_store`).
"""

from dataclasses import replace

from dataflow.plan.expressions import conjunction, conjuncts
from dataflow.plan.nodes import Chain, Parameter, View, passed_through
from dataflow.scalar import Call, ColumnRef
from dataflow.schema import Catalog, Spread, SqlType, Table

#: Rows of a key, on average and at most: filling one must not take long, nor be much more than what is read of it.
MEAN_ROWS, MOST_ROWS = 256, 20_000
_BOOL = SqlType("bool", "bool")


def with_coarser_key(view: View, catalog: Catalog) -> View:
    """The view, by the one of its parameters with the fewest keys whose rows are still few, if there is one."""
    chain = view.relation
    if not isinstance(chain, Chain) or chain.parameters is not None:
        return view
    if len(view.parameters) < 2 or not _picks_rows(view):
        return view
    table, plain = catalog.tables[chain.table], passed_through(chain)
    found: list[tuple[float, Parameter]] = []
    for parameter in view.parameters:
        others = [p for p in view.parameters if p != parameter]
        spread = _few_rows(table, plain.get(parameter.column))
        if spread is not None and not parameter.many and all(_can_pick(chain, p) for p in others):
            found.append((spread.mean, parameter))
    if not found:
        return view
    _, key = max(found, key=lambda each: each[0])
    within = tuple(p for p in view.parameters if p != key)
    return replace(view, parameters=(key,), within=within, relation=_without_nulls(chain, within, table))


def _picks_rows(view: View) -> bool:
    """Return whether all that a read says is which rows it wants."""
    cut = view.limit_rows is not None or view.offset_rows or view.limit_parameter or view.offset_parameter
    distinct = len(set(view.key_columns)) == len(view.parameters)
    return not (view.order or view.range_columns or cut) and distinct and view.rows_for_null == ()


def _few_rows(table: Table, column: int | None) -> Spread | None:
    """How many rows a value of a column has, if those are few, and an index finds them."""
    spread = None if column is None else table.spreads.get(column)
    if spread is None or spread.mean > MEAN_ROWS or spread.most > MOST_ROWS:
        return None
    return spread if any(index[:1] == (column,) for index in (*table.indexes, *table.keys)) else None


def _can_pick(chain: Chain, parameter: Parameter) -> bool:
    column = chain.columns[parameter.column]
    return isinstance(column, ColumnRef) and column.type.orderable


def _without_nulls(chain: Chain, within: tuple[Parameter, ...], table: Table) -> Chain:
    """The rows that can be picked."""
    picking = [ref for p in within if isinstance(ref := chain.columns[p.column], ColumnRef)]
    there = [Call("is not null", (ref,), _BOOL) for ref in picking if not table.columns[ref.index].not_null]
    return replace(chain, predicate=conjunction([*conjuncts(chain.predicate), *there]))
