"""Names of columns without an alias in MariaDB and MySQL, and names in HAVING that mean output columns."""

from sqlglot import exp

from dataflow.errors import UnsupportedQuery
from dataflow.sql.expressions.scope import name_of
from dataflow.sql.mysql.grammar import WRITTEN, string_value
from dataflow.sql.syntax.spans import span_of


def column_name(node: exp.Expr, sql: str) -> str:
    """A column by its name as it is written, a string by its value, anything else by its text."""
    del sql
    if isinstance(node, exp.Column):
        return str(name_of(node.this))
    written = str(node.meta.get(WRITTEN) or node.sql("mysql")).strip()
    return string_value(written) if written[:1] in ("'", '"') and isinstance(node, exp.Literal) else written


def having(select: exp.Select) -> exp.Expr:
    """The condition with the expressions that its bare names are aliases of."""
    condition: exp.Expr = select.args["having"].this.copy()
    shown = {name_of(e.args["alias"]): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    group = select.args.get("group")
    grouped = {name_of(e.this) for e in (group.expressions if group is not None else ()) if isinstance(e, exp.Column)}
    holder = exp.Paren(this=condition)
    for column in list(holder.find_all(exp.Column)):
        if column.args.get("table") is not None or not isinstance(column.this, exp.Identifier):
            continue
        expression = shown.get(name_of(column.this))
        if expression is None or expression == column:
            continue
        if name_of(column.this) in grouped:
            raise UnsupportedQuery("A name in HAVING is that of an alias and of a grouped column.", span_of(column))
        if column.find_ancestor(exp.Select) is not None:
            raise UnsupportedQuery("An alias in a subquery in HAVING is not read.", span_of(column))
        column.replace(exp.Paren(this=expression.copy()))
    result: exp.Expr = holder.this
    result.parent = select.args["having"]
    return result
