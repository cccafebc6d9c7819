"""Expressions of the syntax tree to typed scalars over the joined row.

Every kind of node has its line in a table, here or in `bind_functions`; what has none is an UnsupportedQuery with its
place.

Not here: types and functions (`functions`, `resolve`), aggregates (`aggregates` hooks in), parameters (`conditions`).
"""

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import TRUE
from dataflow.plan.nodes import AggregateFunction
from dataflow.scalar import Literal, Scalar
from dataflow.schema import Catalog, SqlType
from dataflow.sql import bind_functions, functions
from dataflow.sql.bind_functions import has_others
from dataflow.sql.naming import function_name
from dataflow.sql.parse import parameter_name
from dataflow.sql.scope import Scope
from dataflow.sql.spans import span_of
from dataflow.sql.subquery_forms import subquery_form
from dataflow.sql.types import UNKNOWN, cast_type, enum_type, type_of

#: What becomes of an aggregate or window function: its result as a scalar.
OnAggregate = Callable[[exp.Expr, "Binder"], Scalar]
#: What becomes of a subquery.
OnSubquery = Callable[[exp.Expr, "Binder"], Scalar]

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "is not distinct from", exp.NullSafeNEQ: "is distinct from",
}  # fmt: skip
#: Function nodes, and the names by which PostgreSQL has them (the parser knows other databases' synonyms).
_NAMES: dict[type[exp.Expr], frozenset[str]] = {
    exp.Coalesce: frozenset({"coalesce"}),
    exp.Nullif: frozenset({"nullif"}),
    exp.Date: frozenset({"date"}),
}
#: Words before an array whose elements are compared.
_QUANTIFIERS = {"any": "any", "some": "any", "all": "all"}
#: Aggregates that the parser may take for functions of any other kind.
_AGGREGATES = frozenset({*(f.value for f in AggregateFunction), "every"})
_REASONS: dict[type[exp.Expr], str] = {
    exp.CurrentTimestamp: "The current time is not a function of the database's contents.",
    exp.CurrentDate: "The current time is not a function of the database's contents.",
    exp.Rand: "A random number is not a function of the database's contents.",
}


def refuse_subquery(node: exp.Expr, binder: "Binder") -> Scalar:
    """Where there is nothing to join it to."""
    del binder
    raise UnsupportedQuery("A subquery here is not kept up to date.", span_of(node))


class Binder:
    """Binds expressions in a scope."""

    def __init__(
        self,
        sql: str,
        scope: Scope,
        on_aggregate: OnAggregate,
        on_subquery: OnSubquery = refuse_subquery,
        catalog: Catalog | None = None,
    ) -> None:
        self.sql = sql
        self.scope = scope
        self.catalog = Catalog() if catalog is None else catalog
        self._on_aggregate = on_aggregate
        self._on_subquery = on_subquery

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
        bind = _BINDERS.get(type(node)) or bind_functions.BINDERS.get(type(node))
        if bind is not None:
            return self._placed(node, lambda: bind(self, node))
        raise UnsupportedQuery(self._reason(node), span_of(node))

    def _is_aggregate(self, node: exp.Expr) -> bool:
        """Whether `node` is an aggregate or window function, or is to be refused as one."""
        if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup | exp.Window):
            return True
        return isinstance(node, exp.Func) and self.written_name(node) in _AGGREGATES

    def calls_aggregate(self, node: exp.Expr) -> bool:
        """Whether an aggregate (and not as a window function) stands in `node`, outside of subqueries."""
        found = node.walk(prune=lambda n: isinstance(n, exp.Query))
        return any(self._is_aggregate(n) and not _is_windowed(n) for n in found if not isinstance(n, exp.Query))

    def within_aggregate(self, node: exp.Expr, select: exp.Select) -> bool:
        """Whether `node` of a SELECT stands in an aggregate's parentheses."""
        parent = node.parent
        while parent is not None and parent is not select:
            if self._is_aggregate(parent) and not _is_windowed(parent):
                return True
            parent = parent.parent
        return False

    def condition(self, node: exp.Expr) -> Scalar:
        """The boolean that `node` means."""
        return self._placed(node, lambda: functions.condition(self.bind(node)))

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


def _column(binder: Binder, node: Any) -> Scalar:
    if isinstance(node.this, exp.Star):
        raise UnsupportedQuery("A whole row as one value is not kept up to date yet.")
    return binder.scope.resolve(node)


def _literal(_: Binder, node: Any) -> Scalar:
    return Literal(str(node.this), UNKNOWN) if node.is_string else functions.constant_of(str(node.this))


def _boolean(_: Binder, node: Any) -> Scalar:
    return Literal("t" if node.this else "f", TRUE.type)


def _comparison(binder: Binder, node: Any) -> Scalar:
    operator = _COMPARISONS[type(node)]
    rows = [_row(side) for side in (node.this, node.expression)]
    if rows[0] is not None and rows[1] is not None:
        return functions.row_comparison(operator, binder.all(rows[0]), binder.all(rows[1]))
    quantified = _quantifier(node.expression)
    if quantified is not None:
        quantifier, array = quantified
        return functions.quantified(quantifier, operator, binder.bind(node.this), binder.bind(array))
    return functions.comparison(operator, binder.bind(node.this), binder.bind(node.expression))


def _row(node: Any) -> list[exp.Expr] | None:
    """The members of ``(a, b)`` or ``ROW(a, b)``."""
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "row":
        return list(node.expressions)
    return None


def _quantifier(node: Any) -> tuple[str, exp.Expr] | None:
    """``any`` or ``all``, and the array behind it; not of a subquery."""
    if isinstance(node, exp.Any) and not isinstance(node.this, exp.Query):
        return "any", node.this
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        quantifier = _QUANTIFIERS.get(str(node.this).lower())
        return None if quantifier is None else (quantifier, node.expressions[0])
    return None


def _logical(binder: Binder, node: Any) -> Scalar:
    parts = [binder.bind(part) for part in node.flatten()]
    return functions.logical("and" if isinstance(node, exp.And) else "or", parts)


def _not(binder: Binder, node: Any) -> Scalar:
    return functions.logical("not", [binder.bind(node.this)])


def _is(binder: Binder, node: Any) -> Scalar:
    words = {exp.Null: "null", exp.Boolean: "true"}
    word = words.get(type(node.expression))
    if word is None or _row(node.this) is not None:
        raise UnsupportedQuery(f"{node.sql('postgres')} is not on the list of exact expressions.")
    if isinstance(node.expression, exp.Boolean) and not node.expression.this:
        word = "false"
    return functions.test(binder.bind(node.this), f"is {'not ' if node.args.get('negate') else ''}{word}")


def _in(binder: Binder, node: Any) -> Scalar:
    if has_others(node, "this", "expressions"):
        raise UnsupportedQuery("IN takes a list of values here.")
    if not node.expressions:
        raise InvalidQuery("IN takes at least one value.")
    row = _row(node.this)
    if row is None:
        return functions.in_list(binder.bind(node.this), binder.all(node.expressions))
    members = binder.all(row)
    others = [_row(e) or [] for e in node.expressions]
    return functions.logical("or", [functions.row_comparison("=", members, binder.all(other)) for other in others])


def _between(binder: Binder, node: Any) -> Scalar:
    if has_others(node, "this", "low", "high", "symmetric"):
        raise UnsupportedQuery(f"{node.sql('postgres')} is not on the list of exact expressions.")
    bind = functions.between_symmetric if node.args.get("symmetric") else functions.between
    return bind(binder.bind(node.this), binder.bind(node.args["low"]), binder.bind(node.args["high"]))


def _coalesce(binder: Binder, node: Any) -> Scalar:
    binder.check_function(node, "this", "expressions")
    return functions.coalesce([binder.bind(node.this), *binder.all(node.expressions)])


def _nullif(binder: Binder, node: Any) -> Scalar:
    binder.check_function(node, "this", "expression")
    return functions.nullif(binder.bind(node.this), binder.bind(node.expression))


def _case(binder: Binder, node: Any) -> Scalar:
    subject = None if node.this is None else binder.bind(node.this)
    branches = []
    for branch in node.args["ifs"]:
        when = binder.bind(branch.this)
        if subject is not None:
            when = functions.comparison("=", subject, when)
        branches.append((when, binder.bind(branch.args["true"])))
    default = node.args.get("default")
    return functions.case(branches, Literal(None, UNKNOWN) if default is None else binder.bind(default))


def _cast(binder: Binder, node: Any) -> Scalar:
    target = enum_type(node.args["to"], binder.catalog) or cast_type(node.args["to"])
    if node.args.get("format") or node.args.get("default"):
        raise UnsupportedQuery("This cast is not on the list of exact functions.")
    array = node.this.unnest()
    if target.kind == "array" and isinstance(array, exp.Array) and array.expressions:
        # The elements are cast themselves: to text, a constant would be text first.
        return functions.array_of_type(binder.all(array.expressions), target, binder.text)
    return functions.cast_to(binder.bind(node.this), target, binder.text)


def _date(binder: Binder, node: Any) -> Scalar:
    """``date(x)`` is a cast."""
    binder.check_function(node, "this")
    return functions.cast(binder.bind(node.this), type_of("date"))


def _parameter(_: Binder, node: Any) -> Scalar:
    name = parameter_name(node)
    raise UnsupportedQuery(
        f"The parameter :{name} may only stand in a condition `column = :{name}` that is ANDed with the others, yet."
    )


_BINDERS: dict[type[exp.Expr], Callable[[Binder, Any], Scalar]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.RawString: lambda _binder, node: Literal(str(node.this), UNKNOWN),
    exp.Boolean: _boolean,
    exp.Null: lambda _binder, _node: Literal(None, UNKNOWN),
    exp.Paren: lambda binder, node: binder.bind(node.this),
    **dict.fromkeys(_COMPARISONS, _comparison),
    exp.And: _logical,
    exp.Or: _logical,
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Date: _date,
    exp.Placeholder: _parameter,
}
