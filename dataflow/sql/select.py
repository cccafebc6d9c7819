"""A SELECT to a relation: FROM and WHERE to a loose block, GROUP BY to an aggregate over it, the rest to a block above.

*Invariants*: the relation has a column for everything that is shown, ordered by or asked for by a parameter.

Not here: rewriting the plan (`plan.optimize`), the view (`lower`).
"""

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, Span, UnsupportedQuery
from dataflow.plan.expressions import conjunction, used_columns
from dataflow.plan.nodes import Aggregate, Block, BlockInput, Chain, OrderTerm
from dataflow.plan.rules.rewriting import input_columns, input_of, offsets
from dataflow.scalar import ColumnRef, Scalar
from dataflow.sql import functions
from dataflow.sql.aggregates import Calls, Grouping
from dataflow.sql.bind import Binder
from dataflow.sql.conditions import BoundParameter, bind_conditions, unify
from dataflow.sql.naming import column_name
from dataflow.sql.scope import Scope, name_of
from dataflow.sql.sources import Environment, FromClause
from dataflow.sql.spans import span_of
from dataflow.values import comparable, one_text

_KNOWN = {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "with_", "kind"}
_REASONS = {
    "distinct": "SELECT DISTINCT is not kept up to date yet.",
    "windows": "Window functions are not kept up to date yet.",
    "qualify": "QUALIFY is not PostgreSQL's.",
    "laterals": "LATERAL is not kept up to date yet.",
}


@dataclass(frozen=True, slots=True)
class Output:
    """A column that a SELECT shows, as an expression over its input."""

    name: str
    expression: Scalar
    #: Where it stands, for errors.
    node: exp.Expr | None


@dataclass(frozen=True, slots=True)
class Lowered:
    """A SELECT as a relation."""

    relation: Block
    #: Name and column of what is shown.
    outputs: tuple[tuple[str, int], ...]
    parameters: tuple[BoundParameter, ...]
    order: tuple[OrderTerm, ...]
    #: An aggregate without GROUP BY.
    scalar: bool
    #: Where a visible group column is whose equal values may print differently; None if there is none.
    ambiguous_group: Span | None = None


@dataclass(slots=True)
class _Columns:
    """The columns of a block in the making, each expression once."""

    expressions: list[Scalar] = field(default_factory=list)

    def add(self, expression: Scalar) -> int:
        if expression not in self.expressions:
            self.expressions.append(expression)
        return self.expressions.index(expression)


class SelectLowering:
    """Lowers one SELECT."""

    def __init__(self, select: exp.Select, environment: Environment) -> None:
        self._select = select
        self._environment = environment.extended(select.args.get("with_"))
        self._from = FromClause(self._environment)
        self._calls = Calls()
        self._grouping = Grouping()
        self._ambiguous: Span | None = None

    def lower(self) -> Lowered:
        """The relation, with its order; LIMIT is the caller's."""
        self._check_clauses()
        self._from.read(self._select)
        where = self._select.args.get("where")
        if where is not None:
            conjuncts, parameters = bind_conditions(where.this, self._from.binder())
            self._from.conjuncts += conjuncts
            self._from.parameters += parameters
        self._from.require(self._from.parameters)
        outputs = self._outputs()
        ordered = self._ordered(outputs)
        having = self._select.args.get("having")
        conditions = bind_conditions(having.this, self._binder()) if having is not None else ([], [])
        if having is None and self._select.args.get("group") is None and not self._calls.calls:
            return self._plain(outputs, ordered)
        return self._grouped(outputs, ordered, *conditions)

    def _check_clauses(self) -> None:
        for clause, value in self._select.args.items():
            if value and clause not in _KNOWN:
                reason = _REASONS.get(clause, f"{clause.strip('_').upper()} is not kept up to date yet.")
                raise UnsupportedQuery(reason, span_of(value) if isinstance(value, exp.Expr) else None)
        if self._select.args.get("from_") is None:
            raise UnsupportedQuery("The SELECT reads no table.")

    @property
    def _scope(self) -> Scope:
        return self._from.scope

    def _binder(self) -> Binder:
        return Binder(self._environment.sql, self._scope, self._calls.bind)

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
        expression = functions.settled(self._binder().bind(inner))
        name = name_of(node.args["alias"]) if isinstance(node, exp.Alias) else column_name(inner, self._environment.sql)
        return Output(name, expression, inner)

    def _ordered(self, outputs: list[Output]) -> list[tuple[Scalar, exp.Ordered]]:
        order = self._select.args.get("order")
        if order is None:
            return []
        return [(self._order_expression(term, outputs), term) for term in order.expressions]

    def _order_expression(self, term: Any, outputs: list[Output]) -> Scalar:
        node = term.this
        if term.args.get("with_fill"):
            raise UnsupportedQuery("WITH FILL is not PostgreSQL's.", span_of(term))
        position = _position(node, outputs, "ORDER BY")
        if position is not None:
            return position
        if isinstance(node, exp.Column) and node.args.get("table") is None:
            named = {o.expression for o in outputs if o.name == name_of(node.this)}
            if len(named) > 1:
                raise InvalidQuery(f'ORDER BY "{name_of(node.this)}" is ambiguous.', span_of(node))
            if named:
                return named.pop()
        return functions.settled(self._binder().bind(node))

    # Without GROUP BY

    def _plain(self, outputs: list[Output], ordered: list[tuple[Scalar, exp.Ordered]]) -> Lowered:
        parameters, equalities = unify(self._from.parameters)
        predicate = conjunction([*self._from.conjuncts, *equalities])
        return self._finish(tuple(self._from.inputs), predicate, outputs, ordered, parameters, scalar=False)

    def _finish(
        self,
        inputs: tuple[BlockInput, ...],
        predicate: Scalar | None,
        outputs: list[Output],
        ordered: list[tuple[Scalar, exp.Ordered]],
        parameters: list[BoundParameter],
        *,
        scalar: bool,
    ) -> Lowered:
        columns = _Columns()
        shown = tuple((o.name, columns.add(o.expression)) for o in outputs)
        order = tuple(_order_term(columns.add(expression), term, expression) for expression, term in ordered)
        placed = tuple(
            BoundParameter(p.name, ColumnRef(columns.add(p.expression), p.expression.type), p.span) for p in parameters
        )
        block = Block(inputs, predicate, tuple(columns.expressions))
        return Lowered(block, shown, placed, order, scalar, self._ambiguous)

    # With GROUP BY

    def _grouped(
        self,
        outputs: list[Output],
        ordered: list[tuple[Scalar, exp.Ordered]],
        having: list[Scalar],
        having_parameters: list[BoundParameter],
    ) -> Lowered:
        group = self._select.args.get("group")
        if group is not None:
            self._group_by(group, outputs)
        place = self._place
        outputs = [Output(o.name, place(o.expression, o.node), o.node) for o in outputs]
        ordered = [(place(expression, term), term) for expression, term in ordered]
        having = [place(part, self._select.args.get("having")) for part in having]
        named = [BoundParameter(p.name, place(p.expression, None), p.span) for p in having_parameters]
        for expression in self._grouping.expressions:
            if not one_text(expression.type):
                self._ambiguous = self._ambiguous or span_of(self._select.args.get("group")) or Span(0, 0)
        parameters, equalities = unify(self._from.parameters)
        if group is None:
            self._check_scalar(parameters)
        for p in parameters:
            place_of = ColumnRef(self._grouping.add(p.expression), p.expression.type)
            named.insert(0, BoundParameter(p.name, place_of, p.span))
        aggregate = self._aggregate(conjunction([*self._from.conjuncts, *equalities]), scalar=group is None)
        settle = self._grouping.settle
        named = [BoundParameter(p.name, settle(p.expression), p.span) for p in named]
        unified, more = unify(named)
        return self._finish(
            (BlockInput(aggregate),),
            conjunction([*(settle(h) for h in having), *more]),
            [Output(o.name, settle(o.expression), o.node) for o in outputs],
            [(settle(expression), term) for expression, term in ordered],
            unified,
            scalar=group is None,
        )

    def _group_by(self, group: Any, outputs: list[Output]) -> None:
        if any(v for k, v in group.args.items() if k != "expressions"):
            raise UnsupportedQuery("GROUPING SETS, CUBE and ROLLUP are not kept up to date yet.", span_of(group))
        for node in group.expressions:
            expression = self._group_expression(node, outputs)
            if any(index >= len(input_columns(self._joined())) for index in used_columns(expression)):
                raise InvalidQuery("Aggregate functions cannot stand in GROUP BY.", span_of(node))
            if not comparable(expression.type):
                raise UnsupportedQuery(
                    f"When {expression.type.sql} values are equal is not known exactly.", span_of(node)
                )
            if used_columns(expression):
                self._grouping.add(expression)

    def _group_expression(self, node: Any, outputs: list[Output]) -> Scalar:
        position = _position(node, outputs, "GROUP BY")
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
        return functions.settled(self._from.binder().bind(node))

    def _place(self, expression: Scalar, node: exp.Expr | None) -> Scalar:
        def missing(column: ColumnRef) -> None:
            if not self._determined(column):
                raise InvalidQuery(
                    "A column that is shown, ordered by or in HAVING must stand in GROUP BY or in an aggregate.",
                    span_of(node),
                )

        return self._grouping.place(expression, missing)

    def _determined(self, column: ColumnRef) -> bool:
        """Whether the group columns have the primary key of the column's table."""
        starts = offsets(self._from.inputs)
        position = input_of(starts, column.index)
        relation = self._from.inputs[position].relation
        if not isinstance(relation, Chain):
            return False
        keys = self._environment.catalog.tables[relation.table].keys
        places = {c.index: starts[position] + i for i, c in enumerate(relation.columns) if isinstance(c, ColumnRef)}
        grouped = {g.index for g in self._grouping.expressions if isinstance(g, ColumnRef)}
        return bool(keys) and all(places.get(c) in grouped for c in keys[0])

    def _check_scalar(self, parameters: list[BoundParameter]) -> None:
        """An aggregate without GROUP BY has a row for every key, so its parameters must be plain, different columns."""
        seen: set[Scalar] = set()
        for p in parameters:
            if not isinstance(p.expression, ColumnRef) or p.expression in seen:
                raise UnsupportedQuery(
                    "Without GROUP BY, an aggregate takes each parameter for a column of its own, and no expression.",
                    p.span,
                )
            seen.add(p.expression)

    def _joined(self) -> Block:
        return Block(tuple(self._from.inputs), None, ())

    def _aggregate(self, predicate: Scalar | None, *, scalar: bool) -> Aggregate:
        joined = input_columns(self._joined())
        columns = _Columns(list(joined))
        group = tuple(columns.add(expression) for expression in self._grouping.expressions)
        block = Block(tuple(self._from.inputs), predicate, tuple(columns.expressions))
        return Aggregate(block, group, tuple(self._calls.calls), scalar)


def _is_star(node: Any) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _position(node: Any, outputs: list[Output], clause: str) -> Scalar | None:
    """The shown column that ``ORDER BY 2`` means."""
    if not isinstance(node, exp.Literal):
        return None
    text = str(node.this)
    if node.is_string or not text.isdecimal() or not 1 <= int(text) <= len(outputs):
        raise InvalidQuery(f"{clause} {text} is not the number of a column that is shown.", span_of(node))
    return outputs[int(text) - 1].expression


def _order_term(column: int, term: Any, expression: Scalar) -> OrderTerm:
    try:
        functions.sortable(expression)
    except UnsupportedQuery as error:
        raise UnsupportedQuery(error.reason, span_of(term)) from error
    return OrderTerm(column, bool(term.args.get("desc")), bool(term.args.get("nulls_first")))
