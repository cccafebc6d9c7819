"""LIMIT, OFFSET and FETCH of a query: constants, or a parameter each (the view's own only)."""

from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import FALSE
from dataflow.plan.nodes import TopK
from dataflow.sql.clauses import Above, Columns, Rows, needed, placed, rows_of
from dataflow.sql.syntax.parse import parameter_name, parameter_span
from dataflow.sql.syntax.spans import span_of

#: A number, a parameter, or None for all rows.
Count = int | exp.Placeholder | None


@dataclass(frozen=True, slots=True)
class Limit:
    """How many rows a query gives, and from which on."""

    rows: Count = None
    offset: Count = None
    ties: bool = False

    @classmethod
    def of(cls, query: exp.Expr) -> "Limit":
        """The LIMIT and OFFSET of a SELECT or a UNION."""
        node, offset = query.args.get("limit"), query.args.get("offset")
        skipped = None if offset is None else _count(offset.expression, "OFFSET")
        if not isinstance(node, exp.Fetch):
            return cls(None if node is None else _count(node.expression, "LIMIT"), skipped)
        options = node.args.get("limit_options")
        if options is not None and options.args.get("percent"):
            raise UnsupportedQuery("FETCH … PERCENT is not PostgreSQL's.", span_of(node))
        ties = options is not None and bool(options.args.get("with_ties"))
        if ties and query.args.get("order") is None:
            raise InvalidQuery("WITH TIES needs an ORDER BY.", span_of(query.args.get("from_")))
        return cls(_count(node.args.get("count") or exp.Literal.number(1), "FETCH"), skipped, ties)

    @property
    def given(self) -> bool:
        """True if any rows can be left out."""
        return self.rows is not None or self.offset not in (None, 0)


def limited(rows: Rows, above: Above, limit: Limit) -> tuple[Rows, Above]:
    """LIMIT and OFFSET where they are not the view's own: the first rows of each key."""
    if limit.rows == 0:
        return replace(rows, conjuncts=(*rows.conjuncts, FALSE)), above
    above.require_single((), "the LIMIT")
    columns = Columns()
    partition = tuple(sorted({columns.add(p.expression) for p in above.parameters}))
    order = tuple(t.term(columns.add(t.expression)) for t in above.order)
    for expression in needed(above):
        columns.add(expression)
    source = rows.block(columns.expressions)
    top = TopK(source, partition, order, _constant(limit.rows), _constant(limit.offset) or 0, limit.ties)
    return placed(rows_of(top), above, columns)


def parameter_of(count: Count) -> str | None:
    """The name of the parameter that a count is; None if it is none."""
    return parameter_name(count) if isinstance(count, exp.Placeholder) else None


def number_of(count: Count) -> int | None:
    """The number that a count is; None if it is none."""
    return count if isinstance(count, int) else None


def _constant(count: Count) -> int | None:
    if isinstance(count, exp.Placeholder):
        raise UnsupportedQuery(
            f"The parameter :{parameter_name(count)} limits rows that are no view's own, or WITH TIES.",
            parameter_span(count),
        )
    return count


def _count(node: Any, clause: str) -> Count:
    while isinstance(node, exp.Paren | exp.Cast) and node.find(exp.Placeholder):
        node = node.this
    if isinstance(node, exp.Placeholder):
        return node
    if isinstance(node, exp.Null) or (isinstance(node, exp.Column | exp.Var) and node.name.upper() == "ALL"):
        return None
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal():
        return int(node.this)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        raise InvalidQuery(f"{clause} must not be negative.", span_of(node))
    raise UnsupportedQuery(f"{clause} takes a number or a parameter.", span_of(node))
