"""Rows as JSON objects, compiled once per view from the columns' names and types (`dataflow.types`)."""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from json.encoder import encode_basestring
from typing import cast

from dataflow.schema import SqlType
from dataflow.types import Row, Value
from dataflow.types.rules import TextForm

#: Name, number in the row, and type of a column, in output order; a repeated name gets ``_2``, ``_3``.
_Columns = Sequence[tuple[str, int, SqlType]]
#: Rows from which on columns are rendered at once.
_MANY = 3


def compile_row(columns: _Columns, bigint_text: bool = False) -> Callable[[Row], bytes]:
    """Row -> JSON object."""
    template = "%s".join([part.replace("%", "%%") for part in _fixed_parts(columns)])
    forms = _forms(columns, bigint_text)

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


def compile_rows(columns: _Columns, bigint_text: bool = False) -> Callable[[Sequence[Row]], list[bytes]]:
    """Rows -> JSON objects, of many rows column by column: that takes half the time."""
    *before, end = _fixed_parts(columns)
    forms = _forms(columns, bigint_text)
    row_json = compile_row(columns, bigint_text)

    def rows_json(rows: Sequence[Row]) -> list[bytes]:
        if len(rows) < _MANY or not forms:
            return [row_json(row) for row in rows]
        values = list(zip(*rows, strict=True))
        parts: list[Iterable[str]] = []
        for fixed, (column, form) in zip(before, forms, strict=True):
            parts += repeat(fixed), _column_texts(values[column], form)
        return [json.encode() for json in map("".join, zip(*parts, repeat(end)))]

    return rows_json


def _fixed_parts(columns: _Columns) -> list[str]:
    """Texts before each value, and behind the last."""
    names = unique_names([name for name, _, _ in columns])
    if not names:
        return ["{}"]
    starts = ["{", *"," * (len(names) - 1)]
    return [*(f"{start}{encode_basestring(name)}:" for start, name in zip(starts, names, strict=True)), "}"]


def _forms(columns: _Columns, bigint_text: bool) -> list[tuple[int, TextForm | None]]:
    return [(column, sql_type.json_form(bigint_text)) for _, column, sql_type in columns]


def _column_texts(values: Sequence[Value], form: TextForm | None) -> Iterable[str]:
    if None in values:
        return ["null" if text is None else text if form is None else form(text) for text in values]
    texts = cast(Sequence[str], values)
    return texts if form is None else map(form, texts)


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
