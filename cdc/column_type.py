"""What a column's type is, as far as the text of its values depends on it.

One description for all sources and databases: the name is the database's own word for the type, the rest is what its
definition says. Equal column types print equal values equally.

Not here: how values are printed (`mysql.values` and `debezium` for their own formats).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ColumnType:
    """One column's type, modifiers included."""

    #: MariaDB, MySQL: ``data_type`` of ``information_schema.columns`` (``int``, ``varchar``, …), in lower case.
    #: PostgreSQL: ``typname``.
    name: str
    #: Characters of char, varchar and *text*, bytes of binary, varbinary and *blob*, bits of bit.
    length: int = 0
    #: Digits of a decimal; of date and time types, digits of the seconds' fraction.
    precision: int = 0
    #: Digits behind a decimal's point.
    scale: int = 0
    unsigned: bool = False
    #: Values of an enum or set, in the order of its definition.
    labels: tuple[str, ...] = ()
    #: The server's name of the character set; "" for numbers, dates and bytes.
    charset: str = ""
    #: PostgreSQL: what an array's elements are.
    element: "ColumnType | None" = None
