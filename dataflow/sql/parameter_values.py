"""Statements of MariaDB and MySQL with their parameters' values put in, since a text protocol has no parameters.

In a template ``$1`` is a parameter, ``$1::int8`` one of a type, and ``$1[]`` one that is a list (an array's text),
which stands in the parentheses of an IN. `template` makes one of a user's SQL.

Not here: parameters in a user's SQL (`statement`), constants of a type (`lookups.mysql.render`).
"""

import re
from collections.abc import Mapping, Sequence

from dataflow.functions import arrays
from dataflow.lookups.mysql.render import constant, string
from dataflow.schema import SqlType
from dataflow.sql.statement import Statement

#: What may look like a parameter and is none, then the parameters.
_TOKEN = re.compile(
    r"""'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*` | --(?=\s)[^\n]* | \#[^\n]* | /\*.*?\*/
      | (?<![\w$]) \$(?P<number>\d+) (?P<list>\[\])? (?:::(?P<type>\w+))? (?![\w$])""",
    re.DOTALL | re.VERBOSE,
)
#: Where only a number is grammar.
_COUNTED = re.compile(r"\b(?:LIMIT|OFFSET)\s+(?:\S+\s*,\s*)?\Z", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
#: What IN compares with where a list is empty: NULL would make NOT IN drop rows.
_NOTHING = "SELECT 1 FROM DUAL WHERE FALSE"


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


def fill(text: str, parameters: Sequence[str | None]) -> str:
    """The template with the parameters' texts as constants; None is NULL."""

    def value(found: re.Match[str]) -> str:
        if found["number"] is None:
            return found[0]
        own = parameters[int(found["number"]) - 1]
        name = found["type"]
        if found["list"] is None:
            return _constant(own, name, counted=bool(_COUNTED.search(text, 0, found.start())))
        members = [] if own is None else arrays.flat(own)
        return ", ".join(_constant(member, name) for member in members) or _NOTHING

    return _TOKEN.sub(value, text)


def _constant(text: str | None, type_name: str | None, *, counted: bool = False) -> str:
    if text is None:
        return "NULL"
    if counted and _DIGITS.fullmatch(text):
        return text
    return string(text) if type_name is None else constant(text, SqlType(type_name, type_name))


__all__ = ["fill", "template"]
