"""From a view's SQL to its plan, or to the problem that says why not and where."""

from dataflow.errors import InvalidQuery, Span, UnsupportedQuery
from dataflow.plan.nodes import View
from dataflow.schema import Catalog
from dataflow.sql import plan_view
from service.errors import ApiError

#: Characters of SQL that a problem shows.
EXCERPT = 80


def planned(name: str, sql: str, catalog: Catalog) -> View:
    """The plan. Raises `ApiError` ``view_unsupported`` or ``view_invalid``."""
    try:
        return plan_view(name, sql, catalog)
    except UnsupportedQuery as error:
        raise ApiError("view_unsupported", error.reason, members=place(sql, error.span)) from None
    except InvalidQuery as error:
        raise ApiError("view_invalid", error.reason, error.hint, members=place(sql, error.span)) from None


def place(sql: str, span: Span | None) -> dict[str, object]:
    """Where in the SQL: 1-based line and column, and what stands there."""
    if span is None:
        span = Span(0, len(sql))
    start = min(span.start, len(sql))
    line = sql.count("\n", 0, start) + 1
    column = start - (sql.rfind("\n", 0, start) + 1) + 1
    excerpt = sql[start : max(span.end, start + 1)]
    if len(excerpt) > EXCERPT:
        excerpt = excerpt[: EXCERPT - 1] + "…"
    return {"line": line, "column": column, "excerpt": excerpt, "span": {"start": span.start, "end": span.end}}


def reason_of(error: ApiError) -> str:
    """A problem as one line: what, where, what to do."""
    where = ""
    if "line" in error.members:
        where = f" (line {error.members['line']}, column {error.members['column']}: {error.members['excerpt']})"
    return f"{error.detail}{where}{f' {error.hint}' if error.hint else ''}"
