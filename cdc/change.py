"""Data of a change stream: committed transactions of the upstream, table by table.

*Invariants*: the rows of a `TableChange` have one value per column of the table's `TableLayout`, in its order; values
are the upstream's own text, None is NULL. Transactions are in commit order, each complete and delivered once.

Not here: the interface of a stream (`stream`), its implementations (a folder each), the engine's types
(`service.engine.upstream.bridge` converts).
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from cdc.cascade import Cascade
from cdc.column_type import ColumnType

#: A value that the stream does not carry. Only rows of a `PartialChange` have some.
UNKNOWN: Any = ...
#: Prefix of the name of a column that an extended layout has only for its place: no row has a value there. (PostgreSQL
#: gives dropped columns such names.)
FORMER_COLUMN = "........former."
#: A row as the upstream prints it, one text (or None) per column.
ChangedRow = tuple[str | None, ...]
#: A row's image before a transaction, in which at least the identity's columns are known, None if it did not exist; and
#: after it, None if it was deleted. Values that are unknown after a transaction are those from before it.
PartialChange = tuple[ChangedRow | None, ChangedRow | None]


@dataclass(frozen=True, slots=True)
class Partition:
    """Table whose rows the stream carries under its own identity, and which are rows of a partitioned table."""

    #: As `TableLayout.table_id`.
    table_id: int
    #: Columns in the partition's own order.
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Columns and identity of a followed table.

    Names do not identify a table: one that was dropped and created again, or a column renamed to another's name, has
    the same names.

    Replacing a table's layout by an unequal one means *following it anew*: rows between the two layouts may be missing,
    so the caller treats the table as one that has just joined the stream. A layout that *extends* another one, its
    `former`, has the columns of that at their places, those that were dropped or altered under a name of
    `FORMER_COLUMN`, and others behind them. No row is missing then: earlier rows have no value for the new columns.
    """

    #: Columns, in the order of the values in delivered rows.
    columns: tuple[str, ...]
    #: The table's identity upstream (PostgreSQL: its OID); 0 stands for any table of that name.
    table_id: int = 0
    #: Identity of each column's type, modifier included (PostgreSQL: type OID, typmod). Empty: not checked.
    type_ids: tuple[tuple[int, int], ...] = ()
    #: Identity of each column (PostgreSQL: ``attnum``). The catalog check compares it; the stream does not carry it.
    column_ids: tuple[int, ...] = ()
    #: Type of each column, where the stream prints values and not the database (MariaDB, MySQL, Debezium).
    column_types: tuple[ColumnType, ...] = ()
    #: Names of the unique keys, where the stream carries the statements that drop them (MariaDB, MySQL).
    unique_keys: frozenset[str] = field(default=frozenset(), compare=False)
    #: Positions of a unique key without NULLs that partial row images identify rows by (MariaDB, MySQL, Debezium).
    #: Debezium of PostgreSQL: the replica identity; empty if old rows are whole.
    key: tuple[int, ...] = ()
    #: Positions of generated columns. They may change without being in a partial row image.
    generated: tuple[int, ...] = field(default=(), compare=False)
    #: Changes by which foreign keys change rows of the table that the stream does not carry.
    cascades: tuple[Cascade, ...] = ()
    #: Partitions that contain the table's rows (PostgreSQL: the leaves of the partition tree); None: not partitioned.
    partitions: tuple[Partition, ...] | None = None
    #: Fingerprints for changes that neither the stream nor the fields above show (PostgreSQL): of the table's file,
    #: which a rewrite replaces; of each column's definition; of publication and partitions. Empty: not checked.
    file_mark: str = field(default="", compare=False)
    column_marks: tuple[str, ...] = field(default=(), compare=False)
    #: Fingerprint of each column's type (labels, attributes) and collation.
    type_marks: tuple[str, ...] = field(default=(), compare=False)
    publication_mark: str = field(default="", compare=False)
    #: Position from which on the layout is valid; rows of transactions that end at or before it are dropped.
    since: int = field(default=0, compare=False)
    #: The layout that this one extends, and the position from which on rows have values for all columns.
    former: "TableLayout | None" = field(default=None, compare=False, repr=False)
    extended: int = field(default=0, compare=False)

    @property
    def marks(self) -> tuple[str | tuple[str, ...], ...]:
        """The fingerprints, that of the file first."""
        return self.file_mark, self.column_marks, self.type_marks, self.publication_mark


class TableChange:
    """Changes of one table by one transaction: bags of full rows; `removed` has rows from before the transaction only.

    `partial`: rows from before the transaction whose old values are not all known; `removed` is empty then, and `added`
    has the other rows.
    `implied`: rows known in part. Any rows that agree with one of them may have been changed, removed or added, beside
    what the other bags have (`cascade`); of these rows, `removed` may have some from within the transaction.
    `truncated`: all earlier rows are gone, `removed`, `partial` and `implied` are empty, `added` has the rows inserted
    after the TRUNCATE. `overflow`: the transaction was too large to hold; all are empty, any row may have changed.

    `layout` is the layout that the rows were read by, None if unknown. It does not take part in comparison.
    """

    __slots__ = ("added", "implied", "layout", "overflow", "partial", "removed", "truncated")

    def __init__(
        self,
        removed: list[ChangedRow] | None = None,
        added: list[ChangedRow] | None = None,
        truncated: bool = False,
        overflow: bool = False,
        layout: TableLayout | None = None,
        partial: list[PartialChange] | None = None,
        implied: list[ChangedRow] | None = None,
    ) -> None:
        self.removed: list[ChangedRow] = [] if removed is None else removed
        self.added: list[ChangedRow] = [] if added is None else added
        self.truncated = truncated
        self.overflow = overflow
        self.layout = layout
        self.partial: list[PartialChange] = [] if partial is None else partial
        self.implied: list[ChangedRow] = [] if implied is None else implied

    def has_layout(self, layout: TableLayout) -> bool:
        """Return whether the rows are laid out like that."""
        return self.layout is None or self.layout is layout or self.layout == layout

    def widen(self, layout: TableLayout) -> bool:
        """Make rows read by `layout.former` rows of `layout`; return whether that is what they were read by."""
        former = layout.former
        if former is None or self.layout is not former:
            return False
        more = len(layout.columns) - len(former.columns)
        rest, unknown = (None,) * more, (UNKNOWN,) * more
        self.removed = [row + rest for row in self.removed]
        self.added = [row + rest for row in self.added]
        self.partial = [
            (None if before is None else before + unknown, None if after is None else after + unknown)
            for before, after in self.partial
        ]
        self.implied = [row + unknown for row in self.implied]
        self.layout = layout
        return True

    def settle(self) -> bool:
        """Cancel rows that were both added and removed; return whether any change is left.

        Remaining removals are of rows from before: no row is removed more often than it was stored or added.
        """
        removed, added = self.removed, self.added
        if removed and added:
            if len(removed) == 1 == len(added):
                if removed == added:
                    self.removed, self.added = [], []
            elif not set(removed).isdisjoint(added):
                self.removed = list((Counter(removed) - Counter(added)).elements())
                self.added = list((Counter(added) - Counter(removed)).elements())
        return bool(self.removed or self.added or self.partial or self.implied or self.truncated or self.overflow)

    def drop_rows(self) -> None:
        """Discard the rows: any row of the table may have changed."""
        self.removed, self.added, self.partial, self.implied, self.overflow = [], [], [], [], True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TableChange):
            return NotImplemented
        return self._content() == other._content()

    def _content(self) -> tuple[object, ...]:
        return (self.removed, self.added, self.partial, self.implied, self.truncated, self.overflow)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"TableChange({self.removed!r}, {self.added!r}, truncated={self.truncated}, overflow={self.overflow},"
            f" partial={self.partial!r}, implied={self.implied!r})"
        )


class CommittedTransaction:
    """A committed transaction that touched followed tables. Tables without a net change are left out."""

    __slots__ = ("end", "id", "tables")

    def __init__(self, transaction_id: int, end: int, tables: dict[str, TableChange]) -> None:
        #: The id that snapshots know it by: 64 bits (PostgreSQL), a global id (MySQL, `gtid`), its position (MariaDB).
        self.id = transaction_id
        #: The position at which its commit ends.
        self.end = end
        #: By qualified name, as in the layouts given to the stream.
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
    """A followed table no longer matches its layout.

    `columns` lists columns of the layout that were dropped or have another type: rows are still delivered, with NULL
    for dropped columns, so results that do not use these columns stay exact. Empty: no row of the table is delivered
    until it matches a layout again (it lost its replica identity, or was replaced by another table). `unreadable`: the
    table has the columns as before, but the stream does not state their values.
    """

    table: str
    #: One sentence for the user, with the statement that repairs it if there is one.
    reason: str
    columns: tuple[str, ...] = ()
    unreadable: bool = False


@dataclass(slots=True)
class Batch:
    """Complete transactions in commit order, and the position of the stream behind them (at least the last one's end).

    `schema` takes effect before the rows of these transactions: apply it first. `passed` has the global ids (`gtid`) of
    all transactions that ended since the last batch, whatever tables they changed; empty where ids are unknown.

    `altered`: id and end of the transaction of this batch that marked itself as a schema change. Every transaction
    before it came in earlier batches; apply this batch only after reading the catalog at a snapshot that sees it.

    `redefined` names relations that statements redefined, followed or not; views of the database may be among them. A
    name that ends with a dot stands for all relations of a database, "" for all relations.

    `resumed`: the connection to the database broke since the last batch, and another one continues the stream. If the
    server crashed in between, transactions that lookups have seen, but the stream had not reached, are gone: apply this
    batch after all answers ahead of the stream have been dropped. `server`: identity of the server that the stream
    continues on, which may be a promoted standby; "" if it is the same one, or unknown.
    """

    transactions: list[CommittedTransaction]
    position: int
    schema: list[SchemaNotice] = field(default_factory=list)
    passed: list[int] = field(default_factory=list)
    altered: tuple[int, int] | None = None
    redefined: list[str] = field(default_factory=list)
    resumed: bool = False
    server: str = ""


class StreamLost(Exception):
    """The change stream cannot start, or has ended. Continuity is lost: a new stream starts at a new snapshot.

    `reason` is a sentence for the user without credentials; `hint` is a statement or setting that repairs it. Unless
    `retryable`, a new attempt fails again until the cause is repaired.
    """

    def __init__(self, reason: str, retryable: bool, hint: str | None = None) -> None:
        super().__init__(reason if hint is None else f"{reason} {hint}")
        self.reason = reason
        self.retryable = retryable
        self.hint = hint
