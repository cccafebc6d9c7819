"""PostgreSQL's calls for the current time, which is that of the statement's transaction, in UTC."""

from sqlglot import exp

from dataflow.plan.clock_bounds import PRECISE
from dataflow.scalar import Scalar
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.cast_types import type_of
from dataflow.sql.expressions.written_calls import function_name

#: A view's statement is its transaction's first.
_CALLS = frozenset({"now", "transaction_timestamp", "statement_timestamp"})
#: The parser notes no place of words, so that they have their node's name.
_WORDS: dict[type[exp.Expr], frozenset[str]] = {
    exp.CurrentTimestamp: _CALLS | {"currenttimestamp"},
    exp.Localtimestamp: frozenset({"localtimestamp"}),
    exp.CurrentDate: frozenset({"currentdate"}),
}
_CASTS: dict[type[exp.Expr], str] = {exp.Localtimestamp: "timestamp", exp.CurrentDate: "date"}


def current_time(node: exp.Expr, sql: str) -> Scalar | None:
    """The current time over its row (`clock_row`); None if `node` is something else."""
    if isinstance(node, exp.Anonymous):
        return PRECISE if str(node.this).lower() in _CALLS and not node.expressions else None
    # A word in place of a call, or with a precision, to which the time would be rounded.
    written = _WORDS.get(type(node))
    if written is None or any(node.args.values()) or function_name(node, sql) not in written:
        return None
    target = _CASTS.get(type(node))
    return PRECISE if target is None else functions.cast(PRECISE, type_of(target))
