"""Chunks of an engine's state: tuples of plain values (numbers, texts, bytes; tuples and dictionaries). Keys and rows
are in columns: taking them is most of what a restoration does.

Not here: which chunks an engine's state has (`checkpoint`), their use (`restoration`).
"""

from typing import Any, NamedTuple

from dataflow.plan.nodes import OrderTerm
from dataflow.plan.parts import Cut, Interval
from dataflow.state.index import Stored
from dataflow.state.intervals import Cover, OrderedCover
from dataflow.types import Columns, Key

#: An order of a key's rows: (column, descending, nulls first) of each term.
Order = tuple[tuple[int, bool, bool], ...]
#: A cut: values, whether behind them. An interval: start, end.
PlainInterval = tuple[tuple[Any, bool], tuple[Any, bool]]


class NodeBegun(NamedTuple):
    """State of a node follows, up to its `NodeEnded`. `view`: the id of a view, of which `columns` are covered."""

    digest: bytes
    view: int | None = None
    columns: Columns = ()
    in_part: bool = False
    refill_cost: float = 1.0


class CoveredKeys(NamedTuple):
    """Keys of one coverage. `routes` is the digest of the routes that filled them."""

    columns: Columns
    order: Order | None
    routes: bytes | None
    keys: tuple[Key, ...]
    #: Bytes of each key.
    sizes: tuple[int, ...]
    #: Number of rows of each key, if the view's keys have limits.
    rows: tuple[int, ...] | None
    #: Covered intervals of each key, None for the whole; if keys are covered in part.
    parts: tuple[tuple[PlainInterval, ...] | None, ...] | None


class NodeRows(NamedTuple):
    """Rows as they are stored, packed or not; of a partitioned node, the rows of its input. `times`: their
    multiplicities; None if each occurs once."""

    rows: tuple[Stored, ...]
    times: tuple[int, ...] | None


class NodeGroups(NamedTuple):
    """Groups of an aggregate (`ops.aggregate.GroupRecord`)."""

    groups: tuple[tuple[Any, ...], ...]


class NodeEnded(NamedTuple):
    """The node had so many keys, and rows or groups."""

    keys: int
    rows: int


class RankedKeys(NamedTuple):
    """Keys of views with their standing in the policy (`eviction.policy.Standing`)."""

    views: tuple[int, ...]
    keys: tuple[Key, ...]
    standings: tuple[tuple[int, float, float, bool], ...]


class Damaged(NamedTuple):
    """A chunk that could not be read."""


Chunk = NodeBegun | CoveredKeys | NodeRows | NodeGroups | NodeEnded | RankedKeys | Damaged


def cover_named(columns: Columns, order: Order | None) -> Cover:
    """The cover of a `CoveredKeys`."""
    return columns if order is None else OrderedCover(columns, tuple([OrderTerm(*term) for term in order]))


def bounds_of(interval: Interval) -> PlainInterval:
    """An interval as plain values."""
    start, end = interval
    return (start.values, start.behind), (end.values, end.behind)


def interval_of(plain: PlainInterval) -> Interval:
    """The interval of `bounds_of`."""
    return Interval(Cut(*plain[0]), Cut(*plain[1]))
