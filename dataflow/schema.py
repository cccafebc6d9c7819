"""The upstream's catalog, as far as the engine uses it: types, columns, tables, keys.

Not here: what is known of a type's values (`types`); who reads the catalog (`service.engine.databases`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dataflow.types.sql_type import SqlType


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or of a relation."""

    name: str
    type: SqlType
    not_null: bool = False


@dataclass(frozen=True, slots=True)
class Spread:
    """How many rows of a table have the same value in a column, by the upstream's statistics; NULLs are not counted."""

    mean: float
    #: Of the most common value.
    most: float


@dataclass(frozen=True, slots=True)
class Table:
    """A base table of the upstream. Rows of it have one value per entry of `columns`, in that order."""

    #: Qualified and, where needed, quoted: ``public.stories``.
    name: str
    columns: tuple[Column, ...]
    #: Unique keys whose columns are all NOT NULL, by ordinal; the primary key first.
    keys: tuple[tuple[int, ...], ...] = ()
    #: Leading columns of each of the upstream's indexes, for the warnings of ``explain``.
    indexes: tuple[tuple[int, ...], ...] = ()
    #: The planner's estimate of the number of rows (``pg_class.reltuples``); -1 if unknown.
    estimated_rows: float = -1
    #: By ordinal; of the columns that the upstream has statistics of.
    spreads: Mapping[int, Spread] = field(default_factory=dict, hash=False)
    #: Columns that changes carry of old rows, by ordinal; None if they carry all, empty if they carry nothing.
    identity: tuple[int, ...] | None = None
    #: Foreign keys change rows of it, which changes carry in part (`engine.events.TableDelta.implied`).
    cascades: bool = False

    def ordinal(self, name: str) -> int:
        """The position of the column `name`; KeyError if there is none."""
        for i, column in enumerate(self.columns):
            if column.name == name:
                return i
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class UpstreamView:
    """A view of the upstream: read as the SELECT that it stands for."""

    #: Qualified and, where needed, quoted.
    name: str
    #: Its definition (``pg_get_viewdef``), whose bare names are found by the catalog's search path.
    sql: str
    columns: tuple[Column, ...]


_TEXT = SqlType("text", "text", collation="deterministic")


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tables and views that SQL may read, by qualified name, and the search path of bare names."""

    tables: dict[str, Table] = field(default_factory=dict)
    search_path: tuple[str, ...] = ("public",)
    views: dict[str, UpstreamView] = field(default_factory=dict)
    #: The SQL of registered views by name. What the upstream has under a name comes before them.
    registered: dict[str, str] = field(default_factory=dict)
    #: Text of no column, as functions make it: of the database's own collation.
    text: SqlType = _TEXT
    #: Whose SQL the views are written in, and the lookups: ``postgres``, ``mariadb`` or ``mysql``.
    dialect: str = "postgres"


__all__ = ["Catalog", "Column", "Spread", "SqlType", "Table", "UpstreamView"]
