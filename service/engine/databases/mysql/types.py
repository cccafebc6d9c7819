"""Column types from ``information_schema.columns``: for the engine (`SqlType`) and for the stream (`ColumnType`).

*Invariant*: columns of equal types print and compare alike.

Not here: what the types mean (`dataflow.types`, `cdc.mysql.values`), reading them (`catalog`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cdc.column_type import ColumnType
from cdc.mysql.values import BYTES, TEXTS
from dataflow.collations import Collation
from dataflow.schema import SqlType
from dataflow.types.documents import MARIADB_DOCUMENT, MARIADB_JSON, MYSQL_JSON
from dataflow.types.integers import UINT8
from dataflow.types.labels import ENUM, SET
from dataflow.types.registry import OF_MYSQL

#: By name: type of signed and of unsigned numbers.
_INTEGERS = {
    "tinyint": ("int2", "int2"),
    "smallint": ("int2", "int4"),
    "mediumint": ("int4", "int4"),
    "int": ("int4", "int8"),
    "bigint": ("int8", UINT8),
    "year": ("int2", "int2"),
    "bit": (UINT8, UINT8),
}
_WITH_FRACTION = frozenset({"datetime", "timestamp", "time"})
#: A label, with its quotes doubled.
_LABEL = re.compile(r"'((?:[^']|'')*)'")

#: Supported collations by name; columns of others cannot be compared or sorted.
Collations = Mapping[str, Collation]


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """Column as in ``information_schema``; `json` if a check constraint requires JSON; `has_default` if not NULL."""

    name: str
    data_type: str
    column_type: str
    length: int
    precision: int
    scale: int
    fraction: int
    charset: str
    collation: str
    nullable: bool
    extra: str
    has_default: bool = False
    json: bool = False

    @property
    def generated(self) -> bool:
        return "VIRTUAL GENERATED" in self.extra or "STORED GENERATED" in self.extra

    @property
    def unsigned(self) -> bool:
        return " unsigned" in self.column_type or self.data_type in ("year", "bit")

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of an enum or a set, as written in its definition."""
        if self.data_type not in ("enum", "set"):
            return ()
        return tuple(label.replace("''", "'").replace("\\\\", "\\") for label in _LABEL.findall(self.column_type))


def column_kind(row: ColumnRow) -> ColumnType:
    """Returns the type used by change streams."""
    name = row.data_type
    precision = row.precision if name == "decimal" else row.fraction if name in _WITH_FRACTION else 0
    scale = row.scale if name == "decimal" else 0
    length = row.precision if name == "bit" else row.length
    if name in ("enum", "set"):
        length = 0
    unsigned = " unsigned" in row.column_type
    return ColumnType("json" if row.json else name, length, precision, scale, unsigned, row.labels, row.charset)


def sql_type(row: ColumnRow, collations: Collations) -> SqlType:
    """Returns the type used by the engine."""
    name = row.data_type
    # Numbers that are padded where they become text.
    zeros = " zerofill" if " zerofill" in row.column_type else ""
    if row.json and name not in TEXTS:
        return SqlType(MARIADB_DOCUMENT, "json")
    if name in _INTEGERS:
        written = name if name != "bit" else row.column_type
        unsigned = " unsigned" if " unsigned" in row.column_type else ""
        return SqlType(_INTEGERS[name][row.unsigned], f"{written}{unsigned}{zeros}")
    if name == "decimal":
        return SqlType("numeric", f"decimal({row.precision},{row.scale}){zeros}")
    if name in OF_MYSQL:
        return SqlType(OF_MYSQL[name], f"{name}({row.fraction})" if row.fraction else name)
    if name in TEXTS:
        collation, weights, folding = _collation(row.collation, collations)
        kind = "varchar" if name in ("char", "varchar") else "text"
        if row.json:
            kind, name = MARIADB_JSON, "json"
        return SqlType(kind, name, collation=collation, folding=folding, weights=weights)
    if name in ("enum", "set"):
        collation, weights, _ = _collation(row.collation, collations)
        kind = "enum" if name == "enum" else "base"
        label = ENUM if name == "enum" else SET
        return SqlType(label, row.column_type, kind, labels=row.labels, collation=collation, weights=weights)
    if name in BYTES:
        return SqlType("bytea", name)
    return SqlType(MYSQL_JSON if name == "json" else name, name, "other")


def text_type(collation: str, collations: Collations) -> SqlType:
    """Returns the type of text that belongs to no column."""
    name, weights, folding = _collation(collation, collations)
    return SqlType("text", "text", collation=name, folding=folding, weights=weights)


#: Binary collations: equal texts are identical, and the order is by code point. (Those of other character sets have
#: weights, which define their texts.)
BYTE_COLLATIONS = frozenset({"utf8mb4_nopad_bin", "utf8mb4_0900_bin"})


def _collation(name: str, collations: Collations) -> tuple[str, Collation | None, str]:
    weights = collations.get(name)
    folding = "" if weights is None else weights.folding
    if name in BYTE_COLLATIONS:
        return "bytes", None, folding
    return ("nondeterministic", None, "") if weights is None else (name, weights, folding)
