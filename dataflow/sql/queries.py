"""A query at any level, the view's own or in FROM: a SELECT, a UNION and the like, or either in parentheses."""

from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.nodes import column_types
from dataflow.scalar import ColumnRef, Scalar
from dataflow.sql.clauses import Above, Lowered, Output, Sorted, finished, rows_of, sorted_by
from dataflow.sql.empty_groups import grouped_by_parameters, one_row
from dataflow.sql.expressions.scope import name_of
from dataflow.sql.join_syntax import values_query
from dataflow.sql.limits import Limit, limited
from dataflow.sql.select import PLAIN, SelectClauses, SelectLowering, shown_column
from dataflow.sql.set_operations import combined
from dataflow.sql.sources import Derived, Environment
from dataflow.sql.syntax.spans import span_of

_OPTIONS = ("order", "limit", "offset", "with_")


def lower_query(node: exp.Expr, environment: Environment, use: SelectClauses = PLAIN) -> Lowered:
    """The relation that a query means, with its order if it is the view's own."""
    node = unwrapped(node)
    if isinstance(node, exp.SetOperation):
        return _lower_set_operation(node, environment, use)
    if isinstance(node, exp.Select):
        return SelectLowering(node, environment, use).lower()
    if isinstance(node, exp.Values):
        return lower_query(values_query(node, environment.dialect.names_values), environment, use)
    raise UnsupportedQuery(f"{node.key.upper()} is not kept up to date.", span_of(node))


def unwrapped(node: exp.Expr) -> exp.Expr:
    """A query without its parentheses; ORDER BY, LIMIT and WITH outside of them belong to it."""
    while isinstance(node, exp.Subquery):
        inner = node.this
        for option in _OPTIONS:
            if node.args.get(option) is None:
                continue
            if inner.args.get(option) is not None:
                raise InvalidQuery(
                    "A query in parentheses has its ORDER BY, LIMIT, OFFSET or WITH once.", span_of(node)
                )
            inner.set(option, node.args[option])
        node = inner
    return node


def lower_derived(node: exp.Expr, environment: Environment, *, ordered: bool = False) -> Derived:
    """A query in FROM, WITH or an expression."""
    lowered = lower_query(node, environment, SelectClauses(ordered=ordered))
    types = column_types(lowered.relation)
    columns = tuple((output, column, types[column]) for output, column in lowered.outputs)
    if lowered.scalar and lowered.parameters:
        relation, default = grouped_by_parameters(lowered)
        return Derived(relation, columns, lowered.parameters, default is not None, default)
    return Derived(lowered.relation, columns, lowered.parameters, one_row(lowered), order=lowered.order)


# --- UNION, INTERSECT, EXCEPT ---------------------------------------------------------------------------------------


def _lower_set_operation(node: Any, environment: Environment, use: SelectClauses) -> Lowered:
    environment = environment.extended(node.args.get("with_"))
    branch = SelectClauses(unsettled=True)
    left, right = (lower_query(side, environment, branch) for side in (node.this, node.expression))
    lowered = combined(node, left, right, environment.catalog)
    types = column_types(lowered.relation)
    outputs = tuple(Output(name, ColumnRef(column, types[column]), None) for name, column in lowered.outputs)
    order = node.args.get("order")
    terms = tuple(_sorted(t, outputs) for t in order.expressions) if order is not None else ()
    rows, above = rows_of(lowered.relation), Above(outputs, terms, lowered.parameters)
    limit = Limit.of(node)
    if limit.given and (limit.ties or not use.top):
        rows, above = limited(rows, above, limit)
    return finished(rows, above, scalar=lowered.scalar, ordered=use.top or use.ordered, keyless=lowered.keyless)


def _sorted(term: Any, outputs: tuple[Output, ...]) -> Sorted:
    return sorted_by(_shown(term.this, outputs), term)


def _shown(node: Any, outputs: tuple[Output, ...]) -> Scalar:
    """ORDER BY behind a UNION names columns that are shown, or their numbers."""
    found = shown_column(node, outputs, "ORDER BY")
    if found is not None:
        return found
    if isinstance(node, exp.Column) and node.args.get("table") is None:
        raise InvalidQuery(f'No column "{name_of(node.this)}" is shown.', span_of(node))
    raise InvalidQuery("Behind UNION, INTERSECT or EXCEPT, ORDER BY names columns that are shown.", span_of(node))
