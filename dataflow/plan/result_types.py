"""Types of aggregates' results, as PostgreSQL's catalog has them."""

from dataflow.plan.expressions import INT8, NUMERIC
from dataflow.schema import SqlType
from dataflow.values import INTEGERS


def summable(argument: SqlType) -> bool:
    """Whether SUM and AVG are exact whatever the order of rows: not for floats."""
    return argument.kind == "base" and (argument.name in INTEGERS or argument.name == "numeric")


def sum_type(argument: SqlType) -> SqlType:
    """SUM's type."""
    return INT8 if argument.name in ("int2", "int4") else NUMERIC
