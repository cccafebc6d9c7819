"""The meaning of expressions in MariaDB and MySQL.

Only what is exactly the servers' is let through; what is not here is an UnsupportedQuery.

Not here: types of values beside each other (`values`), operators of numbers (`arithmetic`), functions (`calls`).
"""

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import TRUE
from dataflow.scalar import Call, Literal, Scalar
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import UNKNOWN
from dataflow.sql.expressions.written_calls import has_others, is_parameter_list
from dataflow.sql.mysql import arithmetic, calls, documents, moments, numbers, texts, values
from dataflow.sql.mysql.grammar import PARENTHESES

Bind = Callable[[Binder, Any], Scalar]

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "is not distinct from",
}
#: What the servers read from left to right, where the parser does not.
_LOOSE = (*_COMPARISONS, exp.Is, exp.In, exp.Like, exp.Between, exp.RegexpLike)
_SUMS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}


def _refusal(node: exp.Expr) -> UnsupportedQuery:
    return UnsupportedQuery(f"{node.sql('mysql')} is not on the list of exact expressions.")


def _check_only(node: exp.Expr, *arguments: str) -> None:
    if has_others(node, *arguments):
        raise _refusal(node)


def _bare(node: Any) -> Any:
    """A node without its NOT, nor parentheses that are not in the text."""
    while isinstance(node, exp.Not) or (isinstance(node, exp.Paren) and PARENTHESES not in node.meta):
        node = node.this
    return node


def _check_loose(*nodes: Any) -> None:
    if any(isinstance(_bare(n), _LOOSE) for n in nodes):
        raise UnsupportedQuery("Comparisons that are read from left to right need parentheses here.")


def _column(binder: Binder, node: Any) -> Scalar:
    if isinstance(node.this, exp.Star):
        raise _refusal(node)
    return binder.scope.resolve(node)


def _literal(_: Binder, node: Any) -> Scalar:
    return Literal(str(node.this), UNKNOWN) if node.is_string else values.constant_of(str(node.this))


def _boolean(_: Binder, node: Any) -> Scalar:
    return Literal("t" if node.this else "f", TRUE.type)


def _comparison(binder: Binder, node: Any) -> Scalar:
    _check_loose(node.this, node.expression)
    operator = _COMPARISONS[type(node)]
    rows = [_row(side) for side in (node.this, node.expression)]
    if rows[0] is not None and rows[1] is not None:
        return _row_comparison(operator, binder.all(rows[0]), binder.all(rows[1]))
    return values.comparison(operator, binder.bind(node.this), binder.bind(node.expression), binder.text)


def _row(node: Any) -> list[exp.Expr] | None:
    return list(node.expressions) if isinstance(node, exp.Tuple) else None


def _row_comparison(operator: str, left: list[Scalar], right: list[Scalar]) -> Scalar:
    if len(left) != len(right):
        raise UnsupportedQuery("Rows of different lengths are not compared.")
    pairs = list(zip(left, right, strict=True))
    if operator in ("=", "<>", "is not distinct from"):
        return values.logical(
            "or" if operator == "<>" else "and", [values.comparison(operator, a, b) for a, b in pairs]
        )
    return functions.row_order(operator, pairs, values.comparison, values.logical)


def _logical(binder: Binder, node: Any) -> Scalar:
    if any(isinstance(part, exp.Xor) for part in node.flatten(unnest=False)):
        raise UnsupportedQuery("XOR needs parentheses here.")
    parts = [binder.bind(part) for part in node.flatten()]
    return values.logical("and" if isinstance(node, exp.And) else "or", parts)


def _not(binder: Binder, node: Any) -> Scalar:
    return values.logical("not", [binder.bind(node.this)])


def _is(binder: Binder, node: Any) -> Scalar:
    _check_loose(node.this)
    negated = "not " if node.args.get("negate") else ""
    subject = binder.bind(node.this)
    if isinstance(node.expression, exp.Null) and _row(node.this) is None:
        return Call(f"is {negated}null", (values.null_tested(subject, binder.text),), TRUE.type)
    if isinstance(node.expression, exp.Boolean):
        word = "true" if node.expression.this else "false"
        return Call(f"is {negated}{word}", (values.condition(subject),), TRUE.type)
    raise _refusal(node)


def _in(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "expressions")
    _check_loose(node.this)
    if not node.expressions:
        raise InvalidQuery("IN takes at least one value.")
    row = _row(node.this)
    if row is None:
        subject, listed = _subject(binder, node.this), binder.all(node.expressions)
        if is_parameter_list(node):
            return functions.quantified("any", "=", binder.dialect.parameter(subject), listed[0])
        return values.in_list(subject, listed)
    members = binder.all(row)
    others = [_row(e) or [] for e in node.expressions]
    return values.logical("or", [_row_comparison("=", members, binder.all(other)) for other in others])


def _subject(binder: Binder, node: Any) -> Scalar:
    """The text of a parameter as one of the connection's collation, since one collation compares it with all others."""
    found = binder.bind(node)
    return found if found.type == UNKNOWN else values.collated(found, binder.text)


def _between(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "low", "high")
    parts = [binder.bind(node.args[k]) for k in ("this", "low", "high")]
    subject, low, high = (values.refuse_printed(part, "BETWEEN") for part in parts)
    # The bounds are compared as one type.
    if not isinstance(low, Literal) or not isinstance(high, Literal) or low.type.name != high.type.name:
        numbers = [e.type.is_number for e in (subject, low, high)]
        if not all(numbers) and not subject.type.name == low.type.name == high.type.name:
            raise _refusal(node)
    return values.logical("and", [values.comparison(">=", subject, low), values.comparison("<=", subject, high)])


def _like(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "expression", "negate")
    _check_loose(node.this)
    found = texts.like(binder, node)
    return values.logical("not", [found]) if node.args.get("negate") else found


def _cast(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "to", "_type")
    found = moments.literal(node)
    if found is not None:
        return found
    target, kind = node.to, node.to.this
    sizes = [int(e.this.this) for e in target.expressions if isinstance(e.this, exp.Literal)]
    if kind == exp.DType.DATE:
        return moments.as_date(binder.bind(node.this))
    if kind == exp.DType.BIGINT and not sizes:
        return numbers.as_signed(binder.bind(node.this))
    if kind == exp.DType.DECIMAL:
        precision, scale = [*sizes, *([10, 0][len(sizes) :])][:2]
        return numbers.as_decimal(binder.bind(node.this), precision, scale)
    if kind == exp.DType.CHAR and not target.expressions:
        return texts.of_number(binder.bind(node.this), binder.text)
    raise UnsupportedQuery("CAST to this type is not on the list of exact functions.")


def _case(binder: Binder, node: Any) -> Scalar:
    subject = None if node.this is None else _subject(binder, node.this)
    branches: list[tuple[Scalar, Scalar]] = []
    for branch in node.args["ifs"]:
        when = binder.bind(branch.this)
        if subject is None:
            when = values.condition(when)
        else:
            when = values.comparison("=", values.refuse_printed(subject, "CASE"), values.refuse_printed(when, "CASE"))
        branches.append((when, binder.bind(branch.args["true"])))
    default = node.args.get("default")
    return calls.case(branches, Literal(None, UNKNOWN) if default is None else binder.bind(default))


def _if(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "true", "false")
    if node.args.get("false") is None:
        raise _refusal(node)
    when = values.condition(binder.bind(node.this))
    return calls.case([(when, binder.bind(node.args["true"]))], binder.bind(node.args["false"]))


def _binary(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "expression")
    if isinstance(node.expression, exp.Interval) and isinstance(node, exp.Add | exp.Sub):
        name = "DATE_ADD" if isinstance(node, exp.Add) else "DATE_SUB"
        return moments.shifted(binder, name, node.this, node.expression)
    if isinstance(node.this, exp.Interval):
        # Its right side reaches to the end of the expression.
        raise _refusal(node)
    return arithmetic.binary(_SUMS[type(node)], binder.bind(node.this), binder.bind(node.expression))


BINDERS: dict[type[exp.Expr], Bind] = {
    exp.Column: _column,
    exp.Literal: _literal,
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
    exp.Like: _like,
    exp.Cast: _cast,
    exp.Extract: moments.extract,
    exp.Substring: texts.substring,
    exp.Trim: texts.trim,
    exp.JSONValue: documents.value,
    exp.Case: _case,
    exp.If: _if,
    **dict.fromkeys(_SUMS, _binary),
    exp.Div: lambda binder, node: arithmetic.quotient(binder.bind(node.this), binder.bind(node.expression)),
    exp.IntDiv: lambda binder, node: arithmetic.whole_quotient(binder.bind(node.this), binder.bind(node.expression)),
    exp.Neg: lambda binder, node: arithmetic.negation(binder.bind(node.this)),
    exp.Anonymous: calls.call,
    exp.Placeholder: lambda binder, node: binder.parameter(node, binder),
}
