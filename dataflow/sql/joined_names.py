"""Names of joined columns: of a join under one alias, of USING, and those that are given twice.

Not here: other names (`expressions.scope`), joins (`from_clause`).
"""

from sqlglot import exp

from dataflow.errors import InvalidQuery
from dataflow.scalar import Scalar
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.scope import FromItem, NamedColumn, Scope, name_of
from dataflow.sql.syntax.spans import span_of


def merged(left: Scalar, right: Scalar, side: str) -> Scalar:
    """The one column that USING makes of two."""
    if side == "FULL":
        return functions.coalesce([left, right])
    return right if side == "RIGHT" else left


def side_column(scope: Scope, name: str, node: exp.Expr, side: str) -> NamedColumn:
    """The one column of a side of a join that USING names."""
    found = [n for n in scope.star if n.name == name]
    if len(found) > 1:
        raise InvalidQuery(f'The column name "{name}" is ambiguous on the {side} side of the join.', span_of(node))
    if not found:
        raise InvalidQuery(f'There is no column "{name}" on the {side} side of the join.', span_of(node))
    return found[0]


def aliased(scope: Scope, node: exp.Expr) -> Scope:
    """A join in parentheses under one name, if it has one."""
    alias = node.args.get("alias")
    if alias is None:
        return scope
    names = [name_of(c) for c in alias.args.get("columns") or ()]
    if len(names) > len(scope.star):
        raise InvalidQuery("An alias names more columns than there are.", span_of(alias))
    columns = [NamedColumn(name, n.column) for name, n in zip(names, scope.star, strict=False)]
    result = Scope()
    result.add(FromItem(name_of(alias.this), (*columns, *scope.star[len(names) :])), span_of(node))
    return result


def check_names(left: Scope, right: Scope, node: exp.Expr) -> None:
    """Refuses a name that both sides give."""
    for source in right.sources:
        left.check(source.alias, span_of(node))
