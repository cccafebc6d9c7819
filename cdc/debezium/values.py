"""Values in Debezium's events as the texts that the database prints: which converter a column has.

Not here: the databases' own (`postgres_values`, `mysql_values`), what they share (`forms`).
"""

from collections.abc import Callable
from typing import Any

from cdc.column_type import ColumnType
from cdc.debezium import mysql_values, postgres_values
from cdc.debezium.modes import Modes

#: From a JSON value that is not null to the value's text.
Converter = Callable[[Any], str]


def converter(kind: ColumnType, field: dict[str, Any] | None, dialect: str, modes: Modes) -> Converter:
    """The converter of a column; `field` is its schema in the event, if it has one. Raises InexactValue."""
    make = postgres_values.converter if dialect == "postgres" else mysql_values.converter
    return make(kind, field, modes)


def null_is_untold(kind: ColumnType, field: dict[str, Any] | None, dialect: str, modes: Modes) -> str | None:
    """Why NULL in an event may be something else; None if it is not."""
    return postgres_values.null_is_untold(kind, field, modes) if dialect == "postgres" else None
