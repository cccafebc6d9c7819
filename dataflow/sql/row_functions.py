"""Functions in FROM of constants and parameters, as rows of no table (`sources.row_without_table`).

Rows of constants are a union. Those of parameters are the row of the parameters' values, joined with the places that a
row of the function may have, of which each has its value computed.

Not here: which functions they are, and their values (`Dialect.row_functions`).
"""

from dataclasses import replace
from typing import Any

from sqlglot import exp

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import BOOL, FALSE, INT4, conjunction
from dataflow.plan.nodes import Aggregate, Block, BlockInput, Relation, Source, Union
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.sql.clauses import Rows, rows_of
from dataflow.sql.conditions import BoundParameter
from dataflow.sql.expressions.aggregates import refuse_aggregate
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.dialect import ComputedRows, KnownRows
from dataflow.sql.expressions.scope import Scope, name_of
from dataflow.sql.free_parameters import FreeParameters, check_reading, is_list, places, refuse_parameter
from dataflow.sql.join_syntax import require_only
from dataflow.sql.sources import Derived, Environment, row_without_table
from dataflow.sql.syntax.parse import parameter_name
from dataflow.sql.syntax.spans import span_of

#: Places have two digits, so that there need not be a relation for each.
_DIGITS = 20


def rows_of_function(node: Any, environment: Environment) -> Derived:
    """Returns the rows of an item of FROM that is a function of constants and parameters. Its column has the name of
    the item; its parameters are those in it, and those that queries around want of queries in FROM."""
    read = {parameter_name(p) for p in node.find_all(exp.Placeholder)}
    free = {p: t for p, t in environment.free.items() if p in read or p in environment.below}
    binder = _over_parameters(free, environment)
    name = binder.written_name(node.this)
    if name not in environment.dialect.row_functions:
        raise UnsupportedQuery(f"{node.sql('postgres')} in FROM is not kept up to date.", span_of(node))
    require_only(node, "this", "alias")
    try:
        found = environment.dialect.row_functions[name](node.this, binder)
    except UnsupportedQuery as error:
        error.span = error.span or span_of(node)
        raise
    row, none = row_without_table(environment, free), row_without_table(environment, {})
    if row is None or none is None:
        raise UnsupportedQuery("The SELECT reads no table.", span_of(node))
    rows = rows_of(row)
    relation = _known(rows, found) if isinstance(found, KnownRows) else _computed(rows, rows_of(none), found)
    columns = zip(sorted(free), rows.columns(), strict=True)
    parameters = tuple(BoundParameter(p, column, None) for p, column in columns)
    alias = node.args.get("alias")
    column = (name if alias is None else name_of(alias.this), len(parameters), found.type)
    return Derived(relation, (column,), parameters)


def _over_parameters(free: FreeParameters, environment: Environment) -> Binder:
    """Binds expressions over the row of the parameters."""

    def on_parameter(node: exp.Placeholder, binder: Binder) -> Scalar:
        name = parameter_name(node)
        if name not in free or is_list(node) != (free[name].kind == "array"):
            raise refuse_parameter(node, binder)
        check_reading(node, free[name], binder)
        return ColumnRef(places(free, 0)[name], free[name])

    return Binder(
        environment.sql,
        Scope(),
        environment.dialect,
        refuse_aggregate,
        catalog=environment.catalog,
        on_parameter=on_parameter,
    )


def _known(rows: Rows, found: KnownRows) -> Source:
    values = found.values
    if not values:
        rows, values = replace(rows, conjuncts=(FALSE,)), (None,)
    sides = tuple(rows.block([*rows.columns(), Literal(value, found.type)]) for value in values)
    return Union(sides) if len(sides) > 1 else sides[0]


def _computed(row: Rows, none: Rows, found: ComputedRows) -> Relation:
    """Returns an aggregate, which changes no rows since no value is there twice: what they are joined with finds them
    stored, instead of having them computed again."""
    digits = Union(tuple(none.block([_number(n)]) for n in range(_DIGITS)))
    width = len(row.columns())
    first, last = (ColumnRef(width + i, INT4) for i in range(2))
    group = Call("*", (first, _number(_DIGITS)), INT4)
    value = found.value_at(Call("+", (group, last), INT4))
    # Where the first of a group of places has no value, the others need not be looked at.
    has_value = conjunction(Call("is not null", (v,), BOOL) for v in (found.value_at(group), value))
    inputs = (*row.inputs, BlockInput(digits), BlockInput(digits))
    block = Block(inputs, has_value, (*row.columns(), value))
    return Aggregate(block, tuple(range(width + 1)), ())


def _number(n: int) -> Literal:
    return Literal(str(n), INT4)
