"""One-dimensional arrays as PostgreSQL prints them."""

import re
from collections.abc import Iterable

from dataflow.json_text import plain
from dataflow.schema import SqlType
from dataflow.types import Value

#: What an element must be quoted for; ``null`` in any case, and the empty text, are quoted too.
_SPECIAL = re.compile(r'[\s"\\{},]', re.ASCII)
_ESCAPED = re.compile(r'(["\\])')


def array_text(values: Iterable[Value]) -> str:
    """An array of elements, given as their texts."""
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: Value) -> str:
    if value is None:
        return "NULL"
    if not value or _SPECIAL.search(value) or value.lower() == "null":
        return '"' + _ESCAPED.sub(r"\\\1", value) + '"'
    return value


def check_element(sql_type: SqlType) -> None:
    """ValueError if `array_text` does not print arrays of that type."""
    if sql_type.kind == "array" or sql_type.sql.endswith("[]"):
        raise ValueError("arrays of arrays are not made here")
    # Of others the separator may be another one (box), or the text be another than what a cast to text gives.
    if not plain(sql_type):
        raise ValueError(f"arrays of {sql_type.sql} are not made here")
