"""Kinds of effects that the binary log's statements have on tables.

Not here: parsing statements (`statements`, `alterations`).
"""

from dataclasses import dataclass
from enum import Enum, auto

#: Database and table; None stands for all tables of the database, or all databases of the server.
TableName = tuple[str | None, str | None]

EVERY_TABLE: TableName = (None, None)


class EffectKind(Enum):
    """Changes that a statement makes to a table as a whole."""

    #: All rows were removed.
    TRUNCATE = auto()
    #: The table was dropped, renamed or created: the name denotes another table, or none.
    REPLACE = auto()
    #: Columns were dropped or have another type; none are named if it may be any column.
    ALTER = auto()
    #: Columns have another order.
    SHIFT = auto()
    #: Unique keys were dropped or replaced; `TableEffect.columns` has their names.
    UNIQUE = auto()
    #: A view of that name was created, altered or dropped.
    VIEW = auto()
    #: Rows changed that are not in the log.
    REWRITE = auto()
    #: The statement is outside the supported grammar: it may have any of these effects.
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class TableEffect:
    """Effect on one table, or on all tables of a database or of the server."""

    table: TableName
    kind: EffectKind
    columns: tuple[str, ...] = ()
