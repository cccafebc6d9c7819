"""Types of aggregates' results, as PostgreSQL's catalog has them."""

from dataflow.plan.expressions import INT8, NUMERIC
from dataflow.schema import SqlType
from dataflow.values import FLOATS, INTEGERS

_SUMMABLE = INTEGERS | FLOATS | {"numeric", "interval"}


def summable(argument: SqlType) -> bool:
    """Whether SUM has an exact form whatever the order of rows."""
    return argument.kind == "base" and argument.name in _SUMMABLE


def sum_type(argument: SqlType) -> SqlType:
    """SUM's type."""
    if argument.name in FLOATS or argument.name == "interval":
        return SqlType(argument.name, argument.name)
    return INT8 if argument.name in ("int2", "int4") else NUMERIC


def average_type(argument: SqlType) -> SqlType:
    """AVG's type."""
    if argument.name == "interval":
        return SqlType("interval", "interval")
    return SqlType("float8", "float8") if argument.name in FLOATS else NUMERIC
