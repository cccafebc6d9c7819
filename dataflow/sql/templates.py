"""Statements as templates, for databases to which parameters' values are sent as part of the text.

In a template ``$1`` is a parameter, ``$1::int8`` one of a type, and ``$1[]`` one that is a list (an array's text),
which stands in the parentheses of an IN.

Not here: parameters in a user's SQL (`statement`), filling (`mysql.parameter_values`).
"""

from collections.abc import Mapping

from dataflow.schema import SqlType
from dataflow.sql.statement import Statement


def template(statement: Statement, types: Mapping[str, SqlType] | None = None) -> str:
    """The statement with ``$n`` for the n-th of its names, of that type if it is known."""
    known = types or {}
    numbers = {name: f"${number}" for number, name in enumerate(statement.names, start=1)}
    parts: list[str] = []
    at = 0
    for occurrence in statement.occurrences:
        name = occurrence.name
        mark = numbers[name] + ("[]" if name in statement.lists else "")
        mark += f"::{known[name].name}" if name in known and known[name].kind == "base" else ""
        if occurrence.listed:
            mark = f"{occurrence.listed.upper()} ({mark})"
        parts += [statement.sql[at : occurrence.span.start], mark]
        at = occurrence.span.end
    return "".join([*parts, statement.sql[at : statement.end]])
