"""SQL to a view: the entry of this package."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, Span, UnsupportedQuery
from dataflow.evaluate import compile_predicate, compile_scalar
from dataflow.plan.nodes import (
    Aggregate,
    AggregateFunction,
    Block,
    Chain,
    OutputColumn,
    Parameter,
    Relation,
    View,
    column_types,
)
from dataflow.plan.optimize import optimize
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog
from dataflow.sql.parse import parameter_name, parameter_span, parse
from dataflow.sql.select import Lowered, SelectLowering
from dataflow.sql.sources import Derived, Environment
from dataflow.sql.spans import span_of
from dataflow.types import Row, Value
from dataflow.values import normal_form, one_text


def plan_view(name: str, sql: str, catalog: Catalog) -> View:
    """The view that `sql` means over `catalog`.

    UnsupportedQuery: no incremental plan (yet), with the reason and the place. InvalidQuery: no SELECT that would run.
    """
    try:
        return _planned(name, sql, catalog)
    except (UnsupportedQuery, InvalidQuery) as error:
        error.span = _closed(sql, error.span)
        raise
    except RecursionError as error:
        raise UnsupportedQuery("The SQL is nested too deeply.") from error


def _closed(sql: str, span: Span | None) -> Span | None:
    """The span with the closing parenthesis that the parser does not count to a function."""
    if span is None or sql[span.start : span.end].count("(") <= sql[span.start : span.end].count(")"):
        return span
    rest = sql[span.end :]
    return Span(span.start, len(sql) - len(rest.lstrip()) + 1) if rest.lstrip()[:1] == ")" else span


def _planned(name: str, sql: str, catalog: Catalog) -> View:
    select = parse(sql)
    environment = Environment(sql, catalog, _lower_derived)
    lowered = SelectLowering(select, environment).lower()
    limit, offset = _limit(select.args.get("limit")), _number(select.args.get("offset"))
    names = _unique_names([output for output, _ in lowered.outputs])
    view = View(
        name,
        sql,
        lowered.relation,
        _parameters(lowered),
        tuple(OutputColumn(n, column) for n, (_, column) in zip(names, lowered.outputs, strict=True)),
        lowered.order,
        limit,
        offset or 0,
    )
    _check_parameters(view, select)
    view = _optimized(view, catalog, select)
    _check_groups(view, lowered)
    if lowered.scalar and view.parameters:
        view = replace(view, rows_for_null=_empty_rows(view.relation))
    return view


def _lower_derived(node: exp.Expr, environment: Environment) -> Derived:
    """A SELECT in FROM or WITH."""
    while isinstance(node, exp.Subquery) and not node.args.get("alias"):
        node = node.this
    if isinstance(node, exp.SetOperation):
        raise UnsupportedQuery("UNION, INTERSECT and EXCEPT are not kept up to date yet.", span_of(node))
    if not isinstance(node, exp.Select):
        raise UnsupportedQuery("Only a plain SELECT in FROM is kept up to date yet.", span_of(node))
    lowered = SelectLowering(node, environment).lower()
    if _limit(node.args.get("limit")) is not None or _number(node.args.get("offset")):
        raise UnsupportedQuery("LIMIT in a derived table is not kept up to date yet.", span_of(node))
    if lowered.scalar:
        raise UnsupportedQuery(
            "An aggregate without GROUP BY in a derived table is not kept up to date yet.", span_of(node)
        )
    if lowered.ambiguous_group is not None:
        raise _ambiguous(lowered)
    types = column_types(lowered.relation)
    columns = tuple((output, column, types[column]) for output, column in lowered.outputs)
    return Derived(lowered.relation, columns, lowered.parameters)


def _parameters(lowered: Lowered) -> tuple[Parameter, ...]:
    columns = {p.name: p.expression.index for p in lowered.parameters if isinstance(p.expression, ColumnRef)}
    return tuple(Parameter(name, columns[name]) for name in sorted(columns))


def _check_parameters(view: View, select: exp.Select) -> None:
    """A common table expression that nothing names is not looked into."""
    known = {p.name for p in view.parameters}
    for node in select.find_all(exp.Placeholder):
        if parameter_name(node) not in known:
            raise UnsupportedQuery(f"Nothing reads the parameter :{parameter_name(node)}.", parameter_span(node))


def _unique_names(names: Sequence[str]) -> list[str]:
    """Names with a number where they repeat: a, a_2."""
    result: list[str] = []
    for name in names:
        unique, number = name, 1
        while unique in result:
            number += 1
            unique = f"{name}_{number}"
        result.append(unique)
    return result


def _limit(node: Any) -> int | None:
    if node is None:
        return None
    if isinstance(node, exp.Fetch):
        options = node.args.get("limit_options")
        if options is not None and (options.args.get("with_ties") or options.args.get("percent")):
            raise UnsupportedQuery("FETCH … WITH TIES is not kept up to date yet.")
        return _constant(node.args.get("count") or exp.Literal.number(1))
    return _number(node)


def _number(node: Any) -> int | None:
    return None if node is None else _constant(node.expression)


def _constant(node: Any) -> int | None:
    if isinstance(node, exp.Null) or (isinstance(node, exp.Column | exp.Var) and node.name.upper() == "ALL"):
        return None
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal():
        return int(node.this)
    raise UnsupportedQuery("LIMIT and OFFSET take constants, yet.", span_of(node))


def _optimized(view: View, catalog: Catalog, select: exp.Select) -> View:
    try:
        return optimize(view, catalog)
    except UnsupportedQuery as error:
        if error.span is None:
            places = [span_of(part) for part in (select.args.get("from_"), *(select.args.get("joins") or ()))]
            known = [place for place in places if place is not None]
            error.span = Span(min(p.start for p in known), max(p.end for p in known)) if known else None
        raise


# --- grouping on values that print in several ways ------------------------------------------------------------------


def _check_groups(view: View, lowered: Lowered) -> None:
    """A group's columns are printed as one of its rows has them; refused unless all its rows have them alike."""
    if lowered.ambiguous_group is not None and _groups_ambiguously(view.relation):
        raise _ambiguous(lowered)


def _ambiguous(lowered: Lowered) -> UnsupportedQuery:
    return UnsupportedQuery(
        "GROUP BY a column whose equal values may print differently (1.0 and 1.00): which of them the upstream prints"
        " depends on the order of rows.",
        lowered.ambiguous_group,
    )


def _groups_ambiguously(relation: Relation) -> bool:
    if isinstance(relation, Chain):
        return False
    if isinstance(relation, Aggregate):
        types = column_types(relation)[: len(relation.group)]
        return any(not one_text(t) and normal_form(t) is not None for t in types) or _groups_ambiguously(relation.input)
    return any(_groups_ambiguously(i.relation) for i in relation.inputs)


# --- an aggregate without GROUP BY ----------------------------------------------------------------------------------


def _empty_rows(relation: Chain | Block) -> tuple[Row, ...]:
    """What remains of the one row of no rows behind HAVING and the projection."""
    assert isinstance(relation, Block)
    aggregate = relation.inputs[0].relation
    assert isinstance(aggregate, Aggregate)
    row: Row = (*(None for _ in aggregate.group), *(_of_nothing(call.function) for call in aggregate.calls))
    if relation.predicate is not None and not compile_predicate(relation.predicate)(row):
        return ()
    return (tuple(compile_scalar(column)(row) for column in relation.columns),)


def _of_nothing(function: AggregateFunction) -> Value:
    return "0" if function in (AggregateFunction.COUNT, AggregateFunction.COUNT_ROWS) else None
