"""Expressions of the syntax tree to typed scalars over the joined row.

Every kind of node has its line in a table; what has none is an UnsupportedQuery with its place.

Not here: types and functions (`functions`), aggregates (`aggregates` hooks in), parameters (`conditions`).
"""

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import TRUE
from dataflow.plan.nodes import AggregateFunction
from dataflow.scalar import Literal, Scalar
from dataflow.sql import functions
from dataflow.sql.naming import function_name
from dataflow.sql.parse import parameter_name
from dataflow.sql.scope import Scope
from dataflow.sql.spans import span_of
from dataflow.sql.types import UNKNOWN, cast_type

#: What becomes of an aggregate or window function: its result as a scalar.
OnAggregate = Callable[[exp.Expr, "Binder"], Scalar]

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "is not distinct from", exp.NullSafeNEQ: "is distinct from",
}  # fmt: skip
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
#: Function nodes, and the names by which PostgreSQL has them (the parser knows other databases' synonyms).
_NAMES: dict[type[exp.Expr], frozenset[str]] = {
    exp.Coalesce: frozenset({"coalesce"}),
    exp.Nullif: frozenset({"nullif"}),
    exp.Length: frozenset({"length", "char_length", "character_length"}),
}
#: Aggregates that the parser may take for functions of any other kind.
_AGGREGATES = frozenset({*(f.value for f in AggregateFunction), "every"})
_REASONS: dict[type[exp.Expr], str] = {
    exp.Subquery: "Subqueries inside expressions are not kept up to date yet.",
    exp.Select: "Subqueries inside expressions are not kept up to date yet.",
    exp.Exists: "Subqueries inside expressions are not kept up to date yet.",
    exp.CurrentTimestamp: "The current time is not a function of the database's contents.",
    exp.CurrentDate: "The current time is not a function of the database's contents.",
    exp.Rand: "A random number is not a function of the database's contents.",
    exp.Collate: "COLLATE is not kept up to date yet.",
}


class Binder:
    """Binds expressions in a scope."""

    def __init__(self, sql: str, scope: Scope, on_aggregate: OnAggregate) -> None:
        self.sql = sql
        self.scope = scope
        self._on_aggregate = on_aggregate

    def bind(self, node: exp.Expr | None) -> Scalar:
        """The scalar that `node` means; constants may still be of no type."""
        if node is None:
            raise InvalidQuery("An argument is missing.")
        bind = _BINDERS.get(type(node))
        if bind is not None:
            return self._placed(node, lambda: bind(self, node))
        if self._is_aggregate(node):
            return self._placed(node, lambda: self._on_aggregate(node, self))
        raise UnsupportedQuery(self._reason(node), span_of(node))

    def _is_aggregate(self, node: exp.Expr) -> bool:
        """Whether `node` is an aggregate or window function, or is to be refused as one."""
        if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup | exp.Window):
            return True
        return isinstance(node, exp.Func) and self.written_name(node) in _AGGREGATES

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
        unknown = [k for k, v in node.args.items() if v and k not in arguments]
        if unknown or self.written_name(node) not in _NAMES.get(type(node), {self.written_name(node)}):
            raise UnsupportedQuery(f"{self.written_name(node).upper()} is not on the list of exact functions.")

    def all(self, nodes: list[exp.Expr]) -> list[Scalar]:
        """Several scalars."""
        return [self.bind(node) for node in nodes]


def _column(binder: Binder, node: Any) -> Scalar:
    if isinstance(node.this, exp.Star):
        raise UnsupportedQuery("A whole row as one value is not kept up to date yet.")
    return binder.scope.resolve(node)


def _literal(_: Binder, node: Any) -> Scalar:
    return Literal(str(node.this), UNKNOWN) if node.is_string else functions.constant_of(str(node.this))


def _boolean(_: Binder, node: Any) -> Scalar:
    return Literal("t" if node.this else "f", TRUE.type)


def _comparison(binder: Binder, node: Any) -> Scalar:
    return functions.comparison(_COMPARISONS[type(node)], binder.bind(node.this), binder.bind(node.expression))


def _arithmetic(binder: Binder, node: Any) -> Scalar:
    return functions.arithmetic(_ARITHMETIC[type(node)], binder.bind(node.this), binder.bind(node.expression))


def _logical(binder: Binder, node: Any) -> Scalar:
    parts = [binder.bind(part) for part in node.flatten()]
    return functions.logical("and" if isinstance(node, exp.And) else "or", parts)


def _not(binder: Binder, node: Any) -> Scalar:
    return functions.logical("not", [binder.bind(node.this)])


def _is(binder: Binder, node: Any) -> Scalar:
    words = {exp.Null: "null", exp.Boolean: "true"}
    word = words.get(type(node.expression))
    if word is None:
        raise UnsupportedQuery(f"{node.sql('postgres')} is not on the list of exact expressions.")
    if isinstance(node.expression, exp.Boolean) and not node.expression.this:
        word = "false"
    return functions.test(binder.bind(node.this), f"is {'not ' if node.args.get('negate') else ''}{word}")


def _in(binder: Binder, node: Any) -> Scalar:
    if node.args.get("query") is not None:
        raise UnsupportedQuery(_REASONS[exp.Subquery])
    if node.args.get("unnest") is not None or node.args.get("field") is not None:
        raise UnsupportedQuery("IN takes a list of values here.")
    return functions.in_list(binder.bind(node.this), binder.all(node.expressions))


def _between(binder: Binder, node: Any) -> Scalar:
    if node.args.get("symmetric"):
        raise UnsupportedQuery("BETWEEN SYMMETRIC is not on the list of exact expressions.")
    return functions.between(binder.bind(node.this), binder.bind(node.args["low"]), binder.bind(node.args["high"]))


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
    binder_type = cast_type(node.args["to"])
    if node.args.get("format") or node.args.get("default"):
        raise UnsupportedQuery("This cast is not on the list of exact functions.")
    return functions.cast(binder.bind(node.this), binder_type)


def _length(binder: Binder, node: Any) -> Scalar:
    binder.check_function(node, "this")
    return functions.length(binder.bind(node.this))


def _parameter(_: Binder, node: Any) -> Scalar:
    name = parameter_name(node)
    raise UnsupportedQuery(
        f"The parameter :{name} may only stand in a condition `column = :{name}` that is ANDed with the others, yet."
    )


_BINDERS: dict[type[exp.Expr], Callable[[Binder, Any], Scalar]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: lambda _binder, _node: Literal(None, UNKNOWN),
    exp.Paren: lambda binder, node: binder.bind(node.this),
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
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
    exp.Neg: lambda binder, node: functions.negation(binder.bind(node.this)),
    exp.DPipe: lambda binder, node: functions.concatenation(binder.bind(node.this), binder.bind(node.expression)),
    exp.Like: lambda binder, node: functions.like(binder.bind(node.this), binder.bind(node.expression)),
    exp.Length: _length,
    exp.Placeholder: _parameter,
}
