"""Cascades: changes of rows by foreign keys (ON DELETE, ON UPDATE), of which the stream carries the cause only.

InnoDB changes the children of a row below the server, whose binary log lacks them (MySQL manual, "InnoDB and MySQL
Replication"). A cascade says of one kind of change of an ancestor which rows of the table may be changed by it, over
any number of foreign keys.

Not here: foreign keys of the catalog (`service.engine.databases.mysql.foreign_keys`), their events (`mysql.cascades`).
"""

from dataclasses import dataclass

from cdc.column_type import ColumnType


@dataclass(frozen=True, slots=True)
class AncestorColumn:
    """Column of an ancestor: its name, its position in the table when that was read, and its type."""

    name: str
    position: int
    type: ColumnType


@dataclass(frozen=True, slots=True)
class AncestorValue:
    """Value of a changed row of the ancestor, by index in `Cascade.columns`: from before the change, or from after."""

    column: int
    after: bool = False


#: Known columns of rows: positions in the table's layout, and their values, None for NULL.
KnownPart = tuple[tuple[int, AncestorValue | None], ...]


@dataclass(frozen=True, slots=True)
class Cascade:
    """Rows of a table that may change when one foreign key acts on a change of an ancestor."""

    #: Qualified name of the ancestor. It may be the table itself.
    ancestor: str
    #: Referenced columns.
    columns: tuple[AncestorColumn, ...]
    #: The key acts when these columns are updated, otherwise when a row is deleted.
    on_update: bool
    #: Parts of the rows before and after. One that is empty stands for all rows.
    rows: tuple[KnownPart, ...]
