"""Views that are not maintained incrementally: their answers are cached per key and refreshed.

Not here: how SQL becomes one (`sql`), when an answer is stale (`engine`), running it (`service`).
"""

from dataclasses import dataclass

from dataflow.scalar import Scalar
from dataflow.schema import SqlType


@dataclass(frozen=True, slots=True)
class TableRead:
    """The part of a base table that a view reads, so that changes which cannot touch it do not count.

    A change counts if a row before or after it may pass `predicate` (over the table's full row; None: all pass), unless
    it is an update that changes none of `columns`. `keys`, pairs of a column and a position of the view's key, say that
    only rows equal to the key there are read, text by text: a change concerns only the cached keys that agree with one
    of its rows.
    """

    table: str
    columns: frozenset[int]
    predicate: Scalar | None = None
    keys: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RefreshParameter:
    """A parameter of the view. `many`: it takes a list."""

    name: str
    type: SqlType
    many: bool = False


@dataclass(frozen=True, slots=True)
class RefreshView:
    """A view whose SQL is run upstream for each key that is read, and again when it is stale.

    `ttl_ms` None is the refresh tier: stale when a change touches what it `reads`. Otherwise the ttl tier: what it
    reads is not in the stream, so an answer is good for that long.
    """

    name: str
    sql: str
    #: Sorted by name. The view's key is their values in this order, as the upstream prints them (a list: an array).
    parameters: tuple[RefreshParameter, ...]
    #: Name and type of what readers see.
    output: tuple[tuple[str, SqlType], ...]
    reads: tuple[TableRead, ...]
    #: Why there is no incremental plan.
    reason: str
    ttl_ms: int | None = None
