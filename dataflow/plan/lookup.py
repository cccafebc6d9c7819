"""The statements that look rows up upstream: a chain's rows, or an aggregate's state rows, for a list of keys.

Keys arrive as one array of texts per key column ($1, $2 …), each text a normal form. Columns stand bare in the
conditions and casts only at the parameters, so that the upstream can use its indexes. Integer keys are compared as
``int8`` whatever the column's width: a key may come from a wider column that it is joined with.

Not here: the layout of state rows (`ops.aggregate_state`), versions (`service.upstream`).
"""

from collections.abc import Callable

from dataflow.plan.expressions import inline
from dataflow.plan.nodes import Aggregate, AggregateCall, AggregateFunction, Block, Chain, Relation, View
from dataflow.plan.render import quote, render, type_name
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.schema import Catalog, SqlType
from dataflow.types import Columns
from dataflow.values import INTEGERS, normal_form

Name = Callable[[int], str]


def lookup_sql(relation: Chain | Aggregate, columns: Columns, catalog: Catalog) -> str:
    """The statement for keys on `columns` of `relation`; () is everything, without parameters.

    The columns must be plain columns of the base table (`routes.parent_columns`); an aggregate is one over a chain.
    """
    chain = relation.input if isinstance(relation, Aggregate) else relation
    if not isinstance(chain, Chain):
        raise ValueError("only what reads one table is looked up")
    table = catalog.tables[chain.table]

    def name(index: int) -> str:
        return f"t.{quote(table.columns[index].name)}"

    keys = [_column(chain, c) for c in _chain_columns(relation, columns)]
    if isinstance(relation, Aggregate):
        selected, grouped = _state_columns(relation, chain, name)
    else:
        selected, grouped = [render(c, name) for c in chain.columns], []
    join, conditions = _key_conditions(keys, name)
    if chain.predicate is not None:
        conditions.append(render(chain.predicate, name) if not conditions else f"({render(chain.predicate, name)})")
    sql = f"SELECT {', '.join(selected)} FROM {chain.table} t{join}"
    sql += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return sql + (f" GROUP BY {', '.join(grouped)}" if grouped else "")


def _chain_columns(relation: Chain | Aggregate, columns: Columns) -> Columns:
    return tuple(relation.group[c] for c in columns) if isinstance(relation, Aggregate) else columns


def _column(chain: Chain, column: int) -> ColumnRef:
    expression = chain.columns[column]
    if not isinstance(expression, ColumnRef):
        raise ValueError("a computed column cannot be looked up by")
    return expression


# --- keys -----------------------------------------------------------------------------------------------------------


def _key_conditions(keys: list[ColumnRef], name: Name) -> tuple[str, list[str]]:
    """What to join, and what to ask for, so that the rows of the keys $1 … are found."""
    if not keys:
        return "", []
    if len(keys) == 1:
        return "", [f"{name(keys[0].index)} = ANY($1::{_key_type(keys[0].type)}[])"]
    arrays = ", ".join(f"${i}::{_key_type(key.type)}[]" for i, key in enumerate(keys, 1))
    aliases = ", ".join(f"k{i}" for i in range(1, len(keys) + 1))
    conditions = " AND ".join(f"{name(key.index)} = k.k{i}" for i, key in enumerate(keys, 1))
    # Keys are distinct, so no row is found twice.
    return f" JOIN unnest({arrays}) AS k({aliases}) ON {conditions}", []


def _key_type(sql_type: SqlType) -> str:
    if sql_type.kind == "base":
        if sql_type.name in INTEGERS:
            return "int8"
        if sql_type.name == "varchar":
            return "text"
    return type_name(sql_type)


# --- state rows -----------------------------------------------------------------------------------------------------


def _state_columns(aggregate: Aggregate, chain: Chain, name: Name) -> tuple[list[str], list[str]]:
    """What to select, and what to group by."""

    def sql(expression: Scalar) -> str:
        return render(inline(expression, chain.columns), name)

    grouped = [render(chain.columns[c], name) for c in aggregate.group]
    selected = list(grouped)
    for c in aggregate.group:
        grouped += _grouped_by_text(chain.columns[c], render(chain.columns[c], name))
    for call in aggregate.calls:
        columns, by = _partial_columns(call, sql)
        selected += columns
        grouped += by
    selected.append("count(*)")
    return selected, list(dict.fromkeys(grouped))


def _partial_columns(call: AggregateCall, sql: Callable[[Scalar], str]) -> tuple[list[str], list[str]]:
    """A call's columns of a state row, and those of them that are grouped by."""
    if call.argument is None:
        return ["count(*)"], []
    argument = sql(call.argument)
    match call.function:
        case AggregateFunction.COUNT:
            return [f"count({argument})"], []
        case AggregateFunction.MIN | AggregateFunction.MAX:
            # A constant is no grouping; as a number it would even be the place of a column.
            return [argument, f"count({argument})"], _grouped_by_text(call.argument, argument)
    if call.argument.type.name in INTEGERS:
        return [f"count({argument})", f"sum({argument})"], []
    # Sums of numeric are kept by scale; NaN and infinities have none, and are their own class.
    kind = f"coalesce(scale({argument})::text, ({argument})::text)"
    return [kind, f"count({argument})", f"sum({argument})"], [kind]


def _grouped_by_text(argument: Scalar, sql: str) -> list[str]:
    """How equal values of a group or of a MIN or MAX are kept apart: 1.0 and 1.00 each go away by their own text."""
    if isinstance(argument, Literal):
        return []
    return [sql] if normal_form(argument.type) is None else [sql, f'({sql})::text COLLATE "C"']


# --- what a plan reads ----------------------------------------------------------------------------------------------


def tables_read(view: View) -> frozenset[str]:
    """The base tables below a view."""
    return _tables(view.relation)


def _tables(relation: Relation) -> frozenset[str]:
    if isinstance(relation, Chain):
        return frozenset((relation.table,))
    if isinstance(relation, Block):
        return frozenset().union(*(_tables(i.relation) for i in relation.inputs))
    return _tables(relation.input)


def unsupported_by_index(relation: Chain | Aggregate, columns: Columns, catalog: Catalog) -> str | None:
    """A warning, if no index of the upstream begins with a column that a lookup is by."""
    chain = relation.input if isinstance(relation, Aggregate) else relation
    assert isinstance(chain, Chain)
    table = catalog.tables[chain.table]
    keys = {_column(chain, c).index for c in _chain_columns(relation, columns)}
    if not keys or any(index[:1] and index[0] in keys for index in table.indexes):
        return None
    names = ", ".join(table.columns[c].name for c in sorted(keys))
    return f"no index of {chain.table} begins with {names}: each lookup reads the whole table"
