"""The effects that a statement in the binary log has on tables, as far as their rows are concerned.

Not here: which statement has which (`statements`, `alterations`).
"""

from dataclasses import dataclass
from enum import Enum, auto

#: A database's name and a table's in it; no table is all of them, no database all of the server's.
TableName = tuple[str | None, str | None]

EVERY_TABLE: TableName = (None, None)


class EffectKind(Enum):
    """The kind of an effect."""

    #: All rows are gone.
    TRUNCATE = auto()
    #: It was dropped, renamed or created: the name is another table's now, or nobody's.
    REPLACE = auto()
    #: Columns are gone or of another kind; none are named if it may be any.
    ALTER = auto()
    #: Columns are at other places than they were.
    SHIFT = auto()
    #: Unique keys are gone, or are others now; `TableEffect.columns` has their names.
    UNIQUE = auto()
    #: A view of that name was created, altered or dropped.
    VIEW = auto()
    #: Rows came, went or changed that are not in the log.
    REWRITE = auto()
    #: The statement is not understood: it may have done any of these.
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class TableEffect:
    """The effect on one table, or on all of a database's or of the server's."""

    table: TableName
    kind: EffectKind
    columns: tuple[str, ...] = ()
