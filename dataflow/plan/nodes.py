"""Logical plan nodes: what a view's SQL means, as a tree of frozen values.

Equal nodes are one node in the engine (hash-consing), so whatever builds them must be canonical: conjuncts and
join conditions sorted, columns in the order of their first need.

The grammar is small on purpose::

    View      := View(Source)
    Source    := Chain | Block | Union                  stateless
    Chain     := filter, project over a base table      looked up upstream
    Block     := n-way join (n >= 1) of any relations, then filter, project
    Union     := UNION ALL of sources
    Aggregate := GROUP BY over a source                 over a Chain: looked up upstream as state
    Window    := window functions over a source, partition by partition
    TopK      := ORDER BY … LIMIT over a source, partition by partition

HAVING is the predicate of a Block of one input over an Aggregate. DISTINCT is an Aggregate without calls; UNION is one
over a Union, INTERSECT and EXCEPT compare counts of each side. EXISTS is a left input of counts and a predicate.

Not here: SQL (`dataflow.sql`), routes (`plan.routes`), operators (`dataflow.ops`), views that are not kept
incrementally (`plan.refresh`).
"""

from dataclasses import dataclass
from enum import StrEnum

from dataflow.cached_hash import CachedHash, cached_hash
from dataflow.plan.clock_bounds import ClockBound
from dataflow.scalar import ColumnRef, Scalar
from dataflow.schema import SqlType
from dataflow.types import Columns, Key, Row


@dataclass(frozen=True, slots=True)
class ChainParameters:
    """Parameters in a chain's expressions: columns behind those of its table, the first of them `first`."""

    first: int
    types: tuple[SqlType, ...]


@cached_hash
@dataclass(frozen=True, slots=True)
class Chain(CachedHash):
    """Filter and projection over one base table.

    With `parameters` it is *parametric*: its rows are those of the table, once for each *active tuple* of the
    parameters' values, with these behind the table's own. Active are the tuples of covered keys, so that every key of
    a parametric chain has all of its parameters.
    """

    table: str
    #: Over the table's full row; None keeps all. Keeps a row only if TRUE.
    predicate: Scalar | None
    #: Over the table's full row. A `ColumnRef` has key provenance, anything else has none.
    columns: tuple[Scalar, ...]
    parameters: ChainParameters | None = None


class AggregateFunction(StrEnum):
    """The aggregate functions with an incremental form."""

    COUNT_ROWS = "count(*)"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    STDDEV_SAMP = "stddev_samp"
    STDDEV_POP = "stddev_pop"
    VAR_SAMP = "var_samp"
    VAR_POP = "var_pop"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    STRING_AGG = "string_agg"
    ARRAY_AGG = "array_agg"
    JSON_AGG = "json_agg"
    JSONB_AGG = "jsonb_agg"
    JSON_OBJECT_AGG = "json_object_agg"
    JSONB_OBJECT_AGG = "jsonb_object_agg"
    #: MariaDB's.
    JSON_ARRAYAGG = "json_arrayagg"
    JSON_OBJECTAGG = "json_objectagg"
    PERCENTILE_CONT = "percentile_cont"
    PERCENTILE_DISC = "percentile_disc"
    MODE = "mode"
    #: MariaDB's.
    MARIADB_PERCENTILE_CONT = "mariadb_percentile_cont"
    MARIADB_PERCENTILE_DISC = "mariadb_percentile_disc"


@dataclass(frozen=True, slots=True)
class CallOrder:
    """One term of an ORDER BY inside an aggregate's parentheses, over the input row."""

    expression: Scalar
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate of an `Aggregate`.

    `argument` is evaluated over the input row (None for COUNT(*)). A row counts `weight` times, an integer expression
    over the input row (None: once): eager aggregation multiplies by the counts of the other inputs. A weight is never
    NULL. `count` is set for a sum or average of partial sums: the number of non-NULL values in `argument`'s sum.
    `others` are further arguments (string_agg's separator, json_object_agg's value, a percentile's fraction,
    MariaDB's bound of one).
    `distinct` and `order` are those inside the parentheses, or of WITHIN GROUP; FILTER is part of the argument, or
    `keeps`.
    """

    function: AggregateFunction
    argument: Scalar | None
    type: SqlType
    weight: Scalar | None = None
    count: Scalar | None = None
    others: tuple[Scalar, ...] = ()
    distinct: bool = False
    order: tuple[CallOrder, ...] = ()
    #: FILTER (WHERE …) of a call that does not ignore NULLs, so that it cannot be part of the argument.
    keeps: Scalar | None = None


@cached_hash
@dataclass(frozen=True, slots=True)
class Aggregate(CachedHash):
    """GROUP BY. Its columns are the group columns, then one for each call.

    `scalar`: SQL without GROUP BY; the group columns are then the view's parameters, and a covered key of all group
    columns always has one row (COUNT 0, SUM NULL).
    """

    input: "Source"
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
    left). An inner input's conditions name earlier *inner* inputs only; inner inputs come before all left ones. An
    input without conditions is joined with everything (CROSS JOIN; a left one: LEFT JOIN … ON `on`).

    `on`, of a left input only: the rest of its ON, over the concatenated row of all inputs; it reads the input's own
    columns and those of earlier inputs, which it then hangs off too.
    """

    relation: "Relation"
    left: bool = False
    conditions: tuple[JoinCondition, ...] = ()
    on: Scalar | None = None


@cached_hash
@dataclass(frozen=True, slots=True)
class Block(CachedHash):
    """An n-way join, then filter and projection over the inputs' columns, concatenated in input order.

    Columns of an unmatched left input are NULL.
    """

    inputs: tuple[BlockInput, ...]
    predicate: Scalar | None
    columns: tuple[Scalar, ...]


@cached_hash
@dataclass(frozen=True, slots=True)
class Union(CachedHash):
    """UNION ALL. All inputs have as many columns, of the same types; the n-th column is made of the n-ths."""

    inputs: tuple["Source", ...]


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of an ORDER BY, over a column of the relation."""

    column: int
    descending: bool = False
    nulls_first: bool = False


class FrameMode(StrEnum):
    """The unit of a window frame."""

    ROWS = "rows"
    RANGE = "range"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class Frame:
    """A window frame. `start` and `end` count rows (or peer groups) from the current one, preceding ones negative;
    None is UNBOUNDED. In RANGE mode they are 0 (the current row's peers) or None."""

    mode: FrameMode = FrameMode.RANGE
    start: int | None = None
    end: int | None = 0


@dataclass(frozen=True, slots=True)
class WindowCall:
    """One window function. `function` is its SQL name (``row_number``, ``lag``, ``sum`` …), `arguments` and `keeps`
    (FILTER) are over the input row, `order` over the input's columns."""

    function: str
    arguments: tuple[Scalar, ...]
    order: tuple[OrderTerm, ...]
    frame: Frame
    type: SqlType
    keeps: Scalar | None = None


@cached_hash
@dataclass(frozen=True, slots=True)
class Window(CachedHash):
    """The input's columns, then one for each call; all calls have the same PARTITION BY. () is one partition of all."""

    input: "Source"
    partition: Columns
    calls: tuple[WindowCall, ...]


@cached_hash
@dataclass(frozen=True, slots=True)
class TopK(CachedHash):
    """The input's first rows in each partition: LIMIT in a derived table or LATERAL, DISTINCT ON."""

    input: "Source"
    partition: Columns
    order: tuple[OrderTerm, ...]
    limit_rows: int | None
    offset_rows: int = 0
    with_ties: bool = False


@dataclass(frozen=True, slots=True)
class Members:
    """Members of ``column IN (:a, :b, 1)``: parameters of one value each, sorted, and constants in normal form."""

    names: tuple[str, ...]
    constants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a view: ``column = :name``. `column` of the view's relation; its type is the column's.

    `many`: ``column IN (:name)`` or ``= ANY(:name)``; a read gives a list, and is answered with all its keys' rows.
    `members`: the list is made of these; `name` is the first of their names.
    """

    name: str
    column: int
    many: bool = False
    members: Members | None = None
    #: NULL is a value like others, and matches no row else.
    takes_null: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that a read gives."""
        return (self.name,) if self.members is None else self.members.names


@dataclass(frozen=True, slots=True)
class RangeParameter:
    """``column <operator> :name``, by one of ``< <= > >=``. All of a view's ranges are on one column."""

    name: str
    column: int
    operator: str


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column that readers see: `column` of the view's relation under `name`."""

    name: str
    column: int


@cached_hash
@dataclass(frozen=True, slots=True)
class View(CachedHash):
    """A registered view: its relation, parameters, what readers see and in which order."""

    name: str
    sql: str
    relation: "Source"
    #: Sorted by name. The view's key is their values in this order (behind those of `clock_keys`); two parameters may
    #: name one column.
    parameters: tuple[Parameter, ...]
    output: tuple[OutputColumn, ...]
    order: tuple[OrderTerm, ...] = ()
    limit_rows: int | None = None
    offset_rows: int = 0
    #: What a read answers when a parameter is NULL (nothing, or the one row of an aggregate without GROUP BY). None:
    #: that depends on the tables, so the upstream is asked.
    rows_for_null: tuple[Row, ...] | None = ()
    ranges: tuple[RangeParameter, ...] = ()
    #: Conditions on the current time. All are on the ranges' column.
    clock: tuple[ClockBound, ...] = ()
    #: Conditions on the current time on other columns: each read filters the rows within the ranges by them.
    clock_filters: tuple[ClockBound, ...] = ()
    #: Conditions on the current time whose values are parts of the key, by its first columns.
    clock_keys: tuple[ClockBound, ...] = ()
    #: Names of the parameters of LIMIT and OFFSET.
    limit_parameter: str | None = None
    offset_parameter: str | None = None
    #: Parameters that are no part of the key: they pick some of its rows. Such a view has no order, ranges, limit or
    #: condition on the current time.
    within: tuple[Parameter, ...] = ()
    #: The answers, which each read computes from `output` of the rows within a time window: over a chain of no table,
    #: whose columns they are. It has the order, LIMIT, OFFSET and rows for NULL. None: the rows are the answers.
    at_read: "View | None" = None

    @property
    def answer(self) -> "View":
        """The view with the columns that readers see, in their order."""
        return self.at_read or self

    @property
    def is_direct(self) -> bool:
        """True if the order of the rows is the one in which they are stored."""
        return not self.order or self.order == self.storage_order

    @property
    def storage_order(self) -> tuple[OrderTerm, ...]:
        """The order in which a key's rows are stored: ORDER BY, behind the column of a range, if there is one; or the
        columns by which rows are picked."""
        if self.within:
            return tuple(OrderTerm(p.column) for p in self.within)
        column = next(iter(self.range_columns), None)
        if column is None or (self.order and self.order[0].column == column):
            return self.order
        return (OrderTerm(column), *self.order)

    @property
    def leaf_order(self) -> tuple[OrderTerm, ...]:
        """The storage order with the columns by which reads filter, behind it."""
        return (*self.storage_order, *(OrderTerm(bound.column) for bound in self.clock_filters))

    @property
    def range_columns(self) -> tuple[int, ...]:
        """The column of all ranges, once for each."""
        return (*(r.column for r in self.ranges), *(bound.column for bound in self.clock))

    @property
    def key_columns(self) -> Columns:
        """The columns of the relation that a key is made of, in the order of `clock_keys` and `parameters`."""
        return (*(bound.column for bound in self.clock_keys), *(p.column for p in self.parameters))

    def may_match(self, key: Key) -> bool:
        """Return whether any row may be under a key: NULL equals nothing, but for parameters that take it. ``(None,)``
        stands for all keys under which there are none."""
        if None not in key:
            return True
        takes_null = [*([False] * len(self.clock_keys)), *(p.takes_null for p in self.parameters)]
        pairs = zip(key, takes_null, strict=False)
        return len(key) == len(takes_null) and all(value is not None or takes for value, takes in pairs)


#: What is computed without state of its own.
Source = Chain | Block | Union
Relation = Chain | Block | Union | Aggregate | Window | TopK


def column_types(relation: Relation) -> tuple[SqlType, ...]:
    """The types of a relation's columns."""
    match relation:
        case Aggregate():
            types = column_types(relation.input)
            return tuple(types[c] for c in relation.group) + tuple(call.type for call in relation.calls)
        case Window():
            return column_types(relation.input) + tuple(call.type for call in relation.calls)
        case TopK():
            return column_types(relation.input)
        case Union():
            return column_types(relation.inputs[0])
        case Chain() | Block():
            return tuple(column.type for column in relation.columns)


def inputs_of(relation: Relation) -> tuple[Relation, ...]:
    """The relations that `relation` is made of; none for a chain."""
    match relation:
        case Chain():
            return ()
        case Block():
            return tuple(item.relation for item in relation.inputs)
        case Union():
            return relation.inputs
        case Aggregate() | Window() | TopK():
            return (relation.input,)


def table_of(relation: Relation) -> str:
    """The table that a chain, or an aggregate over one, reads. ValueError for what reads more than one."""
    chain = relation.input if isinstance(relation, Aggregate) else relation
    if not isinstance(chain, Chain):
        raise ValueError("a lookup must read one table")
    return chain.table


def passed_through(relation: Chain | Block) -> dict[int, int]:
    """Columns of the relation that are plain columns of its input row: output column -> input column."""
    return {i: c.index for i, c in enumerate(relation.columns) if isinstance(c, ColumnRef)}


__all__ = [
    "Aggregate",
    "AggregateCall",
    "AggregateFunction",
    "Block",
    "BlockInput",
    "CallOrder",
    "Chain",
    "ChainParameters",
    "Frame",
    "FrameMode",
    "JoinCondition",
    "Key",
    "Members",
    "OrderTerm",
    "OutputColumn",
    "Parameter",
    "RangeParameter",
    "Relation",
    "Source",
    "TopK",
    "Union",
    "View",
    "Window",
    "WindowCall",
    "column_types",
    "inputs_of",
    "passed_through",
    "table_of",
]
