"""Types of aggregates' results, as PostgreSQL's catalog has them."""

from dataflow.schema import SqlType


def summable(argument: SqlType) -> bool:
    """Return whether SUM has an exact form whatever the order of rows."""
    return bool(argument.rules.sum)


def sum_type(argument: SqlType) -> SqlType:
    """SUM's type."""
    return SqlType(argument.rules.sum, argument.rules.sum)


def average_type(argument: SqlType) -> SqlType:
    """AVG's type."""
    return SqlType(argument.rules.average, argument.rules.average)
