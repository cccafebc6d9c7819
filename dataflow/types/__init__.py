"""Values, rows, keys and positions; in this package's modules the SQL types that values are of.

A *value* is the exact text the upstream prints for it (``None`` is NULL). Text is a row's identity: an update from
``1.0`` to ``1.00`` is a change although the two are equal. A *key* holds the *normal forms* of values
(`SqlType.normal_form`), in which two values are the same text exactly if the upstream's ``=`` calls them equal.

Not here: SQL types (`sql_type`), scalar expressions (`dataflow.scalar`).
"""

from collections.abc import Iterable
from typing import Any, NewType, Protocol

Value = str | None
#: One value per column, in the column order of its relation.
Row = tuple[Value, ...]
#: A value that the change stream does not carry. Only rows of a `PartialChange` have some.
UNKNOWN: Any = ...
#: Images of a table's row: before a transaction, where at least the columns of the table's identity are known, None if
#: it did not exist; and after it, None if it was deleted. Values that are unknown after it are those from before.
PartialChange = tuple[Row | None, Row | None]
#: Normal forms, one per key column; ``()`` is the key of everything (a full materialization).
Key = tuple[Value, ...]
#: Columns of a relation, as indexes into its rows.
Columns = tuple[int, ...]
#: A point in the upstream's change stream. Only the order matters to the engine (PostgreSQL: an LSN).
Position = int

NodeId = NewType("NodeId", int)
ViewId = NewType("ViewId", int)
LookupId = NewType("LookupId", int)
ReadId = NewType("ReadId", int)
RefreshId = NewType("RefreshId", int)
TransactionId = NewType("TransactionId", int)

#: Rows that go and rows that come, both bags; what goes was in the relation before.
Delta = tuple[list[Row], list[Row]]


class Snapshot(Protocol):
    """The transactions that one upstream statement saw (ARCHITECTURE.md, "Versioned lookups").

    *Invariants*: a later statement's snapshot sees all that an earlier one's sees. What is neither seen nor unsure was
    not visible; only of a snapshot that is not `exact` anything is unsure.
    """

    @property
    def exact(self) -> bool:
        """True if nothing is unsure, whatever transaction it is. Is asked first, so that an exact one costs nothing."""
        return True

    def sees(self, transaction: TransactionId, end: Position) -> bool:
        """Return whether that transaction, whose commit ends at `end` in the stream, was visible for sure."""
        ...

    def unsure(self, transaction: TransactionId, end: Position) -> bool:  # noqa: ARG002
        """Return whether that transaction may have been visible or not."""
        return False

    def covers(self, other: "Snapshot") -> bool:
        """Return whether everything that `other` may see is seen here for sure."""
        ...

    def finished(self, other: "Snapshot") -> bool:
        """Return whether every transaction that was open, or older, when `other` was taken had ended."""
        ...


def columns_of(row: Row, columns: Iterable[int]) -> Row:
    """The values of `row` in `columns`."""
    return tuple(row[c] for c in columns)
