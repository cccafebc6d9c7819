"""Parts of a relation's rows as the planner names them: cuts, intervals and parts of an order, and lookups.

A *cut* is a place between rows: before all rows that begin with some values of the order columns, or behind them. An
interval is half-open: it begins at one cut and ends before another.

Not here: cuts as bytes that compare (`state.ordering`), the SQL of a lookup (`lookup`), who issues one
(`engine.flights`).
"""

from dataclasses import dataclass
from typing import NamedTuple

from dataflow.plan.nodes import Aggregate, Chain, OrderTerm, table_of
from dataflow.types import Columns, Key, LookupId, NodeId, Value


@dataclass(frozen=True, slots=True)
class Cut:
    """A place between rows: before (or behind) all that have `values` in the first order columns."""

    values: tuple[Value, ...]
    behind: bool


START = Cut((), behind=False)
END = Cut((), behind=True)


class Interval(NamedTuple):
    """The rows from `start` on, before `end`."""

    start: Cut
    end: Cut


WHOLE = Interval(START, END)


@dataclass(frozen=True, slots=True)
class Part:
    """Only a part of a key's rows: in `order`, those from `start` on, before `end`, the first `limit_rows` of them and
    what ties with the last (None: all)."""

    order: tuple[OrderTerm, ...]
    start: Cut
    end: Cut
    limit_rows: int | None


@dataclass(frozen=True, slots=True)
class Lookup:
    """Run upstream: the rows of `relation` whose `columns` equal one of `keys` (all rows if `columns` is ``()``).

    A Chain's rows are looked up. Of an Aggregate over a Chain, *state rows* are (`lookups`). With `part`, of one
    key of a chain. With `semijoin`, which says what the keys are, none are in `keys`; the result has them. `node` is
    what they are for. Ends in a `LookupsDone`, a `LookupFailed` or a `LookupTooLarge`.
    """

    id: LookupId
    node: NodeId
    relation: Chain | Aggregate
    columns: Columns
    keys: tuple[Key, ...]
    part: Part | None = None
    semijoin: "Semijoin | None" = None


@dataclass(frozen=True, slots=True)
class Semijoin:
    """Keys that are found in other rows: the values of `links`, columns of the chain whose rows `lookup` looks up."""

    lookup: Lookup
    links: Columns


def tables_of(lookup: Lookup) -> frozenset[str]:
    """The base tables that a lookup reads."""
    own = frozenset((table_of(lookup.relation),))
    return own if lookup.semijoin is None else own | tables_of(lookup.semijoin.lookup)
