"""The ways in which a subquery stands in an expression, as syntax.

Not here: what they mean (`subqueries`).
"""

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


@dataclass(frozen=True, slots=True)
class ExistsForm:
    """``EXISTS (query)``."""

    query: exp.Expr


@dataclass(frozen=True, slots=True)
class QuantifiedForm:
    """``subject operator ANY (query)``; ``IN`` is ``= ANY``. `every`: ALL instead of ANY."""

    subject: exp.Expr
    operator: str
    every: bool
    query: exp.Expr


@dataclass(frozen=True, slots=True)
class ScalarForm:
    """``(query)`` as a value."""

    query: exp.Expr


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """``ARRAY(query)``: the values of all rows, in the query's order."""

    query: exp.Expr


Form = ExistsForm | QuantifiedForm | ScalarForm | ArrayForm


def subquery_form(node: Any) -> Form | None:
    """The form that `node` is; None if it is none."""
    if isinstance(node, exp.Exists):
        return ExistsForm(_query(node.this))
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return QuantifiedForm(node.this, "=", False, _query(node.args["query"]))
    if type(node) in _OPERATORS and isinstance(node.expression, exp.Any | exp.All):
        query = _query(node.expression.this)
        if isinstance(query, exp.Query):
            operator = _OPERATORS[type(node)]
            return QuantifiedForm(node.this, operator, isinstance(node.expression, exp.All), query)
    if isinstance(node, exp.Array) and len(node.expressions) == 1:
        (query,) = node.expressions
        if isinstance(query, exp.Select | exp.SetOperation):
            return ArrayForm(query)
    if isinstance(node, exp.Subquery | exp.Select | exp.SetOperation):
        return ScalarForm(_query(node))
    return None


def _query(node: Any) -> exp.Expr:
    """The query in parentheses."""
    while isinstance(node, exp.Subquery | exp.Paren) and {k for k, v in node.args.items() if v} <= {"this"}:
        node = node.this
    assert isinstance(node, exp.Expr)
    return node


def only_truth_matters(node: exp.Expr) -> bool:
    """Return whether FALSE and NULL of a condition come to the same: WHERE and what is ANDed and ORed in it, CASE
    WHEN."""
    parent = node.parent
    while isinstance(parent, exp.And | exp.Or | exp.Paren):
        node, parent = parent, parent.parent
    if isinstance(parent, exp.If):
        case = parent.parent
        return parent.this is node and isinstance(case, exp.Case) and case.this is None
    return isinstance(parent, exp.Where | exp.Having | exp.Join)
