"""Scalar expressions as SQL of MariaDB and MySQL, for lookups.

Texts are for sessions with ``time_zone`` +00:00 and without ANSI_QUOTES, PIPES_AS_CONCAT and NO_BACKSLASH_ESCAPES.
Everything computed is in parentheses: the servers' precedence of operators is never asked for.

Not here: statements (`lookup`), PostgreSQL's SQL and that of ``explain`` (`plan.render`).
"""

import re

from dataflow.plan.render import ColumnName
from dataflow.scalar import Call, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.types.floats import float4
from dataflow.types.mysql_dates import DATE, DATETIME, TIMESTAMP

_INFIX = {o: o for o in ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "%", "&", "|", "<<", ">>")} | {
    "is not distinct from": "<=>",
    "like": "LIKE",
}
_CHOICES = frozenset({"case", "coalesce"})
_POSTFIX = frozenset({"is null", "is not null", "is true", "is not true", "is false", "is not false"})
#: Constants that are no text where a value is chosen, whose type the choice has.
_MOMENTS = {DATE: "DATE", DATETIME: "TIMESTAMP", TIMESTAMP: "TIMESTAMP"}
_FUNCTIONS = {"coalesce": "COALESCE", "nullif": "NULLIF", "||": "CONCAT", "abs": "ABS"} | {
    name: name.upper() for name in ("concat_ws", "lower", "upper")
}
_PLAIN_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_SCALE = re.compile(r"\((\d+),(\d+)\)")
_ESCAPES = str.maketrans({"'": "''", "\\": "\\\\", "\0": "\\0", "\x1a": "\\Z"})


def quote(name: str) -> str:
    """A name as an identifier."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def table_name(name: str) -> str:
    """A qualified name for a statement: a reserved word may be a table's name behind a dot, and a database's quoted."""
    if name.startswith("`"):
        return name
    database, _, table = name.partition(".")
    return f"{quote(database)}.{table}"


def string(text: str) -> str:
    """A text as a constant."""
    return f"'{text.translate(_ESCAPES)}'"


#: What IN compares with where a list is empty: NULL would make NOT IN drop rows.
NOTHING = "SELECT 1 FROM DUAL WHERE FALSE"


def constant(value: str | None, sql_type: SqlType) -> str:
    """A value of a type, so that it compares with a column of the type as the value does."""
    if value is None:
        return "NULL"
    if sql_type.is_boolean:
        return "TRUE" if value == "t" else "FALSE"
    if sql_type.is_float:
        # A float4 column is the double nearest to its single-precision number, not to its text.
        return _double(repr(float4(value)) if sql_type.name == "float4" else value)
    if sql_type.is_bytes:
        return f"x'{value[2:]}'"
    if sql_type.is_number and _PLAIN_NUMBER.fullmatch(value):
        return value if value[0] != "-" else f"({value})"
    return string(value)


def _double(text: str) -> str:
    """With an exponent, a number is a double."""
    exact = text if "e" in text else f"{text}e0"
    return f"({exact})" if exact[0] == "-" else exact


def render(expression: Scalar, name: ColumnName) -> str:
    """The expression as SQL; `name` gives the columns' names. ValueError for what has none."""
    if isinstance(expression, Literal):
        return constant(expression.value, expression.type)
    if not isinstance(expression, Call):
        return name(expression.index)
    function = expression.function
    chosen = function in _CHOICES
    arguments = [_chosen(a) if chosen and isinstance(a, Literal) else render(a, name) for a in expression.arguments]
    if function in _INFIX:
        return f"({arguments[0]} {_INFIX[function]} {arguments[1]})"
    if function in _POSTFIX:
        return f"({arguments[0]} {function.upper()})"
    if function.isupper():
        return _named(function, arguments)
    if function in _FUNCTIONS:
        return f"{_FUNCTIONS[function]}({', '.join(arguments)})"
    return _special(expression, arguments)


def _chosen(literal: Literal) -> str:
    """A constant among values of which one is chosen: a moment as one, so that the choice is none of texts."""
    sql = constant(literal.value, literal.type)
    kind = _MOMENTS.get(literal.type.name) if literal.value is not None else None
    return sql if kind is None else f"{kind}{sql}"


def _named(function: str, arguments: list[str]) -> str:
    """A function of the servers, perhaps with a unit of time behind its name."""
    name, _, unit = function.partition(" ")
    if name in ("DATE_ADD", "DATE_SUB"):
        return f"{name}({arguments[0]}, INTERVAL {arguments[1]} {unit})"
    if name == "SIGNED":
        return f"CAST({arguments[0]} AS SIGNED)"
    return f"{name}({', '.join([unit, *arguments] if unit else arguments)})"


def _special(call: Call, arguments: list[str]) -> str:
    match call.function:
        case "and" | "or":
            return f"({f' {call.function.upper()} '.join(arguments)})"
        case "not" | "neg":
            return f"({'NOT' if call.function == 'not' else '-'} {arguments[0]})"
        case "any =":
            return f"({arguments[0]} IN {arguments[1]})"
        case "in":
            return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
        case "is distinct from":
            return f"(NOT ({arguments[0]} <=> {arguments[1]}))"
        case "case":
            pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
            branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
            return f"CASE {branches} ELSE {arguments[-1]} END"
        case "divide" | "average":
            return f"({arguments[0]} / {arguments[1]})"
        case "/":
            integers = call.type.is_whole
            return f"({arguments[0]} {'DIV' if integers else '/'} {arguments[1]})"
        case "cast" | "printed":
            return _cast(call, arguments[0])
        case _:
            raise ValueError(f"{call.function} is not supported in lookups of MariaDB and MySQL")


def _cast(call: Call, argument: str) -> str:
    source, target = call.arguments[0].type, call.type
    if target.is_decimal:
        found = _SCALE.search(target.sql)
        # More digits than the type has: what it prints is never too long.
        return argument if found is None else f"CAST({argument} AS DECIMAL(65,{found[2]}))"
    if target.name == "float8":
        return f"CAST({argument} AS DOUBLE)"
    whole = all(t.is_whole or t.is_boolean for t in (source, target))
    if whole or source.name == target.name or (source.is_text and target.is_text):
        return argument
    if target.is_text and (source.is_whole or source.is_decimal):
        return f"CAST({argument} AS CHAR)"
    raise ValueError(f"a cast from {source.sql} to {target.sql} is not supported in lookups of MariaDB and MySQL")


def selected(expression: Scalar, name: ColumnName) -> str:
    """The expression as a column of a lookup, whose text is the value's, but for conditions, which are 1 and 0: floats
    as doubles, bits as numbers."""
    sql = render(expression, name)
    sql_type = expression.type
    if sql_type.kind != "base":
        return sql
    if sql_type.name == "float4":
        return f"CAST({sql} AS DOUBLE)"
    return f"({sql} + 0)" if sql_type.sql.startswith("bit") else sql
