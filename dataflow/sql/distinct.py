"""DISTINCT is a grouping by what is shown; DISTINCT ON keeps the first row of each group.

With a parameter below, the groups are those of one key: its column joins the group.
"""

from dataclasses import replace

from dataflow.errors import InvalidQuery, Span
from dataflow.plan.expressions import used_columns
from dataflow.plan.nodes import Aggregate, TopK
from dataflow.scalar import Scalar
from dataflow.sql.clauses import Above, Columns, Rows, comparable_group, needed, placed, rows_of
from dataflow.sql.syntax.spans import span_of


def distinct(rows: Rows, above: Above) -> tuple[Rows, Above]:
    """SELECT DISTINCT."""
    shown = [o.expression for o in above.outputs]
    above.require_single(shown, "the DISTINCT columns")
    for term in above.order:
        if term.expression not in shown:
            raise InvalidQuery("With SELECT DISTINCT, what ORDER BY names must be shown.", span_of(term.node))
    for output in above.outputs:
        comparable_group([output.expression], output.node)
    columns = Columns()
    for expression in (*shown, *(p.expression for p in above.parameters)):
        if used_columns(expression):
            columns.add(expression)
    group = tuple(range(len(columns.expressions)))
    return placed(rows_of(Aggregate(rows.block(columns.expressions), group, ())), above, columns)


def distinct_on(rows: Rows, above: Above, span: Span | None) -> tuple[Rows, Above]:
    """SELECT DISTINCT ON: by ORDER BY, the first row of each group."""
    grouped = [e for e in above.distinct_on if used_columns(e)]
    above.require_single(grouped, "DISTINCT ON")
    comparable_group(grouped, above.order[0].node if above.order else None)
    _check_order(above, grouped, span)
    columns = Columns()
    partition = {columns.add(e) for e in grouped}
    partition |= {columns.add(p.expression) for p in above.parameters if p.single}
    order = tuple(t.term(columns.add(t.expression)) for t in above.order if t.expression not in grouped)
    for expression in needed(above):
        columns.add(expression)
    top = TopK(rows.block(columns.expressions), tuple(sorted(partition)), order, 1)
    return placed(rows_of(top), replace(above, distinct_on=()), columns)


def _check_order(above: Above, grouped: list[Scalar], span: Span | None) -> None:
    """The first terms of ORDER BY must be those of DISTINCT ON, in any order."""
    leading = 0
    while leading < len(above.order) and above.order[leading].expression in grouped:
        leading += 1
    seen = {t.expression for t in above.order[:leading]}
    if leading < len(above.order) and seen != set(grouped):
        raise InvalidQuery("What DISTINCT ON names must come first in ORDER BY.", span)
