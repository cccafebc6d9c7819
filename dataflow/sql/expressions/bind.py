"""Expressions of the syntax tree to typed scalars over the joined row.

Every kind of node has its line in its dialect's table (`dialect`); what has none is an UnsupportedQuery with its place.

Not here: what nodes mean (`postgres.expressions`, `mysql.expressions`), types and functions (`functions`), aggregates
(`aggregates` hooks in), parameters (`conditions`).
"""

from collections.abc import Callable

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.scalar import Scalar
from dataflow.schema import Catalog, SqlType
from dataflow.sql.expressions.dialect import Dialect
from dataflow.sql.expressions.scope import Scope
from dataflow.sql.expressions.subquery_forms import subquery_form
from dataflow.sql.expressions.written_calls import function_name, has_others
from dataflow.sql.syntax.parse import parameter_name, parameter_span
from dataflow.sql.syntax.spans import span_of

#: What becomes of an aggregate or window function: its result as a scalar.
OnAggregate = Callable[[exp.Expr, "Binder"], Scalar]
#: What becomes of a subquery.
OnSubquery = Callable[[exp.Expr, "Binder"], Scalar]
#: What becomes of a parameter that is no key, list or range.
OnParameter = Callable[[exp.Placeholder, "Binder"], Scalar]

#: Function nodes, and the names by which PostgreSQL has them (the parser knows other databases' synonyms).
_NAMES: dict[type[exp.Expr], frozenset[str]] = {
    exp.Coalesce: frozenset({"coalesce"}),
    exp.Nullif: frozenset({"nullif"}),
    exp.Date: frozenset({"date"}),
}
_REASONS: dict[type[exp.Expr], str] = {
    exp.CurrentTimestamp: "The current time is not a function of the database's contents.",
    exp.CurrentDate: "The current time is not a function of the database's contents.",
    exp.Rand: "A random number is not a function of the database's contents.",
}


def refuse_subquery(node: exp.Expr, binder: "Binder") -> Scalar:
    """Refuses a subquery without a relation to join it to."""
    del binder
    raise UnsupportedQuery("A subquery here is not kept up to date.", span_of(node))


def refuse_parameter(node: exp.Placeholder, binder: "Binder") -> Scalar:
    """Refuses a parameter where there is no chain that could have it for a column."""
    del binder
    raise UnsupportedQuery(f"The parameter :{parameter_name(node)} cannot stand here.", parameter_span(node))


class Binder:
    """Binds expressions in a scope."""

    def __init__(
        self,
        sql: str,
        scope: Scope,
        dialect: Dialect,
        on_aggregate: OnAggregate,
        on_subquery: OnSubquery = refuse_subquery,
        catalog: Catalog | None = None,
        on_parameter: OnParameter = refuse_parameter,
    ) -> None:
        self.sql = sql
        self.scope = scope
        self.catalog = Catalog() if catalog is None else catalog
        self.dialect = dialect
        self._on_aggregate = on_aggregate
        self._on_subquery = on_subquery
        self.parameter = on_parameter

    @property
    def text(self) -> SqlType:
        """Text of no column."""
        return self.catalog.text

    def bind(self, node: exp.Expr | None) -> Scalar:
        """The scalar that `node` means; constants may still be of no type."""
        if node is None:
            raise InvalidQuery("An argument is missing.")
        if subquery_form(node) is not None:
            return self._placed(node, lambda: self._on_subquery(node, self))
        if self._is_aggregate(node):
            return self._placed(node, lambda: self._on_aggregate(node, self))
        bind = self.dialect.binders.get(type(node))
        if bind is not None:
            return self._placed(node, lambda: bind(self, node))
        raise UnsupportedQuery(self._reason(node), span_of(node))

    def _is_aggregate(self, node: exp.Expr) -> bool:
        """Return whether `node` is an aggregate or window function, or is to be refused as one."""
        if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup | exp.Window):
            return True
        return isinstance(node, exp.Func) and self.written_name(node) in self.dialect.aggregates

    def calls_aggregate(self, node: exp.Expr) -> bool:
        """Return whether an aggregate (and not as a window function) stands in `node`, outside of subqueries."""
        found = node.walk(prune=lambda n: isinstance(n, exp.Query))
        return any(self._is_aggregate(n) and not _is_windowed(n) for n in found if not isinstance(n, exp.Query))

    def within_aggregate(self, node: exp.Expr, select: exp.Select) -> bool:
        """Return whether `node` of a SELECT stands in an aggregate's parentheses."""
        parent = node.parent
        while parent is not None and parent is not select:
            if self._is_aggregate(parent) and not _is_windowed(parent):
                return True
            parent = parent.parent
        return False

    def condition(self, node: exp.Expr) -> Scalar:
        """The boolean that `node` means."""
        return self._placed(node, lambda: self.dialect.condition(self.bind(node)))

    def value(self, node: exp.Expr | None) -> Scalar:
        """Binds `node` as a value that is output, ordered or grouped by, or aggregated."""
        return self.dialect.value(self.bind(node), self.text)

    def _placed(self, node: exp.Expr, bind: Callable[[], Scalar]) -> Scalar:
        """Gives an error the place of the innermost node it belongs to."""
        try:
            return bind()
        except (UnsupportedQuery, InvalidQuery) as error:
            if error.span is None:
                error.span = span_of(node)
            raise

    def _reason(self, node: exp.Expr) -> str:
        reason = _REASONS.get(type(node))
        if reason is not None:
            return reason
        if isinstance(node, exp.Func):
            return f"{self.written_name(node).upper()} is not on the list of exact functions."
        return f"{node.sql('postgres')} is not on the list of exact expressions."

    def written_name(self, node: exp.Expr) -> str:
        """The name of a function as the SQL has it, in lower case."""
        # The parser has one node for both, without its place.
        if isinstance(node, exp.GroupConcat) and "group_concat" in self.dialect.aggregates:
            return "group_concat"
        return function_name(node, self.sql)

    def check_function(self, node: exp.Expr, *arguments: str) -> None:
        """Refuses a function by another database's name, or with arguments that we do not know."""
        written = self.written_name(node)
        if has_others(node, *arguments) or written not in _NAMES.get(type(node), {written}):
            raise UnsupportedQuery(f"{written.upper()} is not on the list of exact functions.")

    def all(self, nodes: list[exp.Expr]) -> list[Scalar]:
        """Several scalars."""
        return [self.bind(node) for node in nodes]


def _is_windowed(node: exp.Expr) -> bool:
    """A window function, or the function in front of its OVER."""
    filtered = node.parent if isinstance(node.parent, exp.Filter) else node
    window = filtered.parent
    return isinstance(node, exp.Window) or (isinstance(window, exp.Window) and window.this is filtered)
