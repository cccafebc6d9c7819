"""Rows as JSON objects, compiled once per view from the columns' names and types (`dataflow.types`)."""

from collections.abc import Callable, Sequence
from json.encoder import encode_basestring

from dataflow.schema import SqlType
from dataflow.types import Row


def compile_row(columns: Sequence[tuple[str, int, SqlType]], bigint_text: bool = False) -> Callable[[Row], bytes]:
    """Row -> JSON object, from (name, column of the row, type) in output order; a repeated name gets ``_2``, ``_3``"""
    names = unique_names([name for name, _, _ in columns])
    members = (f"{encode_basestring(name)}:".replace("%", "%%") + "%s" for name in names)
    template = "{" + ",".join(members) + "}"
    forms = [(column, sql_type.json_form(bigint_text)) for _, column, sql_type in columns]

    def row_json(row: Row) -> bytes:
        return (
            template
            % tuple(
                [
                    "null" if (text := row[column]) is None else text if form is None else form(text)
                    for column, form in forms
                ]
            )
        ).encode()

    return row_json


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the names that readers see: the second ``a`` is ``a_2``, unless such a column exists."""
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, n = name, 1
        while candidate in taken:
            n += 1
            candidate = f"{name}_{n}"
        taken.add(candidate)
        result.append(candidate)
    return result
