"""Functions in FROM whose rows are known, as rows of no table (`sources.row_without_table`).

Not here: which they are, and their values (`Dialect.row_functions`).
"""

from dataclasses import replace
from typing import Any

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import FALSE
from dataflow.plan.nodes import Union
from dataflow.scalar import Literal
from dataflow.sql.clauses import rows_of
from dataflow.sql.conditions import BoundParameter
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.scope import name_of
from dataflow.sql.join_syntax import require_only
from dataflow.sql.sources import Derived, Environment, row_without_table
from dataflow.sql.syntax.spans import span_of


def rows_of_function(node: Any, environment: Environment, binder: Binder) -> Derived:
    """Returns the rows of an item of FROM that is a function of constants. Its column has the name of the item; the
    parameters are those that queries around want of queries in FROM."""
    name = binder.written_name(node.this)
    if name not in environment.dialect.row_functions:
        raise UnsupportedQuery(f"{node.sql('postgres')} in FROM is not kept up to date.", span_of(node))
    require_only(node, "this", "alias")
    try:
        sql_type, values = environment.dialect.row_functions[name](node.this, binder)
    except UnsupportedQuery as error:
        error.span = error.span or span_of(node)
        raise
    row = row_without_table(environment, environment.wanted)
    if row is None:
        raise UnsupportedQuery("The SELECT reads no table.", span_of(node))
    rows = rows_of(row)
    if not values:
        rows, values = replace(rows, conjuncts=(FALSE,)), [None]
    sides = tuple(rows.block([*rows.columns(), Literal(value, sql_type)]) for value in values)
    parameters = tuple(BoundParameter(p, c, None) for p, c in zip(environment.wanted, rows.columns(), strict=True))
    alias = node.args.get("alias")
    column = (name if alias is None else name_of(alias.this), len(parameters), sql_type)
    return Derived(Union(sides) if len(sides) > 1 else sides[0], (column,), parameters)
