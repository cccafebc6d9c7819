"""Result types of any upstream database: rows with their versions, findings, errors.

Not here: the queries (`upstream`, and a folder for each kind of database).
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cdc.stream import UpstreamSnapshot
from dataflow.plan.refresh import RefreshParameter
from dataflow.schema import SqlType
from dataflow.sizing import sampled_bytes
from dataflow.types import Key, Row

#: Column of a result: its name and the OID of its type.
AnswerColumn = tuple[str, int]
#: Columns of a result with some of its rows.
AnswerPart = tuple[tuple[AnswerColumn, ...], list[Row]]


class UpstreamError(Exception):
    """Failure of an upstream request, without credentials; `detail` is for logs, `public_text` for clients.

    `code`: ``unavailable`` (no connection), ``credentials``, ``denied`` (rights), ``timeout``, ``missing`` (table,
    column, database …), ``invalid`` (a statement that is rejected, or fails on the data), ``parameter`` (a value
    outside the parameter's type), ``overloaded`` (no free connection in time), ``too_large`` (a result), ``failed``.
    """

    def __init__(self, code: str, detail: str, hint: str | None = None, retryable: bool = False) -> None:
        super().__init__(detail if hint is None else f"{detail} {hint}")
        self.code = code
        self.detail = detail
        self.hint = hint
        self.retryable = retryable

    @property
    def of_query(self) -> bool:
        """True if the query itself fails: repeating it on the same data fails again."""
        return self.code in ("invalid", "parameter")

    @property
    def public_text(self) -> str:
        """Text for clients: hides the database's address and role."""
        hidden = self.code in ("unavailable", "credentials")
        return "The database cannot be reached right now." if hidden else str(self)


@dataclass(frozen=True, slots=True)
class AnswerSize:
    """Size limits of a result."""

    rows: int
    #: Approximate, as its rows are held in memory.
    bytes: int
    #: Remedy for a larger result.
    hint: str | None = None

    def problem(self, rows: int, size: int) -> UpstreamError | None:
        """Returns the error of a result with this many rows and bytes, if that exceeds the limits."""
        if rows > self.rows:
            return UpstreamError("too_large", f"The answer has more than {self.rows} rows.", self.hint)
        if size > self.bytes:
            return UpstreamError("too_large", f"The answer has more than {self.bytes} bytes.", self.hint)
        return None


#: For results bounded elsewhere, or known to be small.
UNLIMITED = AnswerSize(sys.maxsize, sys.maxsize)


class AnswerCount:
    """Running total of the results of one request, checked against limits."""

    __slots__ = ("_bytes", "_most", "_rows")

    def __init__(self, most: AnswerSize) -> None:
        self._most = most
        self._rows = self._bytes = 0

    def add(self, rows: Sequence[Row]) -> UpstreamError | None:
        """Adds rows; returns the error once the limits are exceeded."""
        self._rows += len(rows)
        self._bytes += sampled_bytes(rows)
        return self._most.problem(self._rows, self._bytes)


def text_bytes(rows: Iterable[Row]) -> int:
    """Returns the approximate number of bytes of the texts of rows."""
    return sum(len(text) for row in rows for text in row if text is not None)


@dataclass(slots=True)
class LookupRows:
    """Rows read at `snapshot`. Everything it sees is in the stream by the position `bound`; `flush` is the position
    that the stream reaches by itself: if ``bound > flush`` it may need a push. `keys`, of a semijoin: all that it
    found, with rows and without. `stalled`: the server took longer than `Lookups.run` was told.
    """

    rows: list[Row]
    snapshot: UpstreamSnapshot
    bound: int
    flush: int
    keys: Sequence[Key] = ()
    stalled: bool = False


@dataclass(slots=True)
class ForwardRows:
    """Rows of several queries at one snapshot, and the columns of each result. `version` applies to answers that do not
    wait for the stream; if it is None, `bound` does.
    """

    rows: list[list[Row]]
    columns: list[tuple[AnswerColumn, ...]]
    snapshot: UpstreamSnapshot
    bound: int
    flush: int
    version: int = -1

    def __post_init__(self) -> None:
        if self.version < 0:
            self.version = self.bound


@dataclass(frozen=True, slots=True)
class Described:
    """Description of a statement that the upstream accepts."""

    #: Sorted by name.
    parameters: tuple[RefreshParameter, ...]
    output: tuple[tuple[str, SqlType], ...]
    #: Columns of its result.
    columns: tuple[AnswerColumn, ...]
    #: SQL as it is run: parameters as $1, $2 … in their order, cast to their types where necessary.
    text: str
    #: Qualified names of the tables that it reads, also through views.
    tables: frozenset[str]
    #: Definitions of the upstream views that it reads.
    views: tuple[str, ...]
    #: Why its result is not a function of table contents; None if it is.
    volatile: str | None


@dataclass(frozen=True, slots=True)
class SchemaToken:
    """Hash of the schema that views depend on and the change stream does not carry; a new value requires a check of the
    catalog.
    """

    mark: str
    #: True if each schema-altering transaction is marked in the stream.
    exact: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """Fault or warning in the upstream's configuration."""

    #: ``wal_level``, ``replication_role``, ``replication_slots``, ``publication``, ``row_image``, ``not_streamed``,
    #: ``rights`` …
    code: str
    #: One sentence.
    reason: str
    #: Statement or setting that repairs it, if any.
    fix: str | None = None
    #: Table concerned; None: the server or the database.
    table: str | None = None
    #: True if nothing (of this table) can be followed until it is repaired; otherwise a warning.
    fatal: bool = True
