"""The names PostgreSQL gives to columns without alias."""

from sqlglot import exp

from dataflow.sql.scope import name_of

_FUNCTIONS = (exp.Func, exp.AggFunc)


def column_name(node: exp.Expr, sql: str) -> str:
    """The name of a shown expression (parse_target.c: FigureColname)."""
    return _figured(node, sql) or "?column?"


def _figured(node: exp.Expr, sql: str) -> str | None:
    if isinstance(node, exp.Column):
        return name_of(node.this)
    if isinstance(node, exp.Paren | exp.Filter):
        return _figured(node.this, sql)
    if isinstance(node, exp.Cast):
        return _figured(node.this, sql) or _type_name(node.args["to"])
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        return _figured(default, sql) if isinstance(default, exp.Column) else "case"
    if isinstance(node, exp.Boolean):
        return "bool"
    if isinstance(node, _FUNCTIONS) and not isinstance(node, exp.Binary | exp.Connector):
        start, end = node.meta.get("start"), node.meta.get("end")
        if isinstance(start, int) and isinstance(end, int):
            return sql[start : end + 1].lower()
    return None


def _type_name(node: exp.Expr) -> str | None:
    from dataflow.errors import UnsupportedQuery
    from dataflow.sql.types import cast_type

    try:
        return cast_type(node).name
    except UnsupportedQuery:
        return None
