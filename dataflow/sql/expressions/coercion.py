"""Types of expressions: constants that take the type of their surroundings, casts, the collation of text."""

from collections.abc import Sequence
from dataclasses import replace

from dataflow import json_documents
from dataflow.errors import EvaluationError, UnsupportedQuery
from dataflow.evaluate import compile_scalar
from dataflow.functions import arrays
from dataflow.functions.casts import castable
from dataflow.plan.expressions import INT4, INT8, NUMERIC
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions.cast_types import TEXT, UNKNOWN


def constant_of(text: str) -> Literal:
    """A number as it is written in SQL, with the type PostgreSQL gives it."""
    if text.removeprefix("-").isdecimal():
        for sql_type, limit in ((INT4, 2**31), (INT8, 2**63)):
            if -limit <= int(text) < limit:
                return Literal(str(int(text)), sql_type)
    return Literal(_parsed(NUMERIC, text), NUMERIC)


def _parsed(sql_type: SqlType, text: str) -> str:
    try:
        if sql_type.kind == "array" and sql_type.element is not None:
            element = sql_type.element
            return arrays.render([None if e is None else element.parse(e) for e in arrays.flat_constant(text)])
        if sql_type.is_document and not sql_type.takes_parameters:
            return json_documents.checked(text)
        return sql_type.parse(text)
    except (ValueError, EvaluationError) as error:
        raise UnsupportedQuery(f"The constant {text!r} is not read as {sql_type.sql}: {error}.") from error


def typed(expression: Scalar, sql_type: SqlType) -> Scalar:
    """A constant of no type yet as one of `sql_type`; anything else as it is."""
    if not isinstance(expression, Literal) or expression.type != UNKNOWN:
        return expression
    target = plain_type(sql_type)
    return Literal(None if expression.value is None else _parsed(target, expression.value), target)


def plain_type(sql_type: SqlType) -> SqlType:
    """The type without a length or scale."""
    return replace(sql_type, sql=sql_type.name) if sql_type.kind == "base" else sql_type


def settled(expression: Scalar, text: SqlType = TEXT) -> Scalar:
    """The expression, text if nothing else has decided its type: of the collation of `text`, if that is known."""
    return typed(expression, text)


def cast(expression: Scalar, target: SqlType) -> Scalar:
    """``expression::target``."""
    if expression.type == UNKNOWN:
        expression = typed(expression, target)
    if expression.type == target:
        return expression
    source = expression.type
    if target.is_string and source.is_string:
        target = replace(target, collation=source.collation, folding=source.folding)
        if source.name == target.name and not target.sql.endswith(")"):
            return _renamed(expression, target)
    if source.name == target.name and source.kind == target.kind == "base" and not target.sql.endswith(")"):
        return _renamed(expression, target)
    if not castable(source, target):
        raise UnsupportedQuery(f"A cast from {source.sql} to {target.sql} is not on the list of exact functions.")
    return folded(Call("cast", (expression,), target))


def folded(call: Scalar) -> Scalar:
    """A call of constants as its value. One that fails stays: upstream it fails when it is run."""
    if not isinstance(call, Call) or not all(isinstance(a, Literal) for a in call.arguments):
        return call
    try:
        return Literal(compile_scalar(call)(()), call.type)
    except EvaluationError:
        return call


def _renamed(expression: Scalar, target: SqlType) -> Scalar:
    """``numeric(10,2)`` as ``numeric``: the same values."""
    if isinstance(expression, ColumnRef):
        return expression
    return replace(expression, type=target)


def text_collation(parts: Sequence[Scalar]) -> str:
    """The known collation of text made of `parts`: byte order only if it is that of all."""
    return text_type(parts).collation


def text_type(parts: Sequence[Scalar], default: SqlType = TEXT) -> SqlType:
    """The type of text made of `parts`, with what is known of its collation; `default` if none of them has one."""
    types = {p.type for p in parts if not isinstance(p, Literal) and p.type.is_string}
    if not types:
        return plain_type(default)
    collations = {t.collation for t in types}
    foldings = {t.folding for t in types}
    if "nondeterministic" in collations:
        return replace(TEXT, collation="nondeterministic")
    folding = foldings.pop() if len(foldings) == 1 else ""
    if len(collations) == 1:
        (known, *_) = types
        return replace(TEXT, collation=known.collation, folding=folding, weights=known.weights)
    return replace(TEXT, collation="deterministic", folding=folding)


__all__ = [
    "cast",
    "constant_of",
    "folded",
    "plain_type",
    "settled",
    "text_collation",
    "text_type",
    "typed",
]
