"""Templates (`templates`) with their parameters' values put in, since a text protocol has no parameters.

Not here: constants of a type (`lookups.mysql.render`).
"""

import re
from collections.abc import Sequence

from dataflow.functions import arrays
from dataflow.lookups.mysql.render import NOTHING, constant, string
from dataflow.schema import SqlType

#: What may look like a parameter and is none, then the parameters.
_TOKEN = re.compile(
    r"""'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*` | --(?=\s)[^\n]* | \#[^\n]* | /\*.*?\*/
      | (?<![\w$]) \$(?P<number>\d+) (?P<list>\[\])? (?:::(?P<type>\w+))? (?![\w$])""",
    re.DOTALL | re.VERBOSE,
)
#: Where only a number is grammar.
_COUNTED = re.compile(r"\b(?:LIMIT|OFFSET)\s+(?:\S+\s*,\s*)?\Z", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")


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
        return ", ".join(_constant(member, name) for member in members) or NOTHING

    return _TOKEN.sub(value, text)


def _constant(text: str | None, type_name: str | None, *, counted: bool = False) -> str:
    if text is None:
        return "NULL"
    if counted and _DIGITS.fullmatch(text):
        return text
    return string(text) if type_name is None else constant(text, SqlType(type_name, type_name))


__all__ = ["fill"]
