"""Converters of values in Debezium's events to the texts that the database prints.

Not here: the databases' converters (`postgres_values`, `mysql_values`), shared forms (`forms`).
"""

from collections.abc import Callable
from typing import Any, assert_never

from cdc.column_type import ColumnType
from cdc.debezium import mysql_values, postgres_values
from cdc.debezium.modes import Dialect, Modes

#: Converts a JSON value other than null to the value's text.
Converter = Callable[[Any], str]


def converter(kind: ColumnType, field: dict[str, Any] | None, dialect: Dialect, modes: Modes) -> Converter:
    """Return a column's converter; `field` is its schema in the event, if it has one. Raises InexactValue."""
    match dialect:
        case "postgres":
            return postgres_values.converter(kind, field, modes)
        case "mysql":
            return mysql_values.converter(kind, field, modes)
        case _:
            assert_never(dialect)


def null_ambiguity(kind: ColumnType, field: dict[str, Any] | None, dialect: Dialect, modes: Modes) -> str | None:
    """Return the reason why NULL in an event may be another value; None if it may not."""
    match dialect:
        case "postgres":
            return postgres_values.null_ambiguity(kind, field, modes)
        case "mysql":
            return None
        case _:
            assert_never(dialect)
