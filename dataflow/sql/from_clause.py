"""FROM and WHERE: tables, queries and joins of them, name by name, into one `loose_block`.

A join tree's rows keep their places whatever is joined how; the scopes of its sides say what may be named in ON.

Not here: what a name in FROM means (`sources`), subqueries in expressions (`subqueries`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, Span, UnsupportedParameter, UnsupportedQuery
from dataflow.plan.expressions import equality, null_of_nulls, shift, used_columns
from dataflow.plan.nodes import AggregateCall, BlockInput, Chain, Relation
from dataflow.plan.nullability import never_null
from dataflow.plan.rewriting import input_of, inputs_used, offsets
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.schema import Table, UpstreamView
from dataflow.sql.conditions import BoundParameter, bind_conditions, bind_parts, split_by_keys
from dataflow.sql.correlation import Around, Correlations
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.aggregates import refuse_aggregate
from dataflow.sql.expressions.bind import Binder, OnAggregate, OnSubquery, refuse_subquery
from dataflow.sql.expressions.scope import FromItem, NamedColumn, Scope, find_relation, name_of
from dataflow.sql.free_parameters import (
    check_reading,
    choose_host,
    columns_beside,
    hosting,
    is_list,
    places,
    refuse_parameter,
)
from dataflow.sql.join_syntax import is_comma, is_join, lateral_of, require_only
from dataflow.sql.joined_names import aliased, check_names, merged, side_column
from dataflow.sql.loose_block import LooseBlock, Mark, Pending, refuse_pending
from dataflow.sql.row_functions import rows_of_function
from dataflow.sql.sources import Derived, Environment, renamed, row_without_table
from dataflow.sql.subqueries import Subqueries, defaulted
from dataflow.sql.syntax.parse import parameter_name, parameter_span
from dataflow.sql.syntax.spans import span_of


@dataclass(frozen=True, slots=True)
class _Item:
    """One side of a join: its names, and what it is joined by because of LATERAL."""

    scope: Scope
    on: tuple[Scalar, ...] = ()
    #: It is joined already: a LATERAL aggregate without GROUP BY, which has a row for every row beside it.
    joined: bool = False


class FromClause:
    """FROM and WHERE of one SELECT, item by item."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.joined = LooseBlock()
        self.correlations = Correlations(environment.around, self.joined)
        self.scope = Scope(outer=self.correlations.inside)
        self.subqueries = Subqueries(environment, self)
        self._direct = False
        #: The columns that free parameters could be, by name, once there is a host; those of the ones used.
        self._host: dict[str, int] = {}
        self._free: dict[str, ColumnRef] = {}

    @property
    def inputs(self) -> list[BlockInput]:
        """The joined relations."""
        return self.joined.inputs

    @property
    def conjuncts(self) -> list[Scalar]:
        """The conditions that all joined rows meet."""
        return self.joined.conjuncts

    @property
    def parameters(self) -> list[BoundParameter]:
        """The columns that keys and correlations are compared with."""
        return self.joined.parameters

    def binder(self, on_aggregate: OnAggregate = refuse_aggregate, on_subquery: OnSubquery | None = None) -> Binder:
        """Binds expressions over what is joined."""
        return self._binder(self.scope, on_aggregate, on_subquery)

    def _binder(
        self,
        scope: Scope,
        on_aggregate: OnAggregate = refuse_aggregate,
        on_subquery: OnSubquery | None = None,
    ) -> Binder:
        return Binder(
            self.environment.sql,
            scope,
            self.environment.dialect,
            on_aggregate,
            on_subquery or self.subqueries.bind,
            self.environment.catalog,
            self._on_parameter,
        )

    # Free parameters

    def _on_parameter(self, node: exp.Placeholder, binder: Binder) -> Scalar:
        sql_type = self.environment.free.get(parameter_name(node))
        if sql_type is None or is_list(node) != (sql_type.kind == "array"):
            raise refuse_parameter(node, binder)
        check_reading(node, sql_type, binder)
        return self._free_column(
            parameter_name(node), parameter_span(node), columns_beside(node, replace(self.scope, outer=None))
        )

    def _free_column(self, name: str, span: Span | None, beside: Sequence[Scalar] = ()) -> ColumnRef:
        """The column of the host that a free parameter is; `beside`: columns that it is compared with."""
        if name not in self._free:
            known = self._known(name)
            self._free[name] = known or self._hosted(name, span, beside)
            if known is None:
                self.parameters.append(BoundParameter(name, self._free[name], span))
        return self._free[name]

    def _known(self, name: str) -> ColumnRef | None:
        """A column of an inner input that equals the parameter anyway."""
        wanted = BoundParameter(name, ColumnRef(0, self.environment.free[name]), None)
        found = self.joined.bound(wanted)
        return found if isinstance(found, ColumnRef) else None

    def _hosted(self, name: str, span: Span | None, beside: Sequence[Scalar]) -> ColumnRef:
        if not self._host:
            compared = [*(p.expression for p in self.parameters), *beside]
            self._host = choose_host(self.inputs, compared, self.environment.free)
        if name not in self._host:
            reason = f"The parameter :{name} has no table beside it that it could pick rows of."
            raise UnsupportedParameter(reason, span, name, below=True)
        return ColumnRef(self._host[name], self.environment.free[name])

    def offer(self) -> None:
        """Has the parameters that queries around this one, in whose FROM it stands, want of it."""
        for name in sorted(self.environment.below) if self.environment.in_from else ():
            self._free_column(name, None)

    # Clauses

    def read_row(self, select: exp.Select, *, top: bool) -> None:
        """Joins the one row of a SELECT without FROM, with the free parameters that stand in it. That of a view is
        there for subqueries to be joined to, if there are parameters."""
        written = top or select.find(exp.Placeholder) is not None
        free = self.environment.free if written else self.environment.wanted if self.environment.in_from else {}
        relation = row_without_table(self.environment, free) if free or not top else None
        if relation is not None:
            self._host = places(free, self.joined.append(relation))

    def read(self, select: exp.Select) -> None:
        """Joins all that FROM names."""
        self._direct = select is self.environment.subquery
        clause = select.args.get("from_")
        trees: list[tuple[Any, list[Any]]] = [] if clause is None else [(clause.this, [])]
        for join in select.args.get("joins") or ():
            if is_comma(join):
                trees.append((join.this, []))
            else:
                trees[-1][1].append(join)
        for item, joins in trees:
            scope = self._tree(item, joins, self.scope)
            check_names(self.scope, scope, item)
            self.scope = self.scope.joined(scope)
        self.correlations.forget()

    def where(self, node: exp.Expr) -> None:
        """WHERE: a conjunct that names the query around is a correlation, or is computed for each of its rows."""
        binder = self._binder(replace(self.scope, outer=self.correlations.named))
        for parts in split_by_keys(node, binder):
            self._where(*bind_parts(parts, binder, self.environment.free))

    def _where(self, conjuncts: Sequence[Scalar], parameters: Sequence[BoundParameter]) -> None:
        for part in conjuncts:
            found = self.correlations.correlated(part)
            if found is not None:
                self.parameters.append(found)
            elif self._direct and self.correlations.around_only(part):
                self.correlations.require(part)
            else:
                self.conjuncts.append(self.correlations.settled(part))
        for p in parameters:
            self.parameters.append(replace(p, expression=self.correlations.settled(p.expression)))

    def finish(self, calls: Iterable[AggregateCall]) -> None:
        """Settles what parameters and correlations mean, once all expressions and aggregate calls are bound."""
        # What binds one may bind others, and changes the list.
        while pending := self.joined.finish():
            self.joined.bind(pending[0], self._value_of(pending[0]))
        if self.environment.shared:
            self._share()
        self.correlations.finish()
        for call in calls:
            used = used_columns(call.argument, *call.others, *(t.expression for t in call.order), call.keeps)
            if used and used <= self.correlations.columns:
                raise UnsupportedQuery(
                    "An aggregate in a subquery whose columns are all of the query around it belongs to that one."
                )

    def _share(self) -> None:
        """Joins relations by the free parameters that they have with a host here."""
        for p in [p for p in self.parameters if p.name in self.environment.free and p.single]:
            compared = [other.expression for other in self.parameters if other is not p]
            if not choose_host(self.inputs, compared, self.environment.free) or self._is_of_chain(p.expression):
                continue
            self.parameters.remove(p)
            self.conjuncts.append(functions.comparison("=", p.expression, self._free_column(p.name, p.span)))

    def _is_of_chain(self, expression: Scalar) -> bool:
        starts = offsets(self.inputs)
        inputs = inputs_used(starts, used_columns(expression))
        return all(isinstance(self.inputs[i].relation, Chain) for i in inputs)

    def _value_of(self, pending: Pending) -> Scalar:
        """The column that a pending parameter equals, of a domain or as a free one."""
        parameter = pending.parameter
        if parameter.outer is not None:
            return self.correlations.domain(parameter.outer)
        if parameter.name not in self.environment.free or not parameter.single:
            raise refuse_pending(pending)
        return self._free_column(parameter.name, parameter.span)

    # Subqueries

    def around(self, scope: Scope) -> Around:
        """The names that a subquery in an expression with these names may use."""
        return Around(self.joined, replace(scope, outer=self.correlations.inside), self.environment.catalog)

    def attach(
        self, relation: Relation, on: Sequence[Scalar], parameters: Sequence[BoundParameter], *, every: bool
    ) -> None:
        """Joins the relation of a subquery behind all others, by `on`; `every`: it has one row for certain."""
        position = len(self.inputs)
        self.joined.append(relation)
        if not (every and not on and not parameters):
            self.joined.join_left(position, [self.correlations.settled(part) for part in on], parameters)

    @property
    def width(self) -> int:
        """The first column of the next relation."""
        return self.joined.width

    def never_null(self, expression: Scalar) -> bool:
        """Return whether a column of the joined row is never NULL."""
        if not isinstance(expression, ColumnRef) or expression.index >= self.width:
            return isinstance(expression, Literal) and expression.value is not None
        starts = offsets(self.inputs)
        position = input_of(starts, expression.index)
        item = self.inputs[position]
        return not item.left and never_null(
            item.relation, expression.index - starts[position], self.environment.catalog
        )

    def determined(self, column: ColumnRef, grouped: Iterable[Scalar]) -> bool:
        """Return whether columns of a group fix a column: its table's primary key is there, or a correlation fixes
        it."""
        if column.index in self.correlations.columns or column in self._free.values():
            return True
        starts = offsets(self.inputs)
        position = input_of(starts, column.index)
        relation = self.inputs[position].relation
        if not isinstance(relation, Chain):
            return False
        keys = self.environment.catalog.tables[relation.table].keys
        places = {c.index: starts[position] + i for i, c in enumerate(relation.columns) if isinstance(c, ColumnRef)}
        known = {g.index for g in grouped if isinstance(g, ColumnRef)}
        return bool(keys) and all(places.get(c) in known for c in keys[0])

    # Items

    def _tree(self, node: Any, joins: Iterable[Any], beside: Scope) -> Scope:
        """A table or query, and what is joined to it. `beside`: what LATERAL may name."""
        since = self.joined.mark()
        item = self._item(node, beside)
        self.conjuncts.extend(item.on)
        scope = item.scope
        for join in joins:
            scope = self._join(join, scope, since, beside)
        return scope

    def _item(self, node: Any, beside: Scope) -> _Item:
        joins = node.args.get("joins") or ()
        if joins:
            bare = node.copy()
            bare.set("joins", None)
            return _Item(self._tree(bare, joins, beside))
        if isinstance(node, exp.Subquery) and is_join(node.this):
            require_only(node, "this", "alias")
            return _Item(aliased(self._tree(node.this, (), beside), node))
        if isinstance(node, exp.Table | exp.Lateral) and isinstance(node.this, exp.Func):
            derived = rows_of_function(node, self.environment)
            return self._derived(derived, node, derived.columns[0][0])
        if isinstance(node, exp.Lateral):
            return self._lateral(node, beside)
        if isinstance(node, exp.Subquery):
            require_only(node, "this", "alias", "order", "limit", "offset", "with_")
            return self._derived(self.environment.lower(node.copy(), replace(self.environment, in_from=True)), node, "")
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            require_only(node, "this", "db", "catalog", "alias")
            return self._derived(self._named(node), node, name_of(node.this), self._table_name(node))
        if isinstance(node, exp.Values):
            return self._derived(self.environment.lower(node, replace(self.environment, in_from=True)), node, "")
        raise UnsupportedQuery(f"{node.sql('postgres')} in FROM is not kept up to date.", span_of(node))

    def _table_name(self, node: exp.Table) -> str | None:
        """The qualified name that a column may be written with."""
        if node.args.get("alias") is not None:
            return None
        if node.args.get("db") is None and name_of(node.this) in self.environment.ctes:
            return None
        found = find_relation(self.environment.catalog, node)
        return None if isinstance(found, str) else found.name

    def _named(self, node: exp.Table) -> Derived:
        """A table, a common table expression, or a view."""
        name = name_of(node.this)
        cte = None if node.args.get("db") else self.environment.read_cte(name)
        if cte is not None:
            return cte
        found = find_relation(self.environment.catalog, node)
        if isinstance(found, Table):
            refs = tuple(ColumnRef(i, column.type) for i, column in enumerate(found.columns))
            name_in = self.environment.dialect.name
            columns = tuple((name_in(c.name), i, c.type) for i, c in enumerate(found.columns))
            return Derived(hosting(Chain(found.name, None, refs), self.environment.free), columns)
        if isinstance(found, UpstreamView):
            return self.environment.read_view(found, node)
        return self.environment.read_registered(found, node)

    def _lateral(self, node: exp.Lateral, beside: Scope) -> _Item:
        require_only(node, "this", "alias")
        if not isinstance(node.this, exp.Subquery):
            raise UnsupportedQuery(f"{node.this.sql('postgres')} in FROM is not kept up to date.", span_of(node))
        return self._for_each_row(node.this.this, node, beside)

    def _for_each_row(self, query: exp.Expr, node: exp.Expr, beside: Scope) -> _Item:
        """A query that may name what is `beside` it, in place of an item."""
        around = Around(self.joined, beside, self.environment.catalog)
        derived = self.environment.lower(query, self.environment.within(around, query))
        if not isinstance(node, exp.Table):
            return self._derived(derived, node, "", around=around)
        return self._derived(derived, node, name_of(node.this), self._table_name(node), around)

    def _derived(
        self, derived: Derived, node: exp.Expr, default: str, table: str | None = None, around: Around | None = None
    ) -> _Item:
        """Joins a relation, for now as an inner input. `around`: it is LATERAL."""
        alias = node.args.get("alias")
        derived = renamed(derived, alias)
        name = name_of(alias.this) if alias is not None and alias.this is not None else default
        offset = self.joined.append(derived.relation)
        own = [replace(p, expression=shift(p.expression, offset)) for p in derived.parameters]
        on: list[Scalar] = [] if around is None else list(around.conditions)
        for p in own:
            if p.outer is not None and (around is not None or derived.default is not None):
                value = p.outer if around is not None else self.correlations.domain(p.outer)
                on.append(functions.comparison("=", p.expression, value))
            elif derived.default is None:
                self.parameters.append(p)
        columns = tuple(NamedColumn(n, ColumnRef(offset + place, t)) for n, place, t in derived.columns)
        if derived.default is not None:
            known = [p for p in own if p.outer is None]
            self.joined.join_left(input_of(offsets(self.inputs), offset), on, known)
            columns = tuple(
                NamedColumn(n, defaulted(derived, place, offset, self.environment.catalog))
                for n, place, _ in derived.columns
            )
        scope = Scope()
        scope.add(FromItem(name, columns, table), span_of(node))
        if derived.default is not None:
            return _Item(scope, joined=True)
        return _Item(scope, tuple(on))

    # Joins

    def _join(self, node: exp.Join, left: Scope, since: Mark, beside: Scope) -> Scope:
        side, kind, method = (str(node.args.get(k) or "").upper() for k in ("side", "kind", "method"))
        if method not in ("", "NATURAL") or kind not in ("", "INNER", "OUTER", "CROSS"):
            raise UnsupportedQuery(f"{method or kind} JOIN is not PostgreSQL's.", span_of(node))
        require_only(node, "this", "on", "using", "side", "kind", "method")
        middle = self.joined.mark()
        query = lateral_of(node)
        if query is None:
            item = self._item(node.this, beside.joined(left))
        else:
            item = self._for_each_row(query, node.this, beside.joined(left))
            node = exp.Join(**{**node.args, "on": exp.true()})
        end = self.joined.mark()
        check_names(left, item.scope, node.this)
        scope = left.joined(item.scope)
        if side in ("RIGHT", "FULL") and (item.on or item.joined):
            raise UnsupportedQuery(f"LATERAL on the right of a {side} JOIN is not kept up to date.", span_of(node))
        if not side:
            conjuncts, parameters = self._on(node, scope, left, item.scope, side)
            self.conjuncts.extend([*item.on, *conjuncts])
            self.parameters.extend(parameters)
        elif item.joined:
            self._left_of_every_row(node, scope)
        else:
            self._outer(node, side, scope, left, item, (since, middle, end))
        self.correlations.forget()
        return scope

    def _left_of_every_row(self, node: exp.Join, scope: Scope) -> None:
        """LEFT JOIN LATERAL of what has a row for every row: only ON true leaves it as it is."""
        free = self.environment.free
        if node.args.get("using") or bind_conditions(node.args["on"], self._binder(scope), free) != ([], []):
            raise UnsupportedQuery(
                "A condition in the ON of a LEFT JOIN LATERAL of an aggregate without GROUP BY is not kept up to date.",
                span_of(node.args.get("on")) or span_of(node),
            )

    def _outer(
        self, node: exp.Join, side: str, scope: Scope, left: Scope, item: _Item, marks: tuple[Mark, Mark, Mark]
    ) -> None:
        since, middle, end = marks
        padded = {"LEFT": [item.scope], "RIGHT": [left], "FULL": [left, item.scope]}[side]
        self._check_padding(padded, node)
        inside: list[BoundParameter] = []
        if side != "RIGHT":
            inside += self.joined.take_parameters(middle, end)
        if side != "LEFT":
            inside += self.joined.take_parameters(since, middle)
        self.joined.collapse(middle, end)
        if side != "LEFT":
            self.joined.collapse(since, middle)
        position = middle.inputs if side == "LEFT" else since.inputs
        for place in (position, position + 1) if side == "FULL" else (position,):
            self.joined.pad(place)
        self._forget_padded()
        conjuncts, parameters = self._on(node, scope, left, item.scope, side)
        if side == "FULL":
            hosted = used_columns(*conjuncts) & {column.index for column in self._free.values()}
            if inside or parameters or hosted:
                span = (inside + parameters)[0].span if inside or parameters else span_of(node)
                raise UnsupportedQuery("A parameter inside a FULL JOIN is not kept up to date.", span)
            self.joined.join_full(since.inputs, conjuncts, span_of(node))
            return
        self.joined.join_left(position, [*item.on, *conjuncts], inside + parameters)

    def _forget_padded(self) -> None:
        """Leaves no free parameter a column that is padded: it is NULL in rows that have the parameter's value."""
        if any(map(self.joined.padded, self._host.values())):
            self._host = {}
        self._free = {name: column for name, column in self._free.items() if not self.joined.padded(column.index)}

    def _check_padding(self, scopes: Sequence[Scope], node: exp.Join) -> None:
        """A computed column must be NULL where its table is padded."""
        every = set(range(self.width))
        for named in (n for scope in scopes for source in scope.sources for n in source.columns):
            if not null_of_nulls(named.column, every):
                raise UnsupportedQuery(
                    "LATERAL of an aggregate without GROUP BY inside an outer join is not kept up to date.",
                    span_of(node),
                )

    def _on(
        self, node: exp.Join, scope: Scope, left: Scope, right: Scope, side: str
    ) -> tuple[list[Scalar], list[BoundParameter]]:
        """The conjuncts of ON, USING or NATURAL, and the parameters in it."""
        if node.args.get("using"):
            return self._using([(name_of(i), i) for i in node.args["using"]], scope, left, right, side), []
        if node.args.get("method"):
            names = dict.fromkeys(n.name for n in left.star if any(n.name == m.name for m in right.star))
            return self._using([(name, node.this) for name in names], scope, left, right, side), []
        on = node.args.get("on")
        if on is None:
            if str(node.args.get("kind") or "").upper() != "CROSS":
                raise InvalidQuery("A JOIN needs ON, USING or CROSS.", span_of(node))
            return [], []
        inner = replace(scope, outer=self.correlations.inside)
        binder = self._binder(inner, on_subquery=refuse_subquery if side else None)
        return bind_conditions(on, binder, self.environment.free)

    def _using(
        self, names: Sequence[tuple[str, exp.Expr]], scope: Scope, left: Scope, right: Scope, side: str
    ) -> list[Scalar]:
        pairs = [(side_column(left, n, node, "left"), side_column(right, n, node, "right")) for n, node in names]
        for (ours, theirs), (_, node) in zip(pairs, names, strict=True):
            if not ours.column.type.comparable or ours.column.type.family != theirs.column.type.family:
                raise UnsupportedQuery("USING with columns of two types is not kept up to date.", span_of(node))
        scope.merge([(NamedColumn(a.name, merged(a.column, b.column, side)), a, b) for a, b in pairs])
        return [equality(a.column, b.column) for a, b in pairs]
