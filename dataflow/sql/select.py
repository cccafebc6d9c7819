"""A SELECT to a relation: FROM and WHERE to joined rows, then clause after clause (`clauses`) to what is shown.

*Invariants*: the relation has a column for everything that is shown, ordered by or asked for by a parameter.

Not here: rewriting the plan (`plan.rules.optimize`), the view (`lower`), UNION and the like (`queries`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.at_read import ROWS
from dataflow.plan.expressions import used_columns
from dataflow.plan.nodes import Aggregate, Chain
from dataflow.scalar import ColumnRef, Scalar
from dataflow.sql.clauses import Above, Columns, Lowered, Output, Rows, finished, rows_of, sorted_by, varying
from dataflow.sql.conditions import BoundParameter, bind_conditions, unify
from dataflow.sql.distinct import distinct, distinct_on
from dataflow.sql.expressions.aggregates import FIRST_CALL, Calls, GroupBy
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import UNKNOWN
from dataflow.sql.expressions.scope import Scope, name_of
from dataflow.sql.from_clause import FromClause
from dataflow.sql.grouped_subqueries import FIRST_SUBQUERY, GroupedSubqueries, refuse_beside
from dataflow.sql.grouping_sets import GroupedSets, Groupings, check_with_rollup, written_sets
from dataflow.sql.limits import Limit, limited
from dataflow.sql.sources import Environment
from dataflow.sql.syntax.spans import span_of
from dataflow.sql.windows import Windows, windowed

_KNOWN = frozenset(
    {
        "expressions",
        "from_",
        "joins",
        "laterals",
        "where",
        "group",
        "having",
        "windows",
        "distinct",
        "order",
        "limit",
        "offset",
        "with_",
        "kind",
    }
)


@dataclass(frozen=True, slots=True)
class SelectClauses:
    """The clauses of a SELECT over its rows."""

    #: ORDER BY and LIMIT are the view's: it keeps all rows, in order.
    top: bool = False
    #: Constants of no type keep none: a UNION decides it.
    unsettled: bool = False
    #: The order of its rows matters, although it is no view.
    ordered: bool = False


PLAIN = SelectClauses()


class SelectLowering:
    """Lowers one SELECT."""

    def __init__(self, select: exp.Select, environment: Environment, use: SelectClauses) -> None:
        self._select = select
        self._use = use
        self._environment = environment.extended(select.args.get("with_"))
        self._from = FromClause(self._environment)
        self._calls = Calls()
        self._windows = Windows(select, top=use.top)
        self._grouping = GroupBy()
        self._groupings = Groupings()
        #: GROUPING SETS, by the positions of their expressions; None without.
        self._sets: list[frozenset[int]] | None = None
        self._beside = GroupedSubqueries(self._from)
        self._grouped_rows = self._is_grouped()
        #: The joined rows, if reads pick some of them by the current time.
        self._picked: Lowered | None = None

    def lower(self) -> Lowered:
        """The relation, with its order. A view's LIMIT is the caller's; any other is in the relation."""
        self._check_clauses()
        self._from.read(self._select)
        if self._select.args.get("from_") is None and not self._grouped_rows:
            self._from.read_row(self._select, top=self._use.top)
        self._from.offer()
        where = self._select.args.get("where")
        if where is not None:
            self._from.where(where.this)
        above = self._bound()
        having = self._select.args.get("having")
        conditions: tuple[list[Scalar], list[BoundParameter]] = ([], [])
        if having is not None:
            binder = self._binder()
            conditions = bind_conditions(binder.dialect.having(self._select), binder, self._environment.free)
        self._from.finish(self._calls.calls)
        if all(item.left for item in self._from.inputs):
            raise UnsupportedQuery("The SELECT reads no table.", span_of(self._select))
        grouped = self._grouped_rows or bool(self._calls.calls)
        rows, above = self._grouped(above, *conditions) if grouped else self._plain(above)
        return replace(self._shown(rows, above, grouped=grouped), picked=self._picked)

    def _is_grouped(self) -> bool:
        """Return whether there is an aggregate, as far as syntax tells."""
        clauses = (*self._select.expressions, self._select.args.get("order"))
        binder = self._from.binder()
        return any(self._select.args.get(c) is not None for c in ("group", "having")) or any(
            binder.calls_aggregate(node) for node in clauses if node is not None
        )

    @property
    def _with_rollup(self) -> bool:
        group = self._select.args.get("group")
        return group is not None and bool(group.args.get("rollup"))

    def _check_clauses(self) -> None:
        for clause, value in self._select.args.items():
            if value and clause not in _KNOWN:
                reason = f"{clause.strip('_').upper()} is not kept up to date."
                raise UnsupportedQuery(reason, span_of(value) if isinstance(value, exp.Expr) else None)

    @property
    def _scope(self) -> Scope:
        return self._from.scope

    def _binder(self) -> Binder:
        return self._from.binder(self._on_aggregate, self._on_subquery)

    def _on_subquery(self, node: exp.Expr, binder: Binder) -> Scalar:
        if self._grouped_rows and not binder.within_aggregate(node, self._select):
            return self._beside.bind(node, binder)
        return self._from.subqueries.bind(node, binder)

    def _on_aggregate(self, node: exp.Expr, binder: Binder) -> Scalar:
        if isinstance(node, exp.Window):
            if self._calls.inside:
                raise InvalidQuery("Window functions cannot stand inside aggregate functions.", span_of(node))
            return self._windows.bind(node, binder)
        if isinstance(node, exp.Grouping):
            return self._groupings.bind(node, self._from.binder())
        return self._calls.bind(node, binder)

    def _bound(self) -> Above:
        """The output and sort expressions."""
        outputs = self._outputs()
        order = varying([sorted_by(e, term) for e, term in self._ordered(outputs)])
        on: tuple[Scalar, ...] = ()
        clause = self._select.args.get("distinct")
        if clause is not None and clause.args.get("on") is not None:
            on = tuple(self._sort_key(node, outputs, "DISTINCT ON") for node in _members(clause.args["on"]))
        return Above(tuple(outputs), order, (), on, tuple(self._windows.uses))

    # Clause after clause

    def _shown(self, rows: Rows, above: Above, *, grouped: bool) -> Lowered:
        """From the grouped (or joined) rows to what is shown."""
        scalar = grouped and self._select.args.get("group") is None
        total = self._sets is not None and frozenset() in self._sets and not self._with_rollup
        always = scalar or (total and bool(above.parameters))
        if above.windows:
            rows, above = windowed(rows, above)
        clause = self._select.args.get("distinct")
        if clause is not None and clause.args.get("on") is not None:
            rows, above = distinct_on(rows, above, span_of(clause))
        elif clause is not None and not scalar:
            rows, above = distinct(rows, above)
        limit = Limit.of(self._select)
        if limit.given and (limit.ties or not self._use.top):
            rows, above = limited(rows, above, limit)
        return finished(rows, above, scalar=always, ordered=self._use.top or self._use.ordered)

    def _plain(self, above: Above) -> tuple[Rows, Above]:
        """Without GROUP BY."""
        joined, parameters = self._joined()
        return joined, replace(above, parameters=tuple(parameters))

    def _joined(self) -> tuple[Rows, list[BoundParameter]]:
        """FROM and WHERE, with the parameters; or the rows of these of which a read picks some by the current time."""
        parameters, equalities = unify(self._from.parameters)
        joined = Rows(tuple(self._from.inputs), (*self._from.conjuncts, *equalities))
        keys = [p for p in parameters if not self._picks(p)]
        if len(keys) == len(parameters):
            return joined, parameters
        columns = Columns(list(joined.columns()))
        placed = tuple(replace(p, expression=columns.ref(p.expression)) for p in parameters)
        self._picked = Lowered(joined.block(columns.expressions), (), placed)
        return rows_of(Chain(ROWS, None, tuple(ColumnRef(i, e.type) for i, e in enumerate(columns.expressions)))), keys

    def _grouped(
        self, above: Above, having: list[Scalar], having_parameters: list[BoundParameter]
    ) -> tuple[Rows, Above]:
        """GROUP BY and HAVING."""
        group = self._select.args.get("group")
        if group is not None:
            self._group_by(group, above.outputs)
        if self._with_rollup:
            environment = self._environment
            if environment.subquery is not None or not environment.dialect.plans_rollup(environment.catalog):
                reason = "WITH ROLLUP is kept up to date of MariaDB only, outside of expressions."
                raise UnsupportedQuery(reason, span_of(group))
            conditions = [*having, *(p.expression for p in having_parameters)]
            shown = [output.expression for output in above.outputs]
            check_with_rollup(self._select, self._grouping.expressions, shown, conditions)
        above = above.changed(self._place)
        having_node = self._select.args.get("having")
        having = [self._place(part, having_node) for part in having]
        named = [replace(p, expression=self._place(p.expression, None)) for p in having_parameters]
        joined, parameters = self._joined()
        if self._picked is not None and named:
            raise named[0].refused(f"{named[0].title} is a key of groups that reads compute of a time window.")
        if self._sets is not None or self._groupings.calls:
            return self._grouped_by_sets(joined, above, parameters, having, named)
        self._check_grouped(parameters, named, scalar=group is None)
        named = [replace(p, expression=self._group_column(p.expression)) for p in parameters] + named
        self._beside.place(lambda part: self._place(part, self._select))
        aggregate = self._aggregate(joined)
        settle = self._grouping.settle
        unified, more = unify([replace(p, expression=settle(p.expression)) for p in named])
        rows = replace(rows_of(aggregate), conjuncts=(*map(settle, having), *more))
        above = replace(above, parameters=tuple(unified))
        if aggregate.scalar and unified and not self._beside.empty:
            raise refuse_beside(above)
        return self._beside.join(rows, above, settle)

    def _grouped_by_sets(
        self,
        rows: Rows,
        above: Above,
        parameters: list[BoundParameter],
        having: list[Scalar],
        named: list[BoundParameter],
    ) -> tuple[Rows, Above]:
        """GROUP BY and HAVING with several sets."""
        group = self._select.args.get("group")
        if not self._beside.empty:
            raise UnsupportedQuery("Subqueries beside GROUPING SETS are not kept up to date.", span_of(group))
        every = frozenset(range(len(self._grouping.expressions)))
        sets = GroupedSets(
            self._sets or [every if group is not None else frozenset()],
            self._grouping.expressions,
            tuple(self._calls.calls),
            list(dict.fromkeys(p.expression for p in parameters)),
            self._groupings.calls,
            strict=self._with_rollup,
        )
        self._check_sets(sets, parameters, named)
        relation = sets.relation(rows, group)
        keyed = [replace(p, expression=sets.key(p.expression)) for p in parameters]
        unified, more = unify(keyed + [replace(p, expression=sets.settle(p.expression)) for p in named])
        grouped = replace(rows_of(relation), conjuncts=(*map(sets.settle, having), *more))
        return grouped, replace(above.changed(lambda e, _: sets.settle(e)), parameters=tuple(unified))

    def _check_sets(self, sets: GroupedSets, below: list[BoundParameter], named: list[BoundParameter]) -> None:
        """Checks parameters as `_check_grouped` does, for all sets."""
        if sets.always_a_row:
            self._check_scalar(below, named)
        common = frozenset.intersection(*sets.sets)
        for p in below:
            if not (p.single or p.expression in [sets.expressions[i] for i in common]):
                raise p.refused(
                    f"{p.title} is a list or a range over a column that is not in all grouping sets: rows of several"
                    " keys would be taken together."
                )

    def _group_column(self, expression: Scalar) -> ColumnRef:
        return ColumnRef(self._grouping.add(expression), expression.type)

    def _picks(self, parameter: BoundParameter) -> bool:
        """Return whether reads pick rows by a condition on the current time before they compute anything of them."""
        return parameter.name in self._environment.picking and self._use.top and self._beside.empty

    def _aggregate(self, rows: Rows) -> Aggregate:
        columns = Columns(list(rows.columns()))
        group = tuple(columns.add(expression) for expression in self._grouping.expressions)
        scalar = self._select.args.get("group") is None
        return Aggregate(rows.block(columns.expressions), group, tuple(self._calls.calls), scalar)

    def _check_grouped(self, below: list[BoundParameter], named: list[BoundParameter], *, scalar: bool) -> None:
        """Which parameters may cut the rows that are grouped (`below`), and the groups (`named`)."""
        if scalar:
            self._check_scalar(below, named)
            return
        for p in below:
            fixed = isinstance(p.expression, ColumnRef) and self._determined(p.expression)
            if not (p.single or fixed or p.expression in self._grouping.expressions):
                raise p.refused(
                    f"{p.title} is a list or a range over a column that is not in GROUP BY: rows of"
                    " several keys would be taken together."
                )

    def _check_scalar(self, below: list[BoundParameter], named: list[BoundParameter]) -> None:
        """An aggregate without GROUP BY has a row for every key, so its parameters must be plain, different columns."""
        if named:
            raise named[0].refused("Without GROUP BY, HAVING takes no parameters.")
        seen: set[Scalar] = set()
        for p in below:
            if not p.single:
                raise p.refused(
                    "Without GROUP BY, an aggregate takes no list or range: rows of several keys would be taken"
                    " together."
                )
            if self._use.top and (not isinstance(p.expression, ColumnRef) or p.expression in seen):
                raise UnsupportedQuery(
                    "Without GROUP BY, an aggregate takes each parameter for a column of its own, and no expression.",
                    p.span,
                )
            seen.add(p.expression)

    # What is shown and ordered

    def _outputs(self) -> list[Output]:
        outputs: list[Output] = []
        for node in self._select.expressions:
            outputs += self._star(node) if _is_star(node) else [self._output(node)]
        return outputs

    def _star(self, node: Any) -> list[Output]:
        star = node.this if isinstance(node, exp.Column) else node
        if any(star.args.values()):
            raise UnsupportedQuery("* with exceptions is not PostgreSQL's.", span_of(node))
        if isinstance(node, exp.Column):
            return [Output(c.name, c.column, node) for c in self._scope.source(node.args["table"]).columns]
        return [Output(c.name, c.column, node) for c in self._scope.star]

    def _output(self, node: exp.Expr) -> Output:
        inner = node.this if isinstance(node, exp.Alias) else node
        binder = self._binder()
        expression = binder.bind(inner)
        if not self._use.unsettled or self._select.args.get("distinct") is not None or expression.type != UNKNOWN:
            expression = binder.dialect.value(expression, binder.text)
        if not self._use.top:
            expression = binder.dialect.inner(expression)
        if isinstance(node, exp.Alias):
            name = name_of(node.args["alias"])
        else:
            name = binder.dialect.column_name(inner, self._environment.sql)
        return Output(name, expression, inner)

    def _ordered(self, outputs: list[Output]) -> list[tuple[Scalar, Any]]:
        order = self._select.args.get("order")
        if order is None:
            return []
        return [(self._order_expression(term, outputs), term) for term in order.expressions]

    def _order_expression(self, term: Any, outputs: list[Output]) -> Scalar:
        if term.args.get("with_fill"):
            raise UnsupportedQuery("WITH FILL is not PostgreSQL's.", span_of(term))
        return self._sort_key(term.this, outputs, "ORDER BY")

    def _sort_key(self, node: Any, outputs: list[Output], clause: str) -> Scalar:
        """A term of ORDER BY or DISTINCT ON: the number or name of a shown column, or an expression."""
        found = shown_column(node, outputs, clause)
        return self._binder().value(node) if found is None else found

    # GROUP BY

    def _group_by(self, group: Any, outputs: Sequence[Output]) -> None:
        sets = written_sets(group)
        if sets is None:
            self._group_set(group.expressions, outputs)
            return
        found = [self._group_set(nodes, outputs) for nodes in sets]
        # GROUP BY DISTINCT
        self._sets = list(dict.fromkeys(found)) if group.args.get("all") is False else found

    def _group_set(self, nodes: Sequence[exp.Expr], outputs: Sequence[Output]) -> frozenset[int]:
        """Adds expressions of GROUP BY; returns the places of those that are no constants."""
        expressions = [self._grouped_expression(node, outputs) for node in nodes]
        return frozenset(self._grouping.add(expression) for expression in expressions if used_columns(expression))

    def _grouped_expression(self, node: exp.Expr, outputs: Sequence[Output]) -> Scalar:
        expression = self._group_expression(node, outputs)
        if any(index >= FIRST_SUBQUERY for index in used_columns(expression)):
            raise UnsupportedQuery("GROUP BY a subquery that is shown is not kept up to date.", span_of(node))
        if any(index >= FIRST_CALL for index in used_columns(expression)):
            raise InvalidQuery("Aggregate functions cannot stand in GROUP BY.", span_of(node))
        if not expression.type.comparable:
            raise UnsupportedQuery(f"When {expression.type.sql} values are equal is not known exactly.", span_of(node))
        return expression

    def _group_expression(self, node: Any, outputs: Sequence[Output]) -> Scalar:
        position = _shown_position(node, outputs, "GROUP BY")
        if position is not None:
            return position
        if (
            isinstance(node, exp.Column)
            and node.args.get("table") is None
            and not self._scope.finds(name_of(node.this))
        ):
            named = next((o.expression for o in outputs if o.name == name_of(node.this)), None)
            if named is not None:
                return named
        return self._from.binder().value(node)

    def _place(self, expression: Scalar, node: exp.Expr | None) -> Scalar:
        """An expression above GROUP BY over the groups."""

        def missing(column: ColumnRef) -> None:
            if self._sets is not None:
                raise UnsupportedQuery("Beside GROUPING SETS, columns that keys determine are not kept.", span_of(node))
            if not self._determined(column):
                raise InvalidQuery(
                    "A column that is shown, ordered by or in HAVING must stand in GROUP BY or in an aggregate.",
                    span_of(node),
                )

        return self._grouping.place(expression, missing)

    def _determined(self, column: ColumnRef) -> bool:
        """Return whether the group columns fix a column."""
        return self._from.determined(column, self._grouping.expressions)


def _is_star(node: Any) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def shown_column(node: Any, outputs: Sequence[Output], clause: str) -> Scalar | None:
    """The shown column that the number or the name in ORDER BY or DISTINCT ON means; None if it means none."""
    position = _shown_position(node, outputs, clause)
    if position is not None:
        return position
    if not isinstance(node, exp.Column) or node.args.get("table") is not None:
        return None
    named = {o.expression for o in outputs if o.name == name_of(node.this)}
    if len(named) > 1:
        raise InvalidQuery(f'{clause} "{name_of(node.this)}" is ambiguous.', span_of(node))
    return named.pop() if named else None


def _shown_position(node: Any, outputs: Sequence[Output], clause: str) -> Scalar | None:
    """The shown column that ``ORDER BY 2`` means."""
    if not isinstance(node, exp.Literal):
        return None
    text = str(node.this)
    if node.is_string or not text.isdecimal() or not 1 <= int(text) <= len(outputs):
        raise InvalidQuery(f"{clause} {text} is not the number of a column that is shown.", span_of(node))
    return outputs[int(text) - 1].expression


def _members(node: Any) -> list[Any]:
    """The expressions of DISTINCT ON."""
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]
