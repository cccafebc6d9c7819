"""What is said about an upstream database, whichever it is: rows with their versions, findings, errors.

Not here: asking it (`upstream`, and a folder for each kind of database).
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cdc.stream import UpstreamSnapshot
from dataflow.plan.refresh import RefreshParameter
from dataflow.schema import SqlType
from dataflow.sizing import sampled_bytes
from dataflow.types import Row

#: What the upstream says of a column of an answer: its name and the number of its type.
AnswerColumn = tuple[str, int]
#: Columns of an answer with some of its rows.
AnswerPart = tuple[tuple[AnswerColumn, ...], list[Row]]


class UpstreamError(Exception):
    """The upstream could not do what was asked. Holds no credentials; `detail` is for logs, `told` for clients.

    `code`: ``unavailable`` (no connection), ``credentials``, ``denied`` (rights), ``timeout``, ``missing`` (table,
    column, database …), ``invalid`` (a statement it does not take, or that fails on the data), ``parameter`` (a value
    that a parameter's type does not have), ``overloaded`` (no connection free in time), ``too_large`` (an answer),
    ``failed``.
    """

    def __init__(self, code: str, detail: str, hint: str | None = None, retryable: bool = False) -> None:
        super().__init__(detail if hint is None else f"{detail} {hint}")
        self.code = code
        self.detail = detail
        self.hint = hint
        self.retryable = retryable

    @property
    def of_query(self) -> bool:
        """Whether the database is well, and the same query with the same values on the same data fails again."""
        return self.code in ("invalid", "parameter")

    @property
    def told(self) -> str:
        """What clients may see: where the upstream is, and as whom it is asked, they may not."""
        hidden = self.code in ("unavailable", "credentials")
        return "The database cannot be reached right now." if hidden else str(self)


@dataclass(frozen=True, slots=True)
class AnswerSize:
    """How large an answer may be."""

    rows: int
    #: About, as its rows are held here.
    bytes: int
    #: What to do about one that is larger.
    hint: str | None = None

    def problem(self, rows: int, size: int) -> UpstreamError | None:
        """What to say of one with so many rows and bytes, if that is too large."""
        if rows > self.rows:
            return UpstreamError("too_large", f"The answer has more than {self.rows} rows.", self.hint)
        if size > self.bytes:
            return UpstreamError("too_large", f"The answer has more than {self.bytes} bytes.", self.hint)
        return None


#: Of answers that nobody else bounds, or that are known to be small.
UNLIMITED = AnswerSize(sys.maxsize, sys.maxsize)


class AnswerCount:
    """What the answers of one question have so far, and whether that is too much."""

    __slots__ = ("_bytes", "_most", "_rows")

    def __init__(self, most: AnswerSize) -> None:
        self._most = most
        self._rows = self._bytes = 0

    def add(self, rows: Sequence[Row]) -> UpstreamError | None:
        """There are these rows more; what to say if they are too many now."""
        self._rows += len(rows)
        self._bytes += sampled_bytes(rows)
        return self._most.problem(self._rows, self._bytes)


def text_bytes(rows: Iterable[Row]) -> int:
    """About how many bytes the texts of rows have."""
    return sum(len(text) for row in rows for text in row if text is not None)


@dataclass(slots=True)
class LookupRows:
    """Rows read at `snapshot`. All that it sees is in the stream by `bound`, a position; `flush` is how far the
    stream gets by itself: to `bound` if ``bound <= flush``, else it may need a push."""

    rows: list[Row]
    snapshot: UpstreamSnapshot
    bound: int
    flush: int


@dataclass(slots=True)
class ForwardRows:
    """The rows of several queries at one snapshot, and the columns of each query's answer. `version` is that of answers
    that do not wait for the stream; if it is not said, `bound` is."""

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
    """A statement that the upstream would run."""

    #: Sorted by name.
    parameters: tuple[RefreshParameter, ...]
    output: tuple[tuple[str, SqlType], ...]
    #: What its answers must have.
    columns: tuple[AnswerColumn, ...]
    #: As it is run: parameters as $1, $2 … in their order, cast to their types where that is needed.
    text: str
    #: Qualified names of the tables that it reads, through views.
    tables: frozenset[str]
    #: The definitions of the upstream's views that it reads.
    views: tuple[str, ...]
    #: Why its answer is not a function of what tables hold; None if it is.
    volatile: str | None


@dataclass(frozen=True, slots=True)
class SchemaToken:
    """A hash of what views depend on and the change stream does not carry: another one is worth a look."""

    mark: str
    #: Whether each transaction that alters the schema says so in the stream.
    exact: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the upstream that the user should know."""

    #: ``wal_level``, ``replication_role``, ``replication_slots``, ``publication``, ``row_image``, ``not_streamed``,
    #: ``rights`` …
    code: str
    #: One sentence.
    reason: str
    #: The statement or setting that repairs it, if there is one.
    fix: str | None = None
    #: The table it is about; None: the server or the database.
    table: str | None = None
    #: Whether nothing (of this table) can be followed until it is repaired; otherwise it is a warning.
    fatal: bool = True
