"""SQL to a view: the entry of this package."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dataflow.errors import (
    EvaluationError,
    InvalidQuery,
    Span,
    UnsupportedParameter,
    UnsupportedQuery,
    UnsupportedRoute,
)
from dataflow.ops.evaluation import evaluator
from dataflow.plan.at_read import computed_at_read, levels
from dataflow.plan.clock_bounds import ClockBound
from dataflow.plan.nodes import (
    OutputColumn,
    Parameter,
    RangeParameter,
    View,
    column_types,
)
from dataflow.plan.parametric import is_parameter, joins_parameters
from dataflow.plan.required_keys import check_keys
from dataflow.plan.routes import coverable, in_parts
from dataflow.plan.rules.optimize import optimize
from dataflow.plan.rules.prune_columns import prune_view
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog, SqlType
from dataflow.sql.clauses import Lowered
from dataflow.sql.conditions import BoundParameter
from dataflow.sql.dialects import dialect_of
from dataflow.sql.exactness import check_exact
from dataflow.sql.expressions.cast_types import TEXT
from dataflow.sql.free_parameters import FreeParameters, can_be_free
from dataflow.sql.limits import Limit, number_of, parameter_of
from dataflow.sql.queries import lower_derived, lower_query, unwrapped
from dataflow.sql.select import SelectClauses
from dataflow.sql.sources import Environment, table_in
from dataflow.sql.syntax.parse import parameter_name, parameter_span, parse, tokens_of
from dataflow.sql.syntax.spans import span_of
from dataflow.state.ordering import Ordering
from dataflow.types import Row

#: To plan them takes time that grows with the cube of their number.
_MOST_JOINS = 64
#: Of the records of workers (`service.leaf_store.catalog`), whose levels the JSON serializer limits to 254.
_MOST_LEVELS = 200
#: The collation of exact texts (`free_parameters.exact_text`).
_EXACT = TEXT.collation


def plan_view(name: str, sql: str, catalog: Catalog) -> View:
    """The view that `sql` means over `catalog`.

    UnsupportedQuery: no incremental plan (yet), with the reason and the place. InvalidQuery: no SELECT that would run.
    """
    free: dict[str, SqlType] = {}
    bounds: dict[str, ClockBound] = {}
    picking: set[str] = set()
    below: set[str] = set()
    shared = False
    try:
        while True:
            try:
                environment = Environment(
                    sql,
                    catalog,
                    lower_derived,
                    free=dict(free),
                    below=frozenset(below),
                    shared=shared,
                    picking=frozenset(picking),
                )
                return _planned(name, environment, bounds)
            except UnsupportedRoute:
                if shared:
                    raise
                shared = True
            except UnsupportedParameter as refused:
                if refused.below and refused.name not in below:
                    below.add(refused.name)
                elif refused.type is None and refused.bound is not None and refused.name not in picking:
                    picking.add(refused.name)
                else:
                    free[refused.name] = _type_if_free(refused, free)
                    if isinstance(refused.bound, ClockBound):
                        bounds[refused.name] = refused.bound
    except (UnsupportedQuery, InvalidQuery) as error:
        error.span = _closed(sql, error.span, catalog)
        raise
    except RecursionError as error:
        raise UnsupportedQuery("The SQL is nested too deeply.") from error


def _type_if_free(refused: UnsupportedParameter, free: FreeParameters) -> SqlType:
    """The type of a parameter that was refused, if it can be a free one: which are not tried before they must be, since
    a key, or a range of one, costs less. So does one value for all equal texts."""
    known, wanted = free.get(refused.name), refused.type
    if not isinstance(wanted, SqlType) or not can_be_free(wanted):
        raise refused
    if known is not None and not (known.is_text and wanted.is_text and known.collation != wanted.collation == _EXACT):
        raise refused
    return wanted


def _closed(sql: str, span: Span | None, catalog: Catalog) -> Span | None:
    """The span up to the parentheses that close those within: the parser notes no place of them, nor of types."""
    if span is None or "(" not in sql[span.start : span.end]:
        return span
    depth = 0
    for token in tokens_of(sql, dialect_of(catalog.dialect).grammar):
        if token.start >= span.end and depth <= 0:
            break
        if token.start >= span.start:
            depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
            if token.start >= span.end and depth == 0:
                return Span(span.start, token.end + 1)
    return span


def _planned(name: str, environment: Environment, bounds: Mapping[str, ClockBound]) -> View:
    """`bounds`: the conditions on the current time whose values are free parameters."""
    sql, catalog = environment.sql, environment.catalog
    query = unwrapped(parse(sql, environment.dialect.grammar))
    environment = replace(environment, table=table_in(query, catalog))
    if sum(1 for _ in query.find_all(exp.Join)) > _MOST_JOINS:
        raise UnsupportedQuery(f"The SQL has more than {_MOST_JOINS} joins.")
    lowered = lower_query(query, environment, SelectClauses(top=True))
    view = _answers(name, sql, lowered, Limit.of(query))
    _check_parameters(view, lowered, query)
    stored = lowered if lowered.picked is None else lowered.picked
    if lowered.picked is not None:
        view = computed_at_read(prune_view(view), lowered.picked.relation, catalog)
    view = replace(
        view,
        parameters=_parameters(stored, bounds),
        ranges=_ranges(stored),
        clock=_clock(stored),
        clock_filters=_clock_filters(stored),
        clock_keys=_clock_keys(stored, bounds),
    )
    view = _optimized(view, catalog, query)
    check_exact(view.relation)
    check_exact(view.answer.relation)
    check_keys(view, catalog)
    _check_clock(view, stored)
    _check_levels(view)
    if view.at_read is not None or (lowered.scalar and view.parameters):
        view = _with_null_rows(view, None if lowered.keyless else _rows_for_null(view.answer))
    return _with_nulls(view, environment.free, scalar=lowered.scalar) if environment.free else view


def _answers(name: str, sql: str, lowered: Lowered, limit: Limit) -> View:
    """The view of a relation, without its parameters."""
    names = _unique_names([str(output) for output, _ in lowered.outputs])
    output = tuple(OutputColumn(n, column) for n, (_, column) in zip(names, lowered.outputs, strict=True))
    view = View(name, sql, lowered.relation, (), output, lowered.order)
    if not limit.ties:
        view = replace(
            view,
            limit_rows=number_of(limit.rows),
            offset_rows=number_of(limit.offset) or 0,
            limit_parameter=parameter_of(limit.rows),
            offset_parameter=parameter_of(limit.offset),
        )
    return view


def _with_nulls(view: View, free: FreeParameters, *, scalar: bool) -> View:
    """The view with free parameters. Where the key's NULL is the chain's it is a value like others, else the answer
    depends on the tables; so does the row of an aggregate without GROUP BY, which may show another parameter."""
    relation = view.relation
    joined = joins_parameters(relation)
    parameters = tuple(replace(p, takes_null=not joined and is_parameter(relation, p.column)) for p in view.parameters)
    known = not scalar and all(p.takes_null for p in parameters if p.name in free)
    view = replace(view, parameters=parameters)
    return view if known else _with_null_rows(view, None)


def _with_null_rows(view: View, rows: tuple[Row, ...] | None) -> View:
    if view.at_read is None:
        return replace(view, rows_for_null=rows)
    return replace(view, at_read=replace(view.at_read, rows_for_null=rows))


def _check_clock(view: View, lowered: Lowered) -> None:
    """Refuses a time window for which more than the keys that are read would be stored, for ever."""
    keyed = view.key_columns and coverable(view.relation, view.key_columns) == view.key_columns
    if view.clock and not (keyed or in_parts(view)):
        raise max((p for p in lowered.parameters if p.current is not None), key=_is_coarse).refused(
            "The rows of the time window cannot be looked up by themselves, so that all rows would be stored."
        )


def _check_levels(view: View) -> None:
    """Refuses what reads compute if it is nested more deeply than the catalog's record may be."""
    bounds = (*view.clock, *view.clock_filters, *view.clock_keys)
    if levels((view.at_read, *(bound.value for bound in bounds))) > _MOST_LEVELS:
        raise UnsupportedQuery("The SQL is nested too deeply.")


def _rows_for_null(view: View) -> tuple[Row, ...] | None:
    """The answer when a parameter is NULL; None if it depends on the parameters of LIMIT and OFFSET, or fails."""
    try:
        rows = tuple(evaluator(view.relation)([]))
    except EvaluationError:
        return None
    if rows and (view.limit_parameter or view.offset_parameter):
        return None
    if view.order:
        rows = tuple(sorted(rows, key=Ordering(view.order, column_types(view.relation)).place_of_row))
    end = None if view.limit_rows is None else view.offset_rows + view.limit_rows
    return rows[view.offset_rows : end]


# --- parameters -----------------------------------------------------------------------------------------------------


def _parameters(lowered: Lowered, bounds: Mapping[str, ClockBound]) -> tuple[Parameter, ...]:
    equal = {p.name: p for p in lowered.parameters if p.operator == "=" and p.name not in bounds}
    return tuple(Parameter(name, _place(p), p.many, p.members) for name, p in sorted(equal.items()))


def _ranges(lowered: Lowered) -> tuple[RangeParameter, ...]:
    column = _range_column(lowered)
    for p in _open(lowered):
        # What is a range over a second column may be a free parameter, but for a time that is never the same.
        if _place(p) != column and (p.current is None or p.current.coarse):
            raise p.refused(f"{p.title} is a range over a second column.")
    found = {RangeParameter(p.name, _place(p), p.operator) for p in _open(lowered) if p.current is None}
    return tuple(sorted(found, key=lambda r: (r.name, r.operator)))


def _open(lowered: Lowered) -> list[BoundParameter]:
    """The ends of ranges, by which rows are stored in order or, of times on other columns, filtered at each read."""
    return [p for p in lowered.parameters if p.operator != "="]


def _range_column(lowered: Lowered) -> int | None:
    """The column of the ranges by which rows are stored: of a time that changes, if there is any. Of several, that of a
    parameter, else the first of ORDER BY, else one that few rows are behind since time goes on."""
    ends = _open(lowered)
    given = {_place(p) for p in ends if p.current is None}
    first = {t.column for t in lowered.order[:1]}

    def preference(p: BoundParameter) -> tuple[bool, ...]:
        if p.current is None or p.current.coarse:
            return False, p.current is not None
        return True, _place(p) in given, _place(p) in first, p.operator in (">", ">=")

    return _place(max(ends, key=preference)) if ends else None


def _clock(lowered: Lowered) -> tuple[ClockBound, ...]:
    column = _range_column(lowered)
    return tuple(bound for bound in _clock_bounds(lowered) if bound.column == column)


def _clock_filters(lowered: Lowered) -> tuple[ClockBound, ...]:
    column = _range_column(lowered)
    return tuple(bound for bound in _clock_bounds(lowered) if bound.column != column)


def _clock_bounds(lowered: Lowered) -> list[ClockBound]:
    current = [(p, p.current) for p in lowered.parameters if p.current is not None]
    return [ClockBound(_place(p), p.operator, bound.value, bound.sql) for p, bound in current]


def _clock_keys(lowered: Lowered, bounds: Mapping[str, ClockBound]) -> tuple[ClockBound, ...]:
    return tuple(replace(bounds[p.name], column=_place(p)) for p in lowered.parameters if p.name in bounds)


def _is_coarse(parameter: BoundParameter) -> bool:
    return parameter.current is not None and parameter.current.coarse


def _place(parameter: BoundParameter) -> int:
    assert isinstance(parameter.expression, ColumnRef)
    return parameter.expression.index


def _check_parameters(view: View, lowered: Lowered, query: exp.Expr) -> None:
    """Every parameter that is written is one of the view, and no name is of two kinds, or in two comparisons if it is
    one member of a list.

    A common table expression that nothing names is not looked into.
    """
    first: dict[str, str] = {}
    for p in lowered.parameters:
        if any(first.setdefault(name, p.name) != p.name for name in p.names):
            raise UnsupportedQuery("A parameter among others in IN is compared in two ways.", p.span)
    kinds: list[set[str | None]] = [
        set(first),
        {view.limit_parameter},
        {view.offset_parameter},
    ]
    for node in query.find_all(exp.Placeholder):
        name = parameter_name(node)
        uses = sum(name in names for names in kinds)
        if not uses:
            raise UnsupportedQuery(f"Nothing reads the parameter :{name}.", parameter_span(node))
        if uses > 1:
            raise InvalidQuery(
                f"The parameter :{name} is used for two things.", parameter_span(node), "Give LIMIT a name of its own."
            )


# --- the rest -------------------------------------------------------------------------------------------------------


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


def _optimized(view: View, catalog: Catalog, query: exp.Expr) -> View:
    try:
        return optimize(view, catalog)
    except UnsupportedQuery as error:
        if error.span is None:
            places = [span_of(part) for part in (query.args.get("from_"), *(query.args.get("joins") or ()))]
            known = [place for place in places if place is not None]
            error.span = Span(min(p.start for p in known), max(p.end for p in known)) if known else None
        raise
