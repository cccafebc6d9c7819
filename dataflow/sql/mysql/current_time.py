"""Calls for the current time in MariaDB and MySQL, which is that of the statement's begin, in UTC."""

from sqlglot import exp

from dataflow.plan.clock_bounds import MICROSECONDS, SECONDS
from dataflow.scalar import Scalar
from dataflow.sql.mysql import moments

_MOMENTS = frozenset({"now", "current_timestamp", "localtime", "localtimestamp", "utc_timestamp"})
_DATES = frozenset({"curdate", "current_date", "utc_date"})
_DIGITS = {"0": SECONDS, "6": MICROSECONDS}
_WORDS = (exp.CurrentTimestamp, exp.Localtime, exp.Localtimestamp)


def current_time(node: exp.Expr, sql: str) -> Scalar | None:
    """The current time over its row (`clock_row`); None if `node` is something else."""
    del sql
    if isinstance(node, exp.Anonymous):
        name, given = str(node.this).lower(), node.expressions
        if name in _DATES and not given:
            return moments.as_date(SECONDS)
        if name not in _MOMENTS or len(given) > 1:
            return None
        digits = given[0].sql("mysql") if given else "0"
        return _DIGITS.get(digits)
    if any(node.args.values()):
        return None
    if isinstance(node, exp.CurrentDate):
        return moments.as_date(SECONDS)
    return SECONDS if isinstance(node, _WORDS) else None
