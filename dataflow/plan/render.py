"""Scalar expressions as PostgreSQL text: for lookups, which the upstream runs, and for ``explain``, which people read.

Types are written by their bare names, without a length or scale, but for casts that are there to round or cut. What a
call's arguments are cast to in the plan is written, so that the upstream resolves it to the same function.

Not here: statements (`lookups`), evaluation (`evaluate`).
"""

from collections.abc import Callable

from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType

ColumnName = Callable[[int], str]

_INFIX = {
    **{
        o: o
        for o in (
            "=",
            "<>",
            "<",
            "<=",
            ">",
            ">=",
            "+",
            "-",
            "*",
            "/",
            "%",
            "&",
            "|",
            "#",
            "<<",
            ">>",
            "||",
            "->",
            "->>",
            "#>",
            "#>>",
            "?",
            "?|",
            "?&",
            "@>",
            "<@",
        )
    },
    "is distinct from": "IS DISTINCT FROM",
    "is not distinct from": "IS NOT DISTINCT FROM",
    "like": "LIKE",
    "ilike": "ILIKE",
    "matches": "~",
    "imatches": "~*",
}
_PREFIX = {"not": "NOT", "neg": "-", "~": "~"}
_POSTFIX = {"is null", "is not null", "is true", "is not true", "is false", "is not false"}
#: Functions whose bare names begin a syntax of their own.
_QUOTED = frozenset({"extract", "overlay", "position", "substring"})
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
    if literal.type.is_boolean:
        return "true" if literal.value == "t" else "false"
    exact = literal.type.is_integer or literal.type.is_decimal
    if exact and (literal.type.name == "int4" or not typed):
        return literal.value if literal.value[0] != "-" else f"({literal.value})"
    return f"{_string(literal.value)}::{type_name(literal.type)}" if typed else _string(literal.value)


def _string(text: str) -> str:
    quoted = text.replace("'", "''")
    return f"'{quoted}'" if "\\" not in text else "E'" + quoted.replace("\\", "\\\\") + "'"


def _call(call: Call, name: ColumnName, typed: bool) -> str:
    arguments = [render(a, name, typed) for a in call.arguments]
    nested = [
        text if not isinstance(a, Call) or _self_contained(a) else f"({text})"
        for a, text in zip(call.arguments, arguments, strict=True)
    ]
    function = call.function
    if function in _INFIX:
        return f"{nested[0]} {_INFIX[function]} {nested[1]}"
    if function in _PREFIX and len(arguments) == 1:
        return f"{_PREFIX[function]} {nested[0]}"
    if function in _POSTFIX:
        return f"{nested[0]} {function.upper()}"
    return _special(call, arguments, nested, typed)


def _special(call: Call, arguments: list[str], nested: list[str], typed: bool) -> str:
    """Renders functions with a syntax of their own, and plain calls."""
    function = call.function
    match function:
        case "and" | "or":
            return f" {function.upper()} ".join(nested)
        case "in":
            return f"{nested[0]} IN ({', '.join(arguments[1:])})"
        case "cast":
            return f"{nested[0]}::{call.type.sql if call.type.sql.endswith(')') else type_name(call.type)}"
        case "collate":
            return f'{nested[0]} COLLATE "C"'
        case "case":
            return _case(arguments)
        case "array":
            return f"ARRAY[{', '.join(arguments)}]"
        case "subscript":
            return f"({arguments[0]})[{arguments[1]}]"
        case "average" if typed:
            # Not a function of the upstream's: what its AVG makes of a sum and a count.
            return f"(({arguments[0]})::numeric / nullif({arguments[1]}, 0)::numeric)"
    quantifier, _, operator = function.partition(" ")
    if quantifier == "array" and operator:
        return f"{nested[0]} {operator} {nested[1]}"
    if operator:
        return f"{nested[0]} {operator} {quantifier.upper()} ({arguments[1]})"
    return f"{quote(function) if function in _QUOTED else function}({', '.join(arguments)})"


def _self_contained(call: Call) -> bool:
    """Return whether a call needs no parentheses as an operand."""
    function = call.function
    operators = function in _INFIX or function in _POSTFIX or function in _PREFIX
    return not operators and " " not in function and function not in ("and", "or", "in", "cast", "collate")


def _case(arguments: list[str]) -> str:
    pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
    branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"CASE {branches} ELSE {arguments[-1]} END"


__all__ = ["ColumnName", "bare", "describe", "quote", "render", "type_name"]
