"""Function nodes as they are written: their names and arguments, which the parser translates."""

from sqlglot import exp

#: Functions whose places the parser does not note, by the names it reads them from.
_UNPLACED: dict[type[exp.Expr], str] = {
    exp.GroupConcat: "string_agg",
    exp.JSONArrayAgg: "json_agg",
    exp.JSONObjectAgg: "json_objectagg",
}


def function_name(node: exp.Expr, sql: str) -> str:
    """The name of a function as the SQL has it, in lower case."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    start, end = node.meta.get("start"), node.meta.get("end")
    if isinstance(start, int) and isinstance(end, int):
        return sql[start : end + 1].lower()
    return _UNPLACED.get(type(node), node.key.lower())


def has_others(node: exp.Expr, *arguments: str) -> bool:
    """Return whether a node has other arguments than these."""
    return any(v for k, v in node.args.items() if k not in arguments)


def is_parameter_list(node: exp.In) -> bool:
    """Return whether a parameter is all that IN compares with, so that it is a list."""
    member = node.expressions[0]
    while isinstance(member, exp.Paren | exp.Cast):
        member = member.this
    return isinstance(member, exp.Placeholder) and len(node.expressions) == 1
