"""A site's SQL with ``:name`` parameters, as PostgreSQL prepares it.

*Invariants*: every value goes over the wire as text and gets its type from a cast in the statement, so that one
statement is prepared once, whatever is given. Text in quotes and comments is never touched.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: A parameter's value as text; of a list parameter, all of its elements.
Value = str | None | tuple[str | None, ...]
Values = tuple[Value, ...]

_LIST = "[]"
_TOKEN = re.compile(
    r"""
      '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ | ::
    | \b(?P<negated>NOT\s+)?IN\s*\(\s*:(?P<list>[A-Za-z_]\w*)\s*\)
    | :(?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


class ParameterError(ValueError):
    """A request's parameters are not the statement's; the text says which."""


@dataclass(frozen=True, slots=True)
class NamedStatement:
    """SQL with ``$1`` … and which of the given parameters those are."""

    sql: str
    names: tuple[str, ...]


def numbered(sql: str, types: Mapping[str, str]) -> NamedStatement:
    """The statement with a typed ``$n`` for each ``:name``. ValueError if a name has no type."""
    return _replaced(sql, types, lambda name, n: f"${n}::{types[name]}")


def batched(sql: str, types: Mapping[str, str]) -> NamedStatement | None:
    """Rewrites a statement for many keys, each parameter a list of values; its first column is the number of the key,
    from 1. None if that cannot be written.

    Rows of one key stay in their order: the subquery is run once for each key. ``OFFSET 0`` sees to that, and to a plan
    as good as the one key's own: otherwise PostgreSQL would join the keys with whole aggregates.
    """
    keyed = _replaced(sql, types, lambda _, n: f'"$key".p{n}')
    if not keyed.names or any(kind.endswith(_LIST) for kind in types.values()):
        return None
    lists = ", ".join(f"${n}::{types[name]}[]" for n, name in enumerate(keyed.names, start=1))
    columns = ", ".join(f"p{n}" for n in range(1, len(keyed.names) + 1))
    keys = f'unnest({lists}) WITH ORDINALITY "$key" ({columns}, n)'
    rows = f'LATERAL (SELECT * FROM ({keyed.sql}) "$one" OFFSET 0) "$rows"'
    return NamedStatement(f'SELECT "$key".n, "$rows".* FROM {keys} CROSS JOIN {rows}', keyed.names)


def _replaced(sql: str, types: Mapping[str, str], form: Callable[[str, int], str]) -> NamedStatement:
    """`form` says what stands for a name, of its number from 1."""
    names: list[str] = []

    def place(name: str) -> str:
        if name not in types:
            raise ValueError(f"the parameter :{name} has no type")
        if name not in names:
            names.append(name)
        return form(name, names.index(name) + 1)

    def replaced(match: re.Match[str]) -> str:
        if name := match["name"]:
            return place(name)
        name = match["list"]
        if name is None:
            return match[0]
        if not types.get(name, "").endswith(_LIST):
            return f"{match['negated'] or ''}IN ({place(name)})"
        return f"<> ALL ({place(name)})" if match["negated"] else f"= ANY ({place(name)})"

    return NamedStatement(_TOKEN.sub(replaced, sql), tuple(names))


class Parameters:
    """Reads the parameters that something has, in their order."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._lists = {name: kind.endswith(_LIST) for name, kind in types.items()}

    def of_pairs(self, pairs: Sequence[tuple[str, str]]) -> Values:
        """From a query string's arguments. Raises `ParameterError`."""
        if len(pairs) == 1 == len(self._lists) and pairs[0][0] in self._lists and not self._lists[pairs[0][0]]:
            return (pairs[0][1],)
        given: dict[str, Any] = {}
        for name, text in pairs:
            if self._lists.get(name):
                given.setdefault(name, []).append(text)
            else:
                given[name] = text
        return self.of_json(given)

    def of_json(self, given: Mapping[str, Any]) -> Values:
        """From a JSON object. Raises `ParameterError`."""
        try:
            values = tuple([self._value(given[name], many) for name, many in self._lists.items()])
        except KeyError as missing:
            raise ParameterError(f"parameter {missing} is missing") from None
        if len(given) > len(values):
            raise ParameterError(f"unknown parameters: {', '.join(sorted(given.keys() - self._lists.keys()))}")
        return values

    def _value(self, given: Any, many: bool) -> Value:
        if many:
            return tuple([_text(element) for element in (given if isinstance(given, list) else [given])])
        return _text(given)


def wire_form(value: Value) -> str | None:
    """The value as PostgreSQL reads it."""
    return _array(value) if isinstance(value, tuple) else value


def _text(given: Any) -> str | None:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int | float):
        return str(given)
    raise ParameterError(f"a scalar is expected, not {type(given).__name__}")


def _array(elements: Sequence[str | None]) -> str:
    """The array literal (PostgreSQL manual, 8.15.2)."""
    quoted = ("NULL" if e is None else '"' + e.replace("\\", "\\\\").replace('"', '\\"') + '"' for e in elements)
    return "{" + ",".join(quoted) + "}"
