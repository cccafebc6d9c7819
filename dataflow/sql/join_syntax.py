"""Syntax of FROM's items and joins: which of them there are, and those that stand for others.

Not here: their meaning (`from_clause`).
"""

from functools import reduce
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.sql.syntax.spans import span_of

#: Of VALUES, each of which is a relation of its own.
_MOST_ROWS = 64


def is_comma(join: exp.Join) -> bool:
    """Return whether an item stands behind a comma."""
    return not any(join.args.get(k) for k in ("on", "using", "side", "kind", "method"))


def is_join(node: Any) -> bool:
    """Return whether what stands in parentheses is a table or join, and no query."""
    return isinstance(node, exp.Table) or (
        isinstance(node, exp.Subquery) and bool(node.args.get("alias") or node.args.get("joins") or is_join(node.this))
    )


def require_only(node: exp.Expr, *known: str) -> None:
    """Refuses an item with other clauses than those known."""
    unknown = [k for k, v in node.args.items() if v and k not in known]
    if unknown:
        raise UnsupportedQuery(f"{node.sql('postgres')} in FROM is not kept up to date.", span_of(node))


def lateral_of(node: exp.Join) -> exp.Select | None:
    """The right side of a LEFT JOIN whose ON has a subquery, as a query that is joined with every row by LATERAL: its
    rows that meet the condition. None if it is another join."""
    item, on = node.this, node.args.get("on")
    named = isinstance(item, exp.Subquery) or isinstance(item.this, exp.Identifier)
    named = named and not is_join_tree(item)
    if str(node.args.get("side")).upper() != "LEFT" or not named or on is None or on.find(exp.Query) is None:
        return None
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=item.copy()), where=exp.Where(this=on.copy()))


def is_join_tree(item: exp.Expr) -> bool:
    """Return whether an item is several joined ones."""
    return bool(item.args.get("joins")) or (isinstance(item, exp.Subquery) and is_join(item.this))


def values_query(node: exp.Values, named: bool) -> exp.Query:
    """VALUES as a UNION ALL of SELECTs without FROM. `named`: their columns are column1, column2 and so on."""
    if len(node.expressions) > _MOST_ROWS:
        raise UnsupportedQuery(f"VALUES of more than {_MOST_ROWS} rows is not kept up to date.", span_of(node))
    rows = [list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    if len({len(row) for row in rows}) > 1:
        raise InvalidQuery("The rows of VALUES have the same number of columns.", span_of(node))
    selects: list[exp.Query] = [exp.Select(expressions=[part.copy() for part in row]) for row in rows]
    if named:
        columns = [exp.Alias(this=v.copy(), alias=exp.to_identifier(f"column{i}")) for i, v in enumerate(rows[0], 1)]
        selects[0] = exp.Select(expressions=columns)
    return reduce(lambda one, other: exp.Union(this=one, expression=other, distinct=False), selects)
