"""The names PostgreSQL gives to columns without alias."""

from sqlglot import exp

from dataflow.errors import UnsupportedQuery
from dataflow.sql.expressions.cast_types import cast_type
from dataflow.sql.expressions.scope import name_of
from dataflow.sql.expressions.written_calls import function_name

_FUNCTIONS = (exp.Func, exp.AggFunc)


def column_name(node: exp.Expr, sql: str) -> str:
    """The name of a shown expression (parse_target.c: FigureColname)."""
    return _figured(node, sql) or "?column?"


def _figured(node: exp.Expr, sql: str) -> str | None:
    if isinstance(node, exp.Column):
        return name_of(node.this)
    if isinstance(node, exp.Paren | exp.Filter | exp.WithinGroup | exp.Window):
        return _figured(node.this, sql)
    if isinstance(node, exp.Exists):
        return "exists"
    if isinstance(node, exp.Subquery):
        return _shown(node.this, sql)
    if isinstance(node, exp.Cast):
        return _figured(node.this, sql) or _type_name(node.args["to"])
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        return _figured(default, sql) if isinstance(default, exp.Column) else "case"
    if isinstance(node, exp.Boolean):
        return "bool"
    if isinstance(node, _FUNCTIONS) and not isinstance(node, exp.Binary | exp.Connector):
        return function_name(node, sql)
    return None


def _shown(query: exp.Expr, sql: str) -> str | None:
    """The name of the one column that a subquery shows."""
    while isinstance(query, exp.Subquery | exp.SetOperation):
        query = query.this
    if not isinstance(query, exp.Select) or not query.expressions:
        return None
    (first, *_) = query.expressions
    return name_of(first.args["alias"]) if isinstance(first, exp.Alias) else column_name(first, sql)


def _type_name(node: exp.Expr) -> str | None:
    try:
        return cast_type(node).name
    except UnsupportedQuery:
        return None
