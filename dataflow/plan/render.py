"""Scalar expressions as PostgreSQL text: for lookups, which the upstream runs, and for ``explain``, which people read.

Types are written by their bare names, never with a length or scale: a cast to ``numeric(10,2)`` would round.

Not here: statements (`plan.lookup`), evaluation (`evaluate`).
"""

from collections.abc import Callable

from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType

ColumnName = Callable[[int], str]

_INFIX = {"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "||", "is distinct from", "is not distinct from", "like"}
_POSTFIX = {"is null", "is not null", "is true", "is not true", "is false", "is not false"}
_NUMBERS = frozenset({"int2", "int4", "int8", "numeric"})
_UNQUOTED = frozenset("abcdefghijklmnopqrstuvwxyz_")
_UNQUOTED_REST = _UNQUOTED | frozenset("0123456789")


def quote(name: str) -> str:
    """A column's name as an identifier, always safe."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def bare(name: str) -> str:
    """A column's name for people: quoted only where it must be."""
    plain = name[:1] in _UNQUOTED and all(c in _UNQUOTED_REST for c in name)
    return name if name and plain else quote(name)


def type_name(sql_type: SqlType) -> str:
    """A type's name in a cast that changes no value."""
    if sql_type.kind == "array" and sql_type.element is not None:
        return f"{type_name(sql_type.element)}[]"
    return sql_type.name if sql_type.kind == "base" else sql_type.sql


def describe(expression: Scalar, name: ColumnName) -> str:
    """The expression for people: numbers and text without their types."""
    return render(expression, name, typed=False)


def render(expression: Scalar, name: ColumnName, typed: bool = True) -> str:
    """The expression as SQL; `name` gives the columns' names."""
    if isinstance(expression, ColumnRef):
        return name(expression.index)
    if isinstance(expression, Literal):
        return _literal(expression, typed)
    return _call(expression, name, typed)


def _literal(literal: Literal, typed: bool) -> str:
    if literal.value is None:
        return f"NULL::{type_name(literal.type)}" if typed else "NULL"
    if literal.type.name == "bool" and literal.type.kind == "base":
        return "true" if literal.value == "t" else "false"
    if literal.type.kind == "base" and (literal.type.name == "int4" or (not typed and literal.type.name in _NUMBERS)):
        return literal.value if literal.value[0] != "-" else f"({literal.value})"
    return f"{_string(literal.value)}::{type_name(literal.type)}" if typed else _string(literal.value)


def _string(text: str) -> str:
    quoted = text.replace("'", "''")
    return f"'{quoted}'" if "\\" not in text else "E'" + quoted.replace("\\", "\\\\") + "'"


def _call(call: Call, name: ColumnName, typed: bool) -> str:
    arguments = [render(a, name, typed) for a in call.arguments]
    nested = [
        text if not isinstance(a, Call) or a.function in _SELF_CONTAINED else f"({text})"
        for a, text in zip(call.arguments, arguments, strict=True)
    ]
    function = call.function
    if function in _INFIX:
        return f"{nested[0]} {_words(function)} {nested[1]}"
    if function in _POSTFIX:
        return f"{nested[0]} {_words(function)}"
    match function:
        case "and" | "or":
            return f" {_words(function)} ".join(nested)
        case "not":
            return f"NOT {nested[0]}"
        case "neg":
            return f"- {nested[0]}"
        case "in":
            return f"{nested[0]} IN ({', '.join(arguments[1:])})"
        case "cast":
            return f"{nested[0]}::{type_name(call.type)}"
        case "case":
            return _case(arguments)
    return f"{function}({', '.join(arguments)})"


_SELF_CONTAINED = frozenset({"coalesce", "nullif", "case", "length", "average"})


def _words(operator: str) -> str:
    return operator.upper() if operator[0].isalpha() else operator


def _case(arguments: list[str]) -> str:
    pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
    branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"CASE {branches} ELSE {arguments[-1]} END"


__all__ = ["ColumnName", "bare", "describe", "quote", "render", "type_name"]
