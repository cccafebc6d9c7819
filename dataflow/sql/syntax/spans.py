"""Places of syntax nodes in the SQL text.

The parser notes a place for names, functions and a few more; constants have none. A span is the hull of what is below.
"""

from sqlglot import exp

from dataflow.errors import Span
from dataflow.sql.syntax.parse import parameter_span


def span_of(node: exp.Expr | None) -> Span | None:
    """The hull of all noted places below `node`; None if nothing is noted."""
    if node is None:
        return None
    spans = [span for part in node.walk() if (span := _own(part)) is not None]
    if not spans:
        return span_of(node.parent) if isinstance(node, exp.Literal | exp.Null | exp.Boolean) else None
    return Span(min(s.start for s in spans), max(s.end for s in spans))


def _own(node: exp.Expr) -> Span | None:
    if isinstance(node, exp.Placeholder):
        return parameter_span(node)
    start, end = node.meta.get("start"), node.meta.get("end")
    return Span(start, end + 1) if isinstance(start, int) and isinstance(end, int) else None
