"""GENERATE_SERIES of constants in FROM: its values (PostgreSQL manual, 9.26 "Set Returning Functions")."""

from collections.abc import Iterator
from itertools import islice

from sqlglot import exp

from dataflow.errors import UnsupportedQuery
from dataflow.functions.signature import refused
from dataflow.plan.expressions import TRUE
from dataflow.scalar import Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import TEXT, type_of
from dataflow.sql.expressions.coercion import folded
from dataflow.sql.postgres.resolve import call, chosen, coerced, type_name
from dataflow.types import Value

#: Each is a relation of its own: the days of a leap year.
_MOST_ROWS = 366
_OVERLOADS = refused(
    *(f"{t} {t}{step} -> {t}" for t in ("int4", "int8", "numeric") for step in ("", f" {t}")),
    *(f"{t} {t} interval -> {t}" for t in ("timestamp", "timestamptz")),
)
_NOT_CONSTANT = "GENERATE_SERIES of other than constants is not kept up to date: it may have any number of rows."


def generated_series(node: exp.Expr, binder: Binder) -> tuple[SqlType, list[Value]]:
    """Returns the type and the values of the rows."""
    if node.find(exp.Placeholder, exp.Column, exp.Query) is not None:
        raise UnsupportedQuery(_NOT_CONSTANT)
    written = binder.all(node.expressions)
    found = chosen(_OVERLOADS, [type_name(part.type) for part in written])
    if found is None or found.result == "numeric":
        types = ", ".join(part.type.sql for part in written)
        raise UnsupportedQuery(f"GENERATE_SERIES of {types} is not kept up to date.")
    result = type_of(found.result)
    start, end, *steps = (coerced(part, t) for part, t in zip(written, found.arguments, strict=True))
    values = list(islice(_values(start, end, steps[0] if steps else Literal("1", result)), _MOST_ROWS + 1))
    if len(values) > _MOST_ROWS:
        raise UnsupportedQuery(f"GENERATE_SERIES of more than {_MOST_ROWS} rows is not kept up to date.")
    return result, values


def _values(start: Scalar, end: Scalar, step: Scalar) -> Iterator[Value]:
    """Yields each value by a step from that before, as the server does: the last days of months stay shortened."""
    if Literal(None, start.type) in (start, end) or Literal(None, step.type) == step:
        return
    zero = Literal("00:00:00" if step.type.is_interval else "0", step.type)
    up = _holds(">", step, zero)
    if not up and not _holds("<", step, zero):
        raise UnsupportedQuery("GENERATE_SERIES by a step of zero is not kept up to date.")
    value = start
    while _holds("<=" if up else ">=", value, end):
        assert isinstance(value, Literal)
        yield value.value
        value = folded(call("+", [value, step], TEXT))
        if value.type.is_integer and not isinstance(value, Literal):
            # Behind the last integer.
            return


def _holds(operator: str, left: Scalar, right: Scalar) -> bool:
    found = folded(functions.comparison(operator, left, right))
    if not isinstance(found, Literal):
        raise UnsupportedQuery(_NOT_CONSTANT)
    return found == TRUE
