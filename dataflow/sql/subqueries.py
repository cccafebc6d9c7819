"""Subqueries in expressions, decorrelated: each becomes an input of the block that computes the expression.

EXISTS, IN and ``= ANY`` look for a row of the different values that the subquery has; NOT IN and other quantifiers also
count rows and NULLs. A value is the one row that the subquery has, or the default of an aggregate without GROUP BY;
ARRAY is an aggregate of all its rows.
Where only TRUE matters the plan rules make the left input an inner one: a semijoin.

Not here: names in a subquery (`correlation`), joins of the inputs (`loose_block`), syntax (`subquery_forms`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import BOOL, INT8, TRUE, shift
from dataflow.plan.nodes import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Block,
    BlockInput,
    CallOrder,
    Chain,
    Relation,
    Source,
    Union,
    column_types,
)
from dataflow.plan.nullability import never_null
from dataflow.plan.rewriting import at_most_one, bottom_up, input_columns
from dataflow.plan.rules.prune_columns import prune
from dataflow.plan.rules.push_predicates import push_predicates
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import Catalog
from dataflow.sql.conditions import BoundParameter
from dataflow.sql.correlation import Around, proper
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import UNKNOWN, array_of
from dataflow.sql.expressions.scope import Scope
from dataflow.sql.expressions.subquery_forms import (
    ArrayForm,
    ExistsForm,
    QuantifiedForm,
    only_truth_matters,
    subquery_form,
)
from dataflow.sql.sources import Derived, Environment
from dataflow.sql.syntax.spans import span_of

_ZERO = Literal("0", INT8)
_FALSE = Literal("f", BOOL)
_ROWS = AggregateCall(AggregateFunction.COUNT_ROWS, None, INT8)
_MIN, _MAX = AggregateFunction.MIN, AggregateFunction.MAX
#: ANY of the rows compares so if the extreme one does; for ALL it is the other one. Neither: both are looked at.
_EXTREME_OF_ANY = {"<": _MAX, "<=": _MAX, ">": _MIN, ">=": _MIN}


class Target(Protocol):
    """The block that a subquery is joined into."""

    @property
    def width(self) -> int:
        """The first column of the next relation."""

    def around(self, scope: Scope) -> Around:
        """The names that a subquery in an expression with these names may use."""

    def attach(
        self, relation: Relation, on: Sequence[Scalar], parameters: Sequence[BoundParameter], *, every: bool
    ) -> None:
        """Joins a relation by `on`, at most one row of it to each; `every`: it has one row for certain."""

    def never_null(self, expression: Scalar) -> bool:
        """Return whether an expression over the block's row is never NULL."""


@dataclass(frozen=True, slots=True)
class _Subquery:
    """A lowered subquery: what it gives, and what its SELECT asks of the row around."""

    derived: Derived
    conditions: tuple[Scalar, ...]


class Subqueries:
    """Binds the subqueries of one SELECT's expressions."""

    def __init__(self, environment: Environment, target: Target) -> None:
        self._environment = environment
        self._target = target

    @property
    def _catalog(self) -> Catalog:
        return self._environment.catalog

    def bind(self, node: exp.Expr, binder: Binder) -> Scalar:
        """The value of a subquery in an expression, over the block's row."""
        form = subquery_form(node)
        if isinstance(form, ExistsForm):
            return self._exists(form.query, binder.scope)
        if isinstance(form, QuantifiedForm):
            return self._quantified(form, node, binder)
        if isinstance(form, ArrayForm):
            return self._array(form.query, binder.scope)
        assert form is not None
        return self._value(form.query, binder.scope)

    def _lower(self, query: exp.Expr, scope: Scope, *, ordered: bool = False) -> _Subquery:
        around = self._target.around(scope)
        derived = self._environment.lower(query, self._environment.within(around, query), ordered=ordered)
        for p in derived.parameters:
            if not p.single:
                raise _several(p)
        return _Subquery(derived, tuple(around.conditions))

    # EXISTS

    def _exists(self, query: exp.Expr, scope: Scope) -> Scalar:
        subquery = self._lower(_existing(query), scope)
        if subquery.derived.one_row:
            return TRUE
        return self._found(subquery, [], [])

    def _found(self, subquery: _Subquery, members: Sequence[ColumnRef], subjects: Sequence[Scalar]) -> Scalar:
        """Return the condition that the subquery has a row whose `members` equal `subjects`; only TRUE and not TRUE
        differ."""
        derived = subquery.derived
        group = sorted({_index(p.expression) for p in derived.parameters} | {m.index for m in members})
        if not group:
            return _positive(self._count_rows(subquery))
        self._check_group(derived.relation, group)
        relation = Aggregate(as_input(derived.relation), tuple(group), ())
        start = self._target.width
        own = {c: ColumnRef(start + i, _type(derived.relation, c)) for i, c in enumerate(group)}
        equal = [functions.comparison("=", s, own[m.index]) for s, m in zip(subjects, members, strict=True)]
        self._attach(relation, subquery, own, equal)
        return Call("is not null", (own[group[0]],), BOOL)

    def _check_group(self, relation: Relation, group: Sequence[int]) -> None:
        for column in group:
            if not _type(relation, column).comparable:
                raise UnsupportedQuery(f"When {_type(relation, column).sql} values are equal is not known exactly.")

    def _attach(
        self,
        relation: Relation,
        subquery: _Subquery,
        own: dict[int, ColumnRef],
        on: Sequence[Scalar] = (),
        *,
        every: bool = False,
    ) -> None:
        """Joins a relation whose columns `own` hold columns of the subquery's."""
        parameters: list[BoundParameter] = []
        parts: list[Scalar] = [*on, *subquery.conditions]
        for p in subquery.derived.parameters:
            expression = own[_index(p.expression)]
            if p.outer is not None:
                parts.append(functions.comparison("=", expression, p.outer))
            else:
                parameters.append(replace(p, expression=expression))
        self._target.attach(relation, parts, parameters, every=every)

    # Counts

    def _counted(self, subquery: _Subquery, calls: Sequence[AggregateCall]) -> list[Scalar]:
        """Aggregates of the subquery's rows for each row around; counts are 0 where there are none."""
        derived = subquery.derived
        group = sorted({_index(p.expression) for p in derived.parameters})
        self._check_group(derived.relation, group)
        relation = Aggregate(as_input(derived.relation), tuple(group), tuple(calls), scalar=not group)
        start = self._target.width
        own = {c: ColumnRef(start + i, _type(derived.relation, c)) for i, c in enumerate(group)}
        self._attach(relation, subquery, own, every=not group)
        results: list[Scalar] = []
        certain = not group and not subquery.conditions
        for i, call in enumerate(calls):
            ref = ColumnRef(start + len(group) + i, call.type)
            counts = call.function in (AggregateFunction.COUNT_ROWS, AggregateFunction.COUNT)
            results.append(Call("coalesce", (ref, _ZERO), INT8) if counts and not certain else ref)
        return results

    def _count_rows(self, subquery: _Subquery) -> Scalar:
        return self._counted(subquery, [_ROWS])[0]

    # IN, ANY, ALL

    def _quantified(self, form: QuantifiedForm, node: exp.Expr, binder: Binder) -> Scalar:
        nodes = list(form.subject.expressions) if isinstance(form.subject, exp.Tuple) else [form.subject]
        subjects = [binder.bind(n) for n in nodes]
        subquery = self._lower(form.query, binder.scope)
        columns = subquery.derived.columns
        if len(columns) != len(subjects):
            raise InvalidQuery(
                f"The subquery shows {len(columns)} columns, and is compared with {len(subjects)}.", span_of(node)
            )
        if subquery.derived.one_row:
            values = self._row(subquery, form.query)
            return _of_one_row(form, subjects, values, node)
        members = [ColumnRef(place, sql_type) for _, place, sql_type in columns]
        if (form.operator, form.every) == ("=", False):
            return self._in(subquery, members, subjects, truth_only=only_truth_matters(node))
        if (form.operator, form.every) == ("<>", True):
            inside = self._in(subquery, members, subjects, truth_only=False)
            return functions.logical("not", [inside])
        if len(subjects) > 1:
            raise UnsupportedQuery("Rows are compared with a subquery by IN and NOT IN only.", span_of(node))
        return self._compared(form, subquery, members[0], subjects[0])

    def _in(self, subquery: _Subquery, members: list[ColumnRef], subjects: list[Scalar], *, truth_only: bool) -> Scalar:
        """``subjects IN (subquery)``, three-valued unless only its truth matters."""
        subjects = [functions.typed(s, m.type) for s, m in zip(subjects, members, strict=True)]
        for subject, member in zip(subjects, members, strict=True):
            _check_families(subject, member)
        found = self._found(subquery, members, subjects)
        if truth_only:
            return found
        values = all(self._never_null(subquery, m) for m in members)
        certain = all(self._target.never_null(s) for s in subjects)
        if values and certain:
            return found
        if len(subjects) > 1:
            raise UnsupportedQuery(
                "Whether a row of several columns is in a subquery that has NULLs is kept up to date only where its"
                " truth alone matters."
            )
        rows, present = self._counted(subquery, [_ROWS, _values(members[0])])
        empty = functions.comparison("=", rows, _ZERO)
        unknown = self._unknown(subquery, members[0], subjects[0], present, rows)
        return functions.case([(found, TRUE), (empty, _FALSE), *unknown], _FALSE)

    def _unknown(
        self, subquery: _Subquery, member: ColumnRef, subject: Scalar, present: Scalar, rows: Scalar
    ) -> list[tuple[Scalar, Scalar]]:
        """NULL, if a value on either side is: the branch of a CASE."""
        parts: list[Scalar] = [] if self._target.never_null(subject) else [Call("is null", (subject,), BOOL)]
        if not self._never_null(subquery, member):
            parts.append(functions.comparison("<", present, rows))
        return [(functions.logical("or", parts), Literal(None, BOOL))] if parts else []

    def _compared(self, form: QuantifiedForm, subquery: _Subquery, member: ColumnRef, subject: Scalar) -> Scalar:
        """``subject < ANY (subquery)`` and the like, by the subquery's least and greatest value."""
        subject = functions.typed(subject, member.type)
        functions.sortable(member)
        of_any = _EXTREME_OF_ANY.get(form.operator)
        other = {_MIN: _MAX, _MAX: _MIN}
        extremes = [_MIN, _MAX] if of_any is None else [other[of_any] if form.every else of_any]
        calls = [_ROWS, _values(member), *(AggregateCall(extreme, member, member.type) for extreme in extremes)]
        rows, values, *found = self._counted(subquery, calls)
        compared = [functions.comparison(form.operator, subject, f) for f in found]
        unknown = self._unknown(subquery, member, subject, values, rows)
        empty = functions.comparison("=", rows, _ZERO)
        if form.every:
            fails = functions.logical("not", [functions.logical("and", compared)])
            return functions.case([(fails, _FALSE), (empty, TRUE), *unknown], TRUE)
        holds = functions.logical("or", compared)
        return functions.case([(holds, TRUE), (empty, _FALSE), *unknown], _FALSE)

    def _never_null(self, subquery: _Subquery, member: ColumnRef) -> bool:
        return never_null(subquery.derived.relation, member.index, self._catalog)

    # Values

    def _array(self, query: exp.Expr, scope: Scope) -> Scalar:
        """``ARRAY(query)``: the aggregate of the subquery's rows, empty where there are none."""
        subquery = self._lower(query, scope, ordered=True)
        derived = subquery.derived
        if len(derived.columns) != 1:
            raise InvalidQuery("ARRAY takes a query of one column.", span_of(query))
        ((_, place, element),) = derived.columns
        if element.kind == "array":
            raise UnsupportedQuery("Arrays of arrays are not kept up to date.", span_of(query))
        if derived.one_row:
            return functions.array(self._row(subquery, query))
        types = column_types(derived.relation)
        order = [
            CallOrder(functions.sortable(ColumnRef(term.column, types[term.column])), term.descending, term.nulls_first)
            for term in derived.order
        ]
        result = array_of(functions.plain_type(element))
        call = AggregateCall(AggregateFunction.ARRAY_AGG, ColumnRef(place, element), result, order=tuple(order))
        return Call("coalesce", (*self._counted(subquery, [call]), Literal("{}", result)), result)

    def _value(self, query: exp.Expr, scope: Scope) -> Scalar:
        subquery = self._lower(query, scope)
        derived = subquery.derived
        if len(derived.columns) != 1:
            raise UnsupportedQuery("A subquery as a row of several values is not kept up to date.", span_of(query))
        if not derived.one_row and not self._single(derived):
            raise UnsupportedQuery(
                "A subquery as a value that may have several rows, which would be an error, is not kept up to date:"
                " give it an aggregate, LIMIT 1, or equalities with a unique key.",
                span_of(query),
            )
        return self._row(subquery, query)[0]

    def _row(self, subquery: _Subquery, query: exp.Expr) -> list[Scalar]:
        """The columns of the one row that the subquery has; NULL if it has none."""
        derived = subquery.derived
        if derived.one_row and subquery.conditions and derived.default is None:
            raise UnsupportedQuery(
                "A condition on the query around alone, in an aggregate without GROUP BY, is not kept up to date.",
                span_of(query),
            )
        start = self._target.width
        own = {c: ColumnRef(start + c, t) for c, t in enumerate(column_types(derived.relation))}
        self._attach(derived.relation, subquery, own, every=derived.one_row and derived.default is None)
        places = [place for _, place, _ in derived.columns]
        if derived.default is None:
            return [own[place] for place in places]
        return [defaulted(derived, place, start, self._catalog) for place in places]

    def _single(self, derived: Derived) -> bool:
        """Return whether the subquery has at most one row for each row around."""
        relation = bottom_up(push_predicates, proper(derived.relation, self._catalog), self._catalog)
        fixed = {_index(p.expression) for p in derived.parameters}
        # Free parameters that are none of this subquery's do not make more rows.
        relation, moved = prune(relation, {*fixed, *(place for _, place, _ in derived.columns)})
        return at_most_one(relation, {moved[c] for c in fixed}, self._catalog)


def defaulted(derived: Derived, column: int, offset: int, catalog: Catalog) -> Scalar:
    """A column of a relation that is joined left from `offset` on, with the default of its missing row."""
    assert derived.default is not None
    ref, value = ColumnRef(offset + column, _type(derived.relation, column)), derived.default[column]
    if value is None:
        return ref
    otherwise = Literal(value, ref.type)
    if never_null(derived.relation, column, catalog):
        return Call("coalesce", (ref, otherwise), ref.type)
    # What it is joined by is not NULL in a row that is there.
    there = Call("is not null", (shift(derived.parameters[0].expression, offset),), BOOL)
    return Call("case", (there, ref, otherwise), ref.type)


def as_input(relation: Relation) -> Source:
    """A relation as something that can be aggregated."""
    if isinstance(relation, Chain | Block | Union):
        return relation
    block = Block((BlockInput(relation),), None, ())
    return replace(block, columns=tuple(input_columns(block)))


def _existing(query: exp.Expr) -> exp.Expr:
    """A query without what makes no difference to whether it has rows."""
    limit = query.args.get("limit")
    if not isinstance(query, exp.Select) or query.args.get("offset") is not None:
        return query
    if limit is not None and not _at_least_one(limit):
        return query
    bare = query.copy()
    for clause in ("limit", "order"):
        bare.set(clause, None)
    return bare


def _at_least_one(limit: Any) -> bool:
    number = limit.expression if isinstance(limit, exp.Limit) else None
    return isinstance(number, exp.Literal) and not number.is_string and str(number.this) not in ("", "0")


def _check_families(subject: Scalar, member: ColumnRef) -> None:
    """Several values of one type may equal one of another, which would find several rows."""
    if subject.type != UNKNOWN and subject.type.family != member.type.family:
        functions.comparison("=", subject, member)
        raise UnsupportedQuery(f"{subject.type.sql} IN a subquery of {member.type.sql} is not kept up to date.")


def _of_one_row(form: QuantifiedForm, subjects: list[Scalar], values: list[Scalar], node: exp.Expr) -> Scalar:
    """A comparison with the one row that the subquery has: ANY and ALL of it are the same."""
    if len(subjects) == 1:
        return functions.comparison(form.operator, subjects[0], values[0])
    equal = functions.logical("and", [functions.comparison("=", s, v) for s, v in zip(subjects, values, strict=True)])
    if form.operator not in ("=", "<>"):
        raise UnsupportedQuery("Rows are compared with a subquery by IN and NOT IN only.", span_of(node))
    return equal if form.operator == "=" else functions.logical("not", [equal])


def _values(member: ColumnRef) -> AggregateCall:
    return AggregateCall(AggregateFunction.COUNT, member, INT8)


def _positive(count: Scalar) -> Scalar:
    return functions.comparison(">", count, _ZERO)


def _several(parameter: BoundParameter) -> UnsupportedQuery:
    return parameter.refused(f"{parameter.title} is a list or a range inside a subquery whose rows are taken together.")


def _index(expression: Scalar) -> int:
    assert isinstance(expression, ColumnRef)
    return expression.index


def _type(relation: Relation, column: int) -> Any:
    return column_types(relation)[column]
