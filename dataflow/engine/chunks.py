"""Chunks of an engine's state: tuples of plain values (numbers, texts, bytes; tuples, lists and dictionaries).

Not here: which chunks an engine's state has (`checkpoint`), their use (`restoration`).
"""

from typing import Any, NamedTuple

from dataflow.plan.nodes import OrderTerm
from dataflow.plan.parts import Cut, Interval
from dataflow.state.intervals import Cover, OrderedCover
from dataflow.types import Columns

#: An order of a key's rows: (column, descending, nulls first) of each term.
Order = tuple[tuple[int, bool, bool], ...]


class NodeBegun(NamedTuple):
    """State of a node follows, up to its `NodeEnded`. `view`: the id of a view, of which `columns` are covered."""

    digest: bytes
    view: int | None = None
    columns: Columns = ()
    in_part: bool = False
    refill_cost: float = 1.0


class CoveredKeys(NamedTuple):
    """Keys of one coverage: (key, intervals or None for the whole, bytes, rows or -1)."""

    columns: Columns
    order: Order | None
    keys: list[tuple[Any, ...]]


class NodeRows(NamedTuple):
    """Rows with their multiplicities; of an aggregate its groups, of a partitioned node the rows of its input."""

    rows: list[tuple[Any, ...]]


class NodeEnded(NamedTuple):
    """The node had so many keys and rows."""

    keys: int
    rows: int


class RankedKeys(NamedTuple):
    """Keys of views with their standing in the policy: (view, key, weight, cost, reads, established)."""

    keys: list[tuple[Any, ...]]


class Damaged(NamedTuple):
    """A chunk that could not be read."""


Chunk = NodeBegun | CoveredKeys | NodeRows | NodeEnded | RankedKeys | Damaged


def cover_named(columns: Columns, order: Order | None) -> Cover:
    """The cover of a `CoveredKeys`."""
    return columns if order is None else OrderedCover(columns, tuple([OrderTerm(*term) for term in order]))


def bounds_of(interval: Interval) -> tuple[Any, Any]:
    """An interval as plain values."""
    start, end = interval
    return (start.values, start.behind), (end.values, end.behind)


def interval_of(plain: tuple[Any, Any]) -> Interval:
    """The interval of `bounds_of`."""
    return Interval(Cut(*plain[0]), Cut(*plain[1]))
