"""Which columns of a relation are never NULL."""

from collections.abc import Callable

from dataflow.plan.at_read import with_rows
from dataflow.plan.expressions import conjuncts, rejects_nulls
from dataflow.plan.nodes import (
    Aggregate,
    AggregateFunction,
    Block,
    Chain,
    Relation,
    TopK,
    Union,
    View,
    Window,
    column_types,
)
from dataflow.plan.parametric import chain_table
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.schema import Catalog, Column

_COUNTS = frozenset({AggregateFunction.COUNT, AggregateFunction.COUNT_ROWS})
_NUMBERS = frozenset({"row_number", "rank", "dense_rank", "count"})
_ALWAYS = frozenset(
    {
        "is null",
        "is not null",
        "is true",
        "is not true",
        "is false",
        "is not false",
        "is distinct from",
        "is not distinct from",
    }
)
#: Functions that are NULL only if an argument is.
_STRICT = frozenset({"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "||", "and", "or", "not", "length"})


def never_null(relation: Relation, column: int, catalog: Catalog) -> bool:
    """Return whether no row of the relation has NULL in a column."""
    match relation:
        case Chain():
            table = chain_table(relation, catalog)
            return _over(relation.columns[column], relation.predicate, lambda c: table.columns[c].not_null)
        case Block():
            return _over(relation.columns[column], relation.predicate, lambda c: _never_null_of(relation, c, catalog))
        case Union():
            return all(never_null(branch, column, catalog) for branch in relation.inputs)
        case Aggregate():
            if column < len(relation.group):
                return never_null(relation.input, relation.group[column], catalog)
            return relation.calls[column - len(relation.group)].function in _COUNTS
        case Window():
            width = len(column_types(relation.input))
            if column < width:
                return never_null(relation.input, column, catalog)
            return relation.calls[column - width].function in _NUMBERS
        case TopK():
            return never_null(relation.input, column, catalog)


def never_null_output(view: View, catalog: Catalog) -> frozenset[int]:
    """Which columns of a view's answers are never NULL, by number."""
    found = frozenset(n for n, output in enumerate(view.output) if never_null(view.relation, output.column, catalog))
    if view.at_read is None:
        return found
    types = column_types(view.relation)
    rows = [Column(output.name, types[output.column], n in found) for n, output in enumerate(view.output)]
    return never_null_output(view.at_read, with_rows(rows, catalog))


def never_null_value(expression: Scalar, column: Callable[[int], bool]) -> bool:
    """Return whether an expression is never NULL; `column` says so of a column."""
    if isinstance(expression, ColumnRef):
        return column(expression.index)
    if isinstance(expression, Literal):
        return expression.value is not None
    values = [never_null_value(a, column) for a in expression.arguments]
    if expression.function in _ALWAYS:
        return True
    if expression.function == "coalesce":
        return any(values)
    if expression.function == "case":
        return values[-1] and all(values[1:-1:2])
    return expression.function in _STRICT and all(values)


def _over(expression: Scalar, predicate: Scalar | None, column: Callable[[int], bool]) -> bool:
    parts = conjuncts(predicate)
    return never_null_value(expression, lambda c: column(c) or any(rejects_nulls(p, {c}) for p in parts))


def _never_null_of(block: Block, column: int, catalog: Catalog) -> bool:
    """Return whether a column of the joined row is never NULL."""
    for item in block.inputs:
        width = len(column_types(item.relation))
        if column < width:
            return not item.left and never_null(item.relation, column, catalog)
        column -= width
    raise IndexError(column)
