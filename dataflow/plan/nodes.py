"""Logical plan nodes: what a view's SQL means, as a tree of frozen values.

Equal nodes are one node in the engine (hash-consing), so whatever builds them must be canonical: conjuncts and
join conditions sorted, columns in the order of their first need.

The grammar is small on purpose::

    View      := View(Chain | Block)
    Chain     := filter, project over a base table      looked up upstream
    Block     := n-way equi-join (n >= 1) of Chain | Aggregate | Block, then filter, project
    Aggregate := GROUP BY over Chain | Block                over a Chain: looked up upstream as state

HAVING is the predicate of a Block of one input over an Aggregate. DISTINCT, UNION and the like come with their issue.

Not here: SQL (`dataflow.sql`), routes (`plan.routes`), operators (`dataflow.ops`).
"""

from dataclasses import dataclass
from enum import StrEnum

from dataflow.scalar import ColumnRef, Scalar
from dataflow.schema import SqlType
from dataflow.types import Columns, Key, Row


@dataclass(frozen=True, slots=True)
class Chain:
    """Filter and projection over one base table."""

    table: str
    #: Over the table's full row; None keeps all. Keeps a row only if TRUE.
    predicate: Scalar | None
    #: Over the table's full row. A `ColumnRef` has key provenance, anything else has none.
    columns: tuple[Scalar, ...]


class AggregateFunction(StrEnum):
    """The aggregate functions with an incremental form."""

    COUNT_ROWS = "count(*)"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate of an `Aggregate`.

    `argument` is evaluated over the input row (None for COUNT(*)). A row counts `weight` times, an integer expression
    over the input row (None: once): eager aggregation multiplies by the counts of the other inputs. A weight is never
    NULL. `count` is set for a sum or average of partial sums: the number of non-NULL values in `argument`'s sum.
    """

    function: AggregateFunction
    argument: Scalar | None
    type: SqlType
    weight: Scalar | None = None
    count: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """GROUP BY. Its columns are the group columns, then one for each call.

    `scalar`: SQL without GROUP BY; the group columns are then the view's parameters, and a covered key of all group
    columns always has one row (COUNT 0, SUM NULL).
    """

    input: "Chain | Block"
    group: Columns
    calls: tuple[AggregateCall, ...]
    scalar: bool = False


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """``own`` column of an input equals column ``column`` of input ``input`` (an earlier one). NULL matches nothing."""

    own: int
    input: int
    column: int


@dataclass(frozen=True, slots=True)
class BlockInput:
    """One input of a block. Input 0 is inner and has no conditions.

    `left`: LEFT JOIN; the conditions are its ON, and each names an input that it hangs off (an earlier one, inner or
    left). An inner input's conditions name earlier *inner* inputs only; inner inputs come before all left ones.
    """

    relation: "Chain | Aggregate | Block"
    left: bool = False
    conditions: tuple[JoinCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """An n-way equi-join, then filter and projection over the inputs' columns, concatenated in input order.

    Columns of an unmatched left input are NULL. Every input but the first is connected to earlier ones by at least
    one condition.
    """

    inputs: tuple[BlockInput, ...]
    predicate: Scalar | None
    columns: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of an ORDER BY, over a column of the relation."""

    column: int
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a view: ``column = :name``. `column` of the view's relation; its type is the column's."""

    name: str
    column: int


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column that readers see: `column` of the view's relation under `name`."""

    name: str
    column: int


@dataclass(frozen=True, slots=True)
class View:
    """A registered view: its relation, parameters, what readers see and in which order."""

    name: str
    sql: str
    relation: Chain | Block
    #: Sorted by name. The view's key is their values in this order; two parameters may name one column.
    parameters: tuple[Parameter, ...]
    output: tuple[OutputColumn, ...]
    order: tuple[OrderTerm, ...] = ()
    limit_rows: int | None = None
    offset_rows: int = 0
    #: What a read answers when a parameter is NULL (nothing, or the one row of an aggregate without GROUP BY).
    rows_for_null: tuple[Row, ...] = ()

    @property
    def key_columns(self) -> Columns:
        """The columns of the relation that a key is made of, in the order of `parameters`."""
        return tuple(p.column for p in self.parameters)


Relation = Chain | Aggregate | Block


def column_types(relation: Relation) -> tuple[SqlType, ...]:
    """The types of a relation's columns."""
    if isinstance(relation, Aggregate):
        types = column_types(relation.input)
        return tuple(types[c] for c in relation.group) + tuple(call.type for call in relation.calls)
    return tuple(column.type for column in relation.columns)


def passed_through(relation: Chain | Block) -> dict[int, int]:
    """Columns of the relation that are plain columns of its input row: output column -> input column."""
    return {i: c.index for i, c in enumerate(relation.columns) if isinstance(c, ColumnRef)}


__all__ = [
    "Aggregate", "AggregateCall", "AggregateFunction", "Block", "BlockInput", "Chain", "JoinCondition", "Key",
    "OrderTerm", "OutputColumn", "Parameter", "Relation", "View", "column_types", "passed_through",
]  # fmt: skip
