"""Large values that PostgreSQL's connector did not receive, since they did not change (TOAST).

Debezium documentation, connector for PostgreSQL, "Toasted values"; PostgreSQL manual, "TOAST". The connector replaces
such a value by a placeholder, in a form of the column's type. For types without a form, and for domains over arrays, it
sends NULL. Events of each type in `_MARKED` and `_PERHAPS_NULL` were recorded; other types are unsupported.

*Invariant*: a value that may be a placeholder is never taken for the column's value.
"""

from base64 import b64encode, urlsafe_b64encode
from hashlib import md5
from typing import Any
from uuid import UUID

from cdc.change import TableLayout
from cdc.column_type import ColumnType

#: Types whose values are replaced by a placeholder in each form of events.
_MARKED = frozenset({"text", "varchar", "bpchar", "citext", "json", "jsonb", "bytea", "tsvector", "numrange"})
#: Types that have a placeholder in some forms, and are NULL in others; arrays' elements.
_PERHAPS_NULL = frozenset({"numeric", "varbit"})
_ELEMENTS = frozenset(
    (
        *("text", "varchar", "json", "jsonb", "bytea", "uuid"),
        *("int2", "int4", "int8", "numeric", "float8", "bool", "date", "timestamp", "timestamptz"),
    )
)
#: Types of values too short to be stored out of line (24 bytes), or that never are.
_SHORT = frozenset(
    (
        *("bool", "int2", "int4", "int8", "oid", "xid", "cid", "float4", "float8", "money", "char", "uuid", "name"),
        *("date", "time", "timetz", "timestamp", "timestamptz", "interval"),
        *("inet", "cidr", "macaddr", "macaddr8", "pg_lsn"),
    )
)
#: Maximum digits of a number of at most 24 bytes.
_SHORT_DIGITS = 32
#: Bits of a string of at most 24 bytes.
_SHORT_BITS = 64
#: Zero in the connector's forms of numbers.
_ZEROS = ("0", "AA==")


class LargeValues:
    """Placeholders in the rows of one table. *State*: `unsupported`, the columns whose placeholders are unknown."""

    def __init__(self, layout: TableLayout, placeholder: str) -> None:
        """`placeholder`: the connector's option ``unavailable.value.placeholder``."""
        data = placeholder.encode()
        name = UUID(bytes=md5(data, usedforsecurity=False).digest(), version=3)
        self._markers = frozenset(
            {placeholder, b64encode(data).decode(), urlsafe_b64encode(data).decode(), data.hex(), str(name)}
        )
        self._numbers = list(data)
        kinds = [*enumerate(zip(layout.columns, layout.column_types, strict=True))]
        large = [(i, column, kind) for i, (column, kind) in kinds if not _is_short(kind)]
        self.unsupported = [column for _, column, kind in large if not _is_known(kind)]
        #: Position and name of each other column that may be large, and whether its placeholder always has a form.
        self._columns = [(i, column, _is_marked(kind)) for i, column, kind in large if _is_known(kind)]

    def missing(self, image: dict[str, Any]) -> list[int]:
        """Return the positions of the columns whose values in a new row may be placeholders."""
        return [
            i
            for i, column, marked in self._columns
            if column in image
            and (self._is_placeholder(image[column]) or (not marked and _is_perhaps_substitute(image[column])))
        ]

    def completed(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any] | None:
        """Return a new row with the values of the whole old row for placeholders; None if it does not have them."""
        missing = [name for name, value in after.items() if self._is_placeholder(value)]
        if not missing:
            return after
        if any(not before.get(name) or self._is_placeholder(before[name]) for name in missing):
            return None
        return after | {name: before[name] for name in missing}

    def _is_placeholder(self, value: Any) -> bool:
        if type(value) is list and value:
            return value[0] in self._markers if type(value[0]) is str else value == self._numbers
        return type(value) is str and value in self._markers


def _is_short(kind: ColumnType) -> bool:
    if kind.element is not None:
        return False
    return (
        kind.name in _SHORT
        or bool(kind.labels)
        or (kind.name == "numeric" and 0 < kind.precision <= _SHORT_DIGITS)
        or (kind.name == "bit" and 0 < kind.length <= _SHORT_BITS)
    )


def _is_known(kind: ColumnType) -> bool:
    if kind.element is not None:
        return kind.element.name in _ELEMENTS
    return kind.name in _MARKED or (kind.name in _PERHAPS_NULL and not kind.precision)


def _is_marked(kind: ColumnType) -> bool:
    return kind.element is None and kind.name in _MARKED


def _is_perhaps_substitute(value: Any) -> bool:
    """Return whether a value may stand for one that has no placeholder: no large value is NULL, empty or zero."""
    if type(value) is dict:
        value = value.get("value")
    return not value or value in _ZEROS
