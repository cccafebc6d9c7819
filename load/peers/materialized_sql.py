"""A view with parameters as one relation of all its keys, for a materialized view.

``… WHERE s.id = :id`` becomes a column that says which ``id`` a row is of. What that cannot be done with is an
`UnsuitableError`: a parameter anywhere else, a LIMIT for each key, an aggregate that says something of no rows too.
"""

from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from load.site import SiteView


class UnsuitableError(Exception):
    """The view cannot be one relation; the text says why."""


@dataclass(frozen=True, slots=True)
class Materialized:
    """A relation and how it is read."""

    sql: str
    #: Its last columns are not the view's.
    hidden: int
    #: Columns that say which key a row is of.
    keys: tuple[str, ...]
    #: Columns that are unique, if it groups.
    groups: tuple[str, ...]
    #: WHERE and ORDER BY of a read.
    rest: str


def materialized(view: SiteView) -> Materialized:
    """How a view is one relation. Raises `UnsuitableError`."""
    select = sqlglot.parse_one(view.sql, dialect="postgres")
    if not isinstance(select, exp.Select):
        raise UnsuitableError("it is not a plain SELECT")
    keyed = _take_keys(select)
    _refuse_what_is_per_key(select, keyed)
    shown = len(select.expressions)
    keys = {name: _shown_as(select, column, f"key_{name}") for name, column in keyed.items()}
    groups = _groups(select, keyed)
    order = _order(select)
    conditions = " AND ".join(f"{column} {_comparison(view, name)}" for name, column in keys.items())
    rest = " ".join(part for part in (conditions and f"WHERE {conditions}", order) if part)
    hidden = len(select.expressions) - shown
    return Materialized(select.sql(dialect="postgres"), hidden, tuple(keys.values()), groups, rest)


def _comparison(view: SiteView, name: str) -> str:
    return f"IN (:{name})" if view.parameters[name].endswith("[]") else f"= :{name}"


def _take_keys(select: exp.Select) -> dict[str, exp.Expression]:
    """Takes comparisons of columns with parameters out of WHERE; the columns by parameter."""
    where = select.args.get("where")
    if where is None:
        return {}
    keys: dict[str, exp.Expression] = {}
    kept = []
    for condition in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        found = _key(condition)
        if found is None or found[0] in keys:
            kept.append(condition.copy())
        else:
            keys[found[0]] = found[1].copy()
    select.set("where", exp.Where(this=exp.and_(*kept)) if kept else None)
    return keys


def _key(condition: exp.Expr) -> tuple[str, exp.Expression] | None:
    """The parameter and the column of a comparison; None if it is another condition."""
    if isinstance(condition, exp.EQ):
        sides = condition.this, condition.expression
    elif isinstance(condition, exp.In) and len(condition.expressions) == 1:
        sides = condition.this, condition.expressions[0]
    else:
        return None
    for column, parameter in (sides, sides[::-1]):
        if isinstance(column, exp.Column) and isinstance(parameter, exp.Placeholder):
            return parameter.name, column
    return None


def _refuse_what_is_per_key(select: exp.Select, keyed: dict[str, exp.Expression]) -> None:
    if select.find(exp.Placeholder) is not None:
        raise UnsuitableError("a parameter is not compared for equality with a column in WHERE")
    if keyed and any(select.args.get(part) is not None for part in ("limit", "offset", "distinct")):
        raise UnsuitableError("it has a LIMIT or a DISTINCT for each key")
    if keyed and select.find(exp.Window) is not None:
        raise UnsuitableError("it has a window for each key")
    aggregates = any(shown.find(exp.AggFunc) for shown in select.expressions)
    if keyed and aggregates and select.args.get("group") is None:
        raise UnsuitableError("it has a row for keys without rows")


def _shown_as(select: exp.Select, expression: exp.Expression, name: str) -> str:
    """Shows one more column."""
    select.select(exp.alias_(expression.copy(), name), copy=False)
    return name


def _groups(select: exp.Select, keyed: dict[str, exp.Expression]) -> tuple[str, ...]:
    """Groups by the keys too; the columns that are unique then."""
    group = select.args.get("group")
    if group is None:
        return ()
    missing = [column for column in keyed.values() if column not in group.expressions]
    select.group_by(*[column.copy() for column in missing], copy=False)
    expressions = select.args["group"].expressions
    return tuple(_column_of(select, expression, f"group_{n}") for n, expression in enumerate(expressions))


def _order(select: exp.Select) -> str:
    """ORDER BY of a read. What is ordered by is shown; the relation itself is only ordered if it has a LIMIT."""
    order = select.args.get("order")
    if order is None:
        return ""
    if select.args.get("limit") is None:
        select.set("order", None)
    parts = []
    for n, ordered in enumerate(order.expressions):
        by = ordered.copy()
        by.set("this", exp.column(_column_of(select, ordered.this, f"order_{n}")))
        parts.append(by.sql(dialect="postgres"))
    return f"ORDER BY {', '.join(parts)}"


def _column_of(select: exp.Select, expression: exp.Expression, name: str) -> str:
    """The name of a column with an expression's value, shown as `name` if there is none."""
    if expression.is_int:
        return str(select.expressions[int(expression.name) - 1].alias_or_name)
    if isinstance(expression, exp.Column) and not expression.table and expression.name in select.named_selects:
        return str(expression.name)
    for shown in select.expressions:
        if shown.unalias() == expression:
            return str(shown.alias_or_name)
    return _shown_as(select, expression, name)
