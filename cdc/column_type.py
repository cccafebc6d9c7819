"""Column types, as far as the text of values depends on them.

All streams and databases share one description: the database's own name of the type, and the modifiers of its
definition. Equal column types print equal values equally.

Not here: printing values (`mysql.values`, `debezium.rows`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ColumnType:
    """Type of one column, modifiers included."""

    #: MariaDB, MySQL: ``data_type`` of ``information_schema.columns`` (``int``, ``varchar``, …), in lower case.
    #: PostgreSQL: ``typname``.
    name: str
    #: Characters (char, varchar, *text*), bytes (binary, varbinary, *blob*) or bits (bit).
    length: int = 0
    #: Digits of a decimal, or of the fraction of seconds.
    precision: int = 0
    #: Digits of a decimal behind the point.
    scale: int = 0
    unsigned: bool = False
    #: Labels of an enum or set, in the order of its definition.
    labels: tuple[str, ...] = ()
    #: The server's name of the character set; "" for numbers, dates and bytes.
    charset: str = ""
    #: PostgreSQL: type of an array's elements.
    element: "ColumnType | None" = None
