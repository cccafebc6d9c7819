"""Syntax of FROM's items and joins: which of them there are, and those that stand for others.

Not here: their meaning (`from_clause`).
"""

from typing import Any

from sqlglot import exp

from dataflow.errors import UnsupportedQuery
from dataflow.sql.syntax.spans import span_of


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
    named = isinstance(item, exp.Table | exp.Subquery) and not is_join_tree(item)
    if str(node.args.get("side")).upper() != "LEFT" or not named or on is None or on.find(exp.Query) is None:
        return None
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=item.copy()), where=exp.Where(this=on.copy()))


def is_join_tree(item: exp.Expr) -> bool:
    """Return whether an item is several joined ones."""
    return bool(item.args.get("joins")) or (isinstance(item, exp.Subquery) and is_join(item.this))
