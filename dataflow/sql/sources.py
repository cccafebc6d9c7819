"""Meanings of names in FROM, and the result of a query in FROM.

Not here: joining them (`from_clause`), what a query means (`queries`, handed in as a function).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.nodes import OrderTerm, Relation
from dataflow.plan.parametric import row_of_parameters
from dataflow.schema import Catalog, SqlType, Table, UpstreamView
from dataflow.sql.conditions import BoundParameter
from dataflow.sql.correlation import Around
from dataflow.sql.dialects import dialect_of
from dataflow.sql.expressions.dialect import Dialect
from dataflow.sql.expressions.scope import find_relation, name_of
from dataflow.sql.free_parameters import FreeParameters
from dataflow.sql.syntax.parse import parse
from dataflow.sql.syntax.spans import span_of
from dataflow.types import Row


@dataclass(frozen=True, slots=True)
class Derived:
    """The result of a query in FROM or in an expression: a relation, its visible columns, its parameters' columns."""

    relation: Relation
    columns: tuple[tuple[str, int, SqlType], ...]
    parameters: tuple[BoundParameter, ...] = ()
    #: Whether SQL has exactly one row here, whatever the parameters are.
    one_row: bool = False
    #: With `one_row` and parameters: the relation's row where it has none.
    default: Row | None = None
    #: The order of its rows, where it was asked for.
    order: tuple[OrderTerm, ...] = ()


class LowerDerived(Protocol):
    """Lowers a query in FROM or in an expression."""

    def __call__(self, node: exp.Expr, environment: "Environment", *, ordered: bool = False) -> Derived:
        """The query's meaning; `environment` is what it may name. `ordered`: the order of its rows matters."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Meanings of names in FROM."""

    sql: str
    catalog: Catalog
    lower: LowerDerived
    #: Common table expressions by name, each with what it may name itself.
    ctes: Mapping[str, tuple[exp.CTE, "Environment"]] = field(default_factory=dict)
    #: The SELECT around, if this is of a subquery of it, or of LATERAL; and the subquery as a whole.
    around: Around | None = None
    subquery: exp.Expr | None = None
    #: The views that are being read.
    reading: tuple[str, ...] = ()
    #: The parameters that are columns of chains.
    free: FreeParameters = field(default_factory=dict)
    #: Of these, those that queries in FROM have for the queries around them; and whether this is of such a query.
    below: frozenset[str] = frozenset()
    in_from: bool = False
    #: Whether those of subqueries are columns of the query around as well, which its key begins with.
    shared: bool = False
    #: Conditions on the current time by which reads pick rows before these are grouped.
    picking: frozenset[str] = frozenset()
    #: A table that the view reads.
    table: Table | None = None

    @property
    def dialect(self) -> Dialect:
        return dialect_of(self.catalog.dialect)

    @property
    def wanted(self) -> FreeParameters:
        """The free parameters that queries in FROM have for the queries around them."""
        return {name: self.free[name] for name in sorted(self.below)}

    def extended(self, node: exp.Expr | None) -> "Environment":
        """With the common table expressions of a WITH."""
        if node is None:
            return self
        if node.args.get("recursive"):
            raise UnsupportedQuery("WITH RECURSIVE is not kept up to date.", span_of(node))
        environment = self
        names: set[str] = set()
        for cte in node.expressions:
            name = name_of(cte.args["alias"].this)
            if name in names:
                raise InvalidQuery(f'WITH gives the name "{name}" twice.', span_of(cte.args["alias"]))
            names.add(name)
            environment = replace(environment, ctes={**environment.ctes, name: (cte, environment)})
        return environment

    def within(self, around: Around, subquery: exp.Expr) -> "Environment":
        """For a subquery that may name what is `around` it."""
        return replace(self, around=around, subquery=subquery, in_from=False)

    def read_cte(self, name: str) -> Derived | None:
        """A common table expression; None if there is none of this name."""
        if name not in self.ctes:
            return None
        cte, environment = self.ctes[name]
        derived = renamed(self.lower(cte.this, environment), cte.args["alias"])
        if environment.around is not self.around and any(p.outer is not None for p in derived.parameters):
            raise UnsupportedQuery(
                f'"{name}" names columns of another query around it than where it is read.', span_of(cte.args["alias"])
            )
        return derived

    def read_view(self, view: UpstreamView, node: exp.Expr) -> Derived:
        """A view of the upstream, as the query that it stands for."""
        derived = self._read(view.name, view.sql, node)
        if len(derived.columns) != len(view.columns) or any(
            column.type.family != sql_type.family
            for column, (_, _, sql_type) in zip(view.columns, derived.columns, strict=True)
        ):
            raise UnsupportedQuery(f"The view {view.name} has columns of other types than expected.", span_of(node))
        columns = zip(view.columns, derived.columns, strict=True)
        named = ((self.dialect.name(c.name), place, sql_type) for c, (_, place, sql_type) in columns)
        return replace(derived, columns=tuple(named))

    def read_registered(self, name: str, node: exp.Expr) -> Derived:
        """Another registered view; one with parameters is no relation."""
        derived = self._read(name, self.catalog.registered[name], node)
        if derived.parameters:
            raise InvalidQuery(
                f'The view "{name}" has parameters (:{derived.parameters[0].name}), so that it has no rows of its own'
                " to read.",
                span_of(node),
                "Register a view without them, and read that.",
            )
        return derived

    def _read(self, name: str, sql: str, node: exp.Expr) -> Derived:
        if name in self.reading:
            raise InvalidQuery(f'The view "{name}" reads itself.', span_of(node))
        try:
            query = parse(sql, self.dialect.grammar)
            table = table_in(query, self.catalog)
            return self.lower(
                query, Environment(sql, self.catalog, self.lower, reading=(*self.reading, name), table=table)
            )
        except (InvalidQuery, UnsupportedQuery) as error:
            raise UnsupportedQuery(f'The view "{name}" in FROM: {error.reason}', span_of(node)) from error


def renamed(derived: Derived, alias: exp.Expr | None) -> Derived:
    """With the column names that an alias gives, if it gives any."""
    names = [name_of(c) for c in alias.args.get("columns") or ()] if alias is not None else []
    if len(names) > len(derived.columns):
        raise InvalidQuery("An alias names more columns than there are.", span_of(alias))
    columns = tuple((name, *column[1:]) for name, column in zip(names, derived.columns, strict=False))
    return replace(derived, columns=(*columns, *derived.columns[len(names) :]))


def row_without_table(environment: Environment, free: FreeParameters) -> Relation | None:
    """One row with some free parameters, nominally of a table that the view reads; None if it reads none."""
    table = environment.table
    return None if table is None else row_of_parameters(table, [free[name] for name in sorted(free)])


def table_in(query: exp.Expr, catalog: Catalog) -> Table | None:
    """A table that a query names; None if it names none."""
    ctes = {name_of(cte.args["alias"].this) for cte in query.find_all(exp.CTE)}
    for node in query.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and (
            node.args.get("db") is not None or name_of(node.this) not in ctes
        ):
            found = find_relation(catalog, node)
            if isinstance(found, Table):
                return found
    return None
