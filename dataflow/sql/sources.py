"""FROM: base tables, common table expressions and derived tables, joined into one loose block.

*Invariants*: inner joins leave no conditions, only conjuncts; a LEFT JOIN's ON is split into equalities with what it
hangs off, and filters of its own rows, which go into its relation.

Not here: what a derived table's SELECT means (`select`, handed in as a function).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import column_equality, equality, null_of_nulls, substitute, used_columns
from dataflow.plan.nodes import Block, BlockInput, Chain, JoinCondition, Relation, column_types
from dataflow.plan.rules.push_predicates import filtered
from dataflow.plan.rules.rewriting import input_columns, input_of, offsets, widths
from dataflow.scalar import ColumnRef, Scalar
from dataflow.schema import Catalog, SqlType
from dataflow.sql.aggregates import refuse_aggregate
from dataflow.sql.bind import Binder, OnAggregate
from dataflow.sql.conditions import BoundParameter, bind_conditions
from dataflow.sql.scope import Scope, find_table, name_of
from dataflow.sql.spans import span_of
from dataflow.values import comparable, family


@dataclass(frozen=True, slots=True)
class Derived:
    """What a SELECT in FROM gives: a relation, its visible columns, and its parameters' columns."""

    relation: Relation
    columns: tuple[tuple[str, int, SqlType], ...]
    parameters: tuple[BoundParameter, ...] = ()


#: Lowers a SELECT in FROM; the common table expressions it may name come with it.
LowerDerived = Callable[[exp.Expr, "Environment"], Derived]


@dataclass(frozen=True, slots=True)
class Environment:
    """What names in FROM may mean."""

    sql: str
    catalog: Catalog
    lower: LowerDerived
    #: Common table expressions by name, each with what it may name itself.
    ctes: Mapping[str, tuple[exp.CTE, "Environment"]] = field(default_factory=dict)

    def extended(self, node: exp.Expr | None) -> "Environment":
        """With the common table expressions of a WITH."""
        if node is None:
            return self
        if node.args.get("recursive"):
            raise UnsupportedQuery("WITH RECURSIVE is not kept up to date yet.", span_of(node))
        environment = self
        for cte in node.expressions:
            ctes = {**environment.ctes, name_of(cte.args["alias"].this): (cte, environment)}
            environment = Environment(self.sql, self.catalog, self.lower, ctes)
        return environment


@dataclass(slots=True)
class FromClause:
    """FROM, item by item."""

    environment: Environment
    scope: Scope = field(default_factory=Scope)
    inputs: list[BlockInput] = field(default_factory=list)
    conjuncts: list[Scalar] = field(default_factory=list)
    parameters: list[BoundParameter] = field(default_factory=list)
    #: Whether a comma was seen: JOIN binds tighter.
    commas: bool = False

    def binder(self, on_aggregate: OnAggregate = refuse_aggregate) -> Binder:
        """Binds expressions over what is joined so far."""
        return Binder(self.environment.sql, self.scope, on_aggregate)

    def read(self, select: exp.Select) -> None:
        """Joins all that FROM names."""
        self._item(select.args["from_"].this)
        for join in select.args.get("joins") or ():
            self._join(join)

    def require(self, parameters: list[BoundParameter]) -> None:
        """A parameter on a left input's column lets none of its padding through: the input is an inner one."""
        for parameter in parameters:
            starts, sizes = offsets(self.inputs), widths(self.inputs)
            for i, item in enumerate(self.inputs):
                own = set(range(starts[i], starts[i] + sizes[i]))
                if item.left and null_of_nulls(parameter.expression, own):
                    columns = input_columns(Block(tuple(self.inputs), None, ()))
                    self.conjuncts += [
                        equality(columns[starts[i] + c.own], columns[starts[c.input] + c.column])
                        for c in item.conditions
                    ]
                    self.inputs[i] = BlockInput(item.relation)

    # Items

    def _item(self, node: Any, left: bool = False) -> None:
        """Appends a table, a derived table, or a join in parentheses."""
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            if left:
                raise UnsupportedQuery(
                    "A join in parentheses as the right side of a LEFT JOIN is not kept yet.", span_of(node)
                )
            self._item(node.this)
        elif isinstance(node, exp.Subquery):
            self._derived(node.this, node, self.environment, left)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            self._table(node, left)
        else:
            raise UnsupportedQuery(f"{node.sql('postgres')} in FROM is not kept up to date yet.", span_of(node))
        for join in node.args.get("joins") or ():
            self._join(join)

    def _table(self, node: exp.Table, left: bool) -> None:
        _only(node, "this", "db", "catalog", "alias", "joins")
        cte = None if node.args.get("db") else self.environment.ctes.get(name_of(node.this))
        if cte is not None:
            definition, environment = cte
            self._derived(definition.this, node, environment, left, definition.args["alias"])
            return
        table = find_table(self.environment.catalog, node)
        refs = tuple(ColumnRef(i, column.type) for i, column in enumerate(table.columns))
        columns = tuple((column.name, i, column.type) for i, column in enumerate(table.columns))
        self._append(node, name_of(node.this), Derived(Chain(table.name, None, refs), columns), left)

    def _derived(
        self, query: exp.Expr, node: exp.Expr, environment: Environment, left: bool, inner_alias: exp.Expr | None = None
    ) -> None:
        derived = environment.lower(query, environment)
        if inner_alias is not None:
            derived = _renamed(derived, inner_alias)
        if derived.parameters and left:
            raise UnsupportedQuery(
                "A parameter inside the right side of a LEFT JOIN is not kept up to date yet.",
                derived.parameters[0].span,
            )
        default = name_of(node.this) if isinstance(node, exp.Table) else ""
        self._append(node, default, derived, left)

    def _append(self, node: exp.Expr, default: str, derived: Derived, left: bool) -> None:
        alias = node.args.get("alias")
        name = default
        if alias is not None:
            name = name_of(alias.this) if alias.this is not None else default
            derived = _renamed(derived, alias)
        offset = self.scope.width
        self.scope.add(name, derived.relation, derived.columns, span_of(node))
        self.inputs.append(BlockInput(derived.relation, left))
        for parameter in derived.parameters:
            expression = substitute(parameter.expression, lambda ref: ColumnRef(ref.index + offset, ref.type))
            self.parameters.append(replace(parameter, expression=expression))

    # Joins

    def _join(self, node: exp.Join) -> None:
        side, kind, method = (str(node.args.get(k) or "").upper() for k in ("side", "kind", "method"))
        if side in ("RIGHT", "FULL"):
            raise UnsupportedQuery(f"{side} JOIN is not kept up to date yet.", span_of(node))
        if method or kind not in ("", "INNER", "OUTER", "CROSS"):
            raise UnsupportedQuery(f"{method or kind} JOIN is not kept up to date yet.", span_of(node))
        _only(node, "this", "on", "using", "side", "kind")
        first = len(self.inputs)
        before = self.scope.copy()
        self._item(node.this, left=side == "LEFT")
        conjuncts, parameters = self._on(node, before)
        if side == "LEFT":
            self._left(first, conjuncts, parameters, node)
        else:
            self.conjuncts += conjuncts
            self.parameters += parameters

    def _on(self, node: exp.Join, before: Scope) -> tuple[list[Scalar], list[BoundParameter]]:
        using = node.args.get("using")
        if using:
            return self._using(before, using), []
        if not any(node.args.get(k) for k in ("on", "side", "kind")):
            self.commas = True
        on = node.args.get("on")
        return bind_conditions(on, self.binder()) if on is not None else ([], [])

    def _using(self, before: Scope, identifiers: list[Any]) -> list[Scalar]:
        if self.commas:
            raise UnsupportedQuery("USING behind a comma in FROM is not kept up to date yet.", span_of(identifiers[0]))
        pairs = [self._pair(before, identifier) for identifier in identifiers]
        self.scope.merge(pairs)
        return [equality(left, right) for left, right in pairs]

    def _pair(self, before: Scope, identifier: Any) -> tuple[ColumnRef, ColumnRef]:
        column = exp.Column(this=identifier.copy())
        column.this.meta.update(identifier.meta)
        left = before.resolve(column)
        source = self.scope.sources[-1]
        name = name_of(identifier)
        right = next((c.column for c in source.columns if c.name == name), None)
        if right is None:
            raise InvalidQuery(f'There is no column "{name}" in "{source.alias}".', span_of(identifier))
        if not comparable(left.type) or family(left.type) != family(right.type):
            raise UnsupportedQuery("USING with columns of two types is not kept up to date yet.", span_of(identifier))
        return left, right

    def _left(self, position: int, conjuncts: list[Scalar], parameters: list[BoundParameter], node: exp.Join) -> None:
        """The ON of the left input at `position`, the last one."""
        if parameters:
            raise UnsupportedQuery(
                "A parameter in the ON of a LEFT JOIN is not kept up to date yet.", parameters[0].span
            )
        starts = offsets(self.inputs)
        start = starts[position]
        relation: Relation = self.inputs[position].relation
        conditions: list[JoinCondition] = []
        for part in conjuncts:
            condition = _condition(part, starts, position)
            below: Relation | None = None
            if condition is not None:
                conditions.append(condition)
                continue
            if all(c >= start for c in used_columns(part)):
                local = substitute(part, lambda ref: ColumnRef(ref.index - start, ref.type))
                below = filtered(relation, local) or _filtered_above(relation, local)
            if below is None:
                raise UnsupportedQuery(
                    "The ON of a LEFT JOIN may only have equalities of columns of both sides, and conditions on the"
                    " right side's own columns, yet.",
                    span_of(node.args.get("on")),
                )
            relation = below
        if not conditions:
            raise UnsupportedQuery("A LEFT JOIN needs an equality of columns of both sides.", span_of(node))
        self.inputs[position] = BlockInput(relation, True, tuple(conditions))


def _filtered_above(relation: Relation, part: Scalar) -> Block:
    columns = tuple(ColumnRef(i, t) for i, t in enumerate(column_types(relation)))
    return Block((BlockInput(relation),), part, columns)


def _condition(part: Scalar, starts: list[int], position: int) -> JoinCondition | None:
    """``own = other`` as a condition of the input at `position`."""
    pair = column_equality(part)
    if pair is None:
        return None
    own, other = sorted(pair, key=lambda ref: -ref.index)
    at = input_of(starts, other.index)
    if input_of(starts, own.index) != position or at == position:
        return None
    if not comparable(own.type) or family(own.type) != family(other.type):
        return None
    return JoinCondition(own.index - starts[position], at, other.index - starts[at])


def _renamed(derived: Derived, alias: exp.Expr) -> Derived:
    """With the column names that an alias gives, if it gives any."""
    names = [name_of(c) for c in alias.args.get("columns") or ()]
    if len(names) > len(derived.columns):
        raise InvalidQuery("An alias names more columns than there are.", span_of(alias))
    renamed = tuple((name, *column[1:]) for name, column in zip(names, derived.columns, strict=False))
    return Derived(derived.relation, (*renamed, *derived.columns[len(names) :]), derived.parameters)


def _only(node: exp.Expr, *known: str) -> None:
    unknown = [k for k, v in node.args.items() if v and k not in known]
    if unknown:
        raise UnsupportedQuery(f"{node.sql('postgres')} in FROM is not kept up to date yet.", span_of(node))
