"""The words of the change stream: what a committed upstream transaction did, table by table.

*Invariants*: a `TableChange`'s rows have one value per column of the table's `TableLayout`, in its order; values are
the upstream's own text, None is NULL. Transactions come in commit order, each whole and once.

Not here: decoding (`postgres.pgoutput`), the connection (`postgres.source`), the engine's own words
(`service.engine.upstream.bridge`).
"""

from collections import Counter
from dataclasses import dataclass, field

from cdc.column_type import ColumnType

#: A row as the upstream prints it, one text (or None) per column.
ChangedRow = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How the rows of a followed table are laid out, and which table it is.

    Names alone do not say that: a table dropped and created anew, or a column renamed over another, has the same ones.

    Replacing a table's layout by an unequal one means *following it anew*: rows between the two may be missing, so
    whoever does that treats the table as one that has just been added to the publication.
    """

    #: Columns in the order rows are delivered in.
    columns: tuple[str, ...]
    #: The table's identity upstream (PostgreSQL: its OID); 0 is any table of that name.
    table_id: int = 0
    #: For each column the identity of its type, modifier included: (type OID, typmod). Empty: not checked.
    type_ids: tuple[tuple[int, int], ...] = ()
    #: For each column its ``attnum``. The stream does not carry it; the catalog check compares it.
    column_ids: tuple[int, ...] = ()
    #: For each column its type, where values are printed by the source and not by the database (MariaDB, MySQL, Kafka).
    column_types: tuple[ColumnType, ...] = ()
    #: Names of its unique keys, where statements that drop them are in the stream (MariaDB, MySQL).
    unique_keys: frozenset[str] = field(default=frozenset(), compare=False)
    #: Marks that change with what neither the stream nor the fields above say (PostgreSQL): of the table's file, which
    #: a rewrite replaces; of each column's definition; of its publication. Empty: not checked.
    file_mark: str = field(default="", compare=False)
    column_marks: tuple[str, ...] = field(default=(), compare=False)
    #: For each column what its type consists of (labels, attributes), and how its texts are ordered.
    type_marks: tuple[str, ...] = field(default=(), compare=False)
    publication_mark: str = field(default="", compare=False)
    #: The table is known to be like this from here on; its rows in transactions that end at or before are dropped.
    since: int = field(default=0, compare=False)


class TableChange:
    """What one transaction did to one table: bags of full rows, ``removed`` always rows from before the transaction.

    With `truncated`, all rows from before are gone, `removed` is empty and `added` is what came afterwards. With
    `overflow` the transaction was too large to hold: both bags are empty and anything may have changed.

    `layout` is what the rows were read by, None if that is not said. It is no part of what was done.
    """

    __slots__ = ("added", "layout", "overflow", "removed", "truncated")

    def __init__(
        self,
        removed: list[ChangedRow] | None = None,
        added: list[ChangedRow] | None = None,
        truncated: bool = False,
        overflow: bool = False,
        layout: TableLayout | None = None,
    ) -> None:
        self.removed: list[ChangedRow] = [] if removed is None else removed
        self.added: list[ChangedRow] = [] if added is None else added
        self.truncated = truncated
        self.overflow = overflow
        self.layout = layout

    def is_by(self, layout: TableLayout) -> bool:
        """Whether the rows can be read by that layout."""
        return self.layout is None or self.layout is layout or self.layout == layout

    def settle(self) -> bool:
        """Cancel rows that were both added and removed; returns whether anything is left to say.

        What remains to be removed was there before: of each row, no more is removed than was there or was added before.
        """
        removed, added = self.removed, self.added
        if removed and added:
            if len(removed) == 1 == len(added):
                if removed == added:
                    self.removed, self.added = [], []
            elif not set(removed).isdisjoint(added):
                self.removed = list((Counter(removed) - Counter(added)).elements())
                self.added = list((Counter(added) - Counter(removed)).elements())
        return bool(self.removed or self.added or self.truncated or self.overflow)

    def overflown(self) -> None:
        """Anything may have changed: forget the rows."""
        self.removed, self.added, self.overflow = [], [], True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TableChange):
            return NotImplemented
        return (self.removed, self.added, self.truncated, self.overflow) == (
            other.removed,
            other.added,
            other.truncated,
            other.overflow,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TableChange({self.removed!r}, {self.added!r}, truncated={self.truncated}, overflow={self.overflow})"


class CommittedTransaction:
    """A committed transaction that touched followed tables. Tables that it did not change in the end are left out."""

    __slots__ = ("end", "id", "tables")

    def __init__(self, transaction_id: int, end: int, tables: dict[str, TableChange]) -> None:
        #: 64 bit, as in ``pg_current_snapshot()``.
        self.id = transaction_id
        #: Where its commit ends in the stream.
        self.end = end
        #: By qualified name, as in the layouts given to the source.
        self.tables = tables

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CommittedTransaction):
            return NotImplemented
        return (self.id, self.end, self.tables) == (other.id, other.end, other.tables)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CommittedTransaction({self.id}, {self.end:#x}, {self.tables!r})"


@dataclass(frozen=True, slots=True)
class SchemaNotice:
    """A followed table is no longer what its layout says.

    `columns` are the layout's columns that are gone or of another type: rows go on coming, with NULL for what is gone,
    so whatever does not use those columns stays right. Empty: no rows of the table are delivered any more until it fits
    again (it lost its replica identity, or is another table now).
    """

    table: str
    #: One sentence for the user, with the statement that repairs it where there is one.
    reason: str
    columns: tuple[str, ...] = ()


@dataclass(slots=True)
class Batch:
    """Whole transactions in commit order, then how far the stream is (at least the last one's end).

    `schema` says what was found out about tables before any of these transactions' rows could be misread. `passed` has
    the global ids (`gtid`) of what ended since the last batch, whatever tables it changed, where they are known.

    `altered`: the id and end of a transaction of this batch that says it changed the database's schema. All before it
    came in earlier batches; nothing of this one is to be applied before the catalog was read at a snapshot that sees
    it.

    `redefined` names relations that statements defined anew, whether they are followed or not: views of the database
    may be among them. A name that ends with a dot is that of all in a database, "" of all.
    """

    transactions: list[CommittedTransaction]
    position: int
    schema: list[SchemaNotice] = field(default_factory=list)
    passed: list[int] = field(default_factory=list)
    altered: tuple[int, int] | None = None
    redefined: list[str] = field(default_factory=list)


class StreamLost(Exception):
    """There is no change stream (any more). Continuity is lost: a new one starts at a new snapshot.

    `reason` is for the user and holds no credentials; `hint` is a statement or a setting that repairs it. Unless
    `retryable`, trying again without changing something will fail again.
    """

    def __init__(self, reason: str, retryable: bool, hint: str | None = None) -> None:
        super().__init__(reason if hint is None else f"{reason} {hint}")
        self.reason = reason
        self.retryable = retryable
        self.hint = hint
