"""GENERATE_SERIES of constants and parameters in FROM (PostgreSQL manual, 9.26 "Set Returning Functions")."""

from collections.abc import Sequence

from sqlglot import exp

from dataflow.errors import EvaluationError, UnsupportedParameter, UnsupportedQuery
from dataflow.functions.series import SERIES_VALUE, series
from dataflow.functions.signature import refused
from dataflow.plan.expressions import used_columns
from dataflow.scalar import Call, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import UNKNOWN, type_of
from dataflow.sql.expressions.dialect import ComputedRows, KnownRows
from dataflow.sql.postgres.resolve import chosen, coerced, type_name
from dataflow.types import Value

_OVERLOADS = refused(
    *(f"{t} {t}{step} -> {t}" for t in ("int4", "int8", "numeric") for step in ("", f" {t}")),
    *(f"{t} {t} interval -> {t}" for t in ("timestamp", "timestamptz")),
)
_NOT_KNOWN = (
    "GENERATE_SERIES of other than constants and parameters is not kept up to date: it may have any number of rows."
)


def generated_series(node: exp.Expr, binder: Binder) -> KnownRows | ComputedRows:
    """Returns the rows of a series: known if they are of constants, else computed from those of parameters."""
    if node.find(exp.Column, exp.Query) is not None:
        raise UnsupportedQuery(_NOT_KNOWN)
    result, (start, end, *steps) = _arguments(node.expressions, binder)
    parts = (start, end, steps[0] if steps else Literal("1", result))
    if used_columns(*parts):
        return ComputedRows(result, lambda place: Call(SERIES_VALUE, (*parts, place), result))
    return KnownRows(result, _values(parts, result))


def _arguments(nodes: Sequence[exp.Expr], binder: Binder) -> tuple[SqlType, list[Scalar]]:
    """The type of the series, and what it is made of in the types of the overload that is meant."""
    refusals: dict[int, UnsupportedParameter] = {}
    written: list[Scalar] = []
    for i, node in enumerate(nodes):
        try:
            written.append(binder.bind(node))
        except UnsupportedParameter as error:
            if error.type is not None or not isinstance(node, exp.Placeholder):
                raise
            refusals[i] = error
            written.append(Literal(None, UNKNOWN))
    found = chosen(_OVERLOADS, [type_name(part.type) for part in written])
    if found is None or found.result == "numeric":
        types = ", ".join(part.type.sql for part in written)
        raise UnsupportedQuery(f"GENERATE_SERIES of {types} is not kept up to date.")
    for i, refusal in refusals.items():
        refusal.type = type_of(found.arguments[i])
        raise refusal
    return type_of(found.result), [coerced(part, t) for part, t in zip(written, found.arguments, strict=True)]


def _values(parts: Sequence[Scalar], result: SqlType) -> tuple[Value, ...]:
    texts = [part.value for part in parts if isinstance(part, Literal)]
    if len(texts) < len(parts):
        raise UnsupportedQuery(_NOT_KNOWN)
    known = [text for text in texts if text is not None]
    if len(known) < len(parts):
        return ()
    start, end, step = known
    try:
        return series(result.name, start, end, step)
    except EvaluationError as error:
        raise UnsupportedQuery(f"GENERATE_SERIES of these constants is not kept up to date: {error}.") from error
