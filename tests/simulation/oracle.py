"""Contents of a relation, computed from nothing but whole tables: the oracle of every test of the engine.

Every node is recomputed from scratch by the definition of its operator, with PostgreSQL's rules for NULL, padding,
``numeric`` scales, NaN and infinities. It deliberately shares no code with `dataflow.ops`, `dataflow.types` or
`dataflow.evaluate`; only types that it does not know itself are asked of the latter two.

Where SQL leaves the answer open (which of 1.0 and 1.00 stands for the group of both, which of the two is the MIN),
the oracle gives one of the legal answers, and `loose_columns` says where to compare by equality instead of by text.

Not here: which rows a lookup sees (`world`), which keys are compared (`simulation`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import product

from dataflow.plan.expressions import used_columns
from dataflow.plan.nodes import (
    Aggregate,
    AggregateFunction,
    Block,
    BlockInput,
    Chain,
    Relation,
    TopK,
    Union,
    Window,
    column_types,
)
from dataflow.plan.parametric import is_parameter
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog, SqlType
from dataflow.types import Columns, Key, Row, Value
from tests.simulation.oracle_aggregates import CompiledCall
from tests.simulation.oracle_partitions import CompiledWindowCall, Partition, RowOrder
from tests.simulation.oracle_values import compile_scalar, identity, normal_of, normals_of

Tables = Mapping[str, Sequence[Row]]
#: Values of parameters, of which NULL is one.
SOME_INTEGERS = ("0", "1", "2", "3", "4", "5")
SOME_NUMERICS = ("0", "1", "2.5", "40.125", "NaN")


def evaluate_relation(relation: Relation, tables: Tables, catalog: Catalog | None = None) -> list[Row]:  # noqa: ARG001
    """All rows of `relation` over `tables`, as a bag. A scalar aggregate has no row for groups without input rows
    (see `rows_of_key`), except the one group of all rows."""
    return compiled(relation).evaluate(lambda table: tables[table])


def rows_of_key(relation: Relation, columns: Columns, key: Key, tables: Tables) -> list[Row]:
    """The rows of `relation` whose `columns` equal `key`, with the one row that a scalar aggregate always has."""
    normals = normals_of(relation, columns)
    wanted = tuple(n(v) for n, v in zip(normals, key, strict=True))
    rows = evaluate_relation(relation, tables)
    found = [row for row in rows if tuple(n(row[c]) for n, c in zip(normals, columns, strict=True)) == wanted]
    if not found and (row := default_row(relation, columns, key)) is not None:
        return [row]
    return found


# --- relations -------------------------------------------------------------------------------------------------------


class CompiledRelation:
    """A relation with its expressions compiled. `evaluate` takes the rows of a base table by name."""

    tables: frozenset[str]

    def evaluate(self, rows_of: Callable[[str], Sequence[Row]]) -> list[Row]:
        """All rows, as a bag."""
        raise NotImplementedError


class CompiledChain(CompiledRelation):
    """Filter and projection; with parameters, for all values that anybody asks for."""

    def __init__(self, chain: Chain) -> None:
        self.table = chain.table
        self.tables = frozenset((chain.table,))
        self.keep = None if chain.predicate is None else compile_scalar(chain.predicate)
        self.columns = [compile_scalar(c) for c in chain.columns]
        types = () if chain.parameters is None else chain.parameters.types
        some = [(*(SOME_NUMERICS if t.name == "numeric" else SOME_INTEGERS), None) for t in types]
        self.tuples = list(product(*some))

    def evaluate(self, rows_of: Callable[[str], Sequence[Row]]) -> list[Row]:
        rows = [(*row, *values) for row in rows_of(self.table) for values in self.tuples]
        return [tuple([c(row) for c in self.columns]) for row in rows if self.keep is None or self.keep(row) == "t"]


class CompiledInput:
    """One input of a block: its rows, and where its join columns are in both rows."""

    def __init__(self, block_input: BlockInput, offsets: Sequence[int], joined: Sequence[SqlType]) -> None:
        self.relation = compiled(block_input.relation)
        self.width = len(column_types(block_input.relation))
        self.left = block_input.left
        self.on = None if block_input.on is None else compile_scalar(block_input.on)
        own = [c.own for c in block_input.conditions]
        self.own = list(zip(own, normals_of(block_input.relation, own), strict=True))
        # An integer and a numeric that are equal have one normal form, by two functions.
        others = [offsets[c.input] + c.column for c in block_input.conditions]
        self.other = [(other, normal_of(joined[other])) for other in others]

    def join(self, combinations: list[Row], rows: list[Row]) -> list[Row]:
        """Each combination with its matches, or with NULLs if this input is a left one without any."""
        by_key: dict[Key, list[Row]] = {}
        for row in rows:
            by_key.setdefault(tuple([n(row[c]) for c, n in self.own]), []).append(row)
        joined: list[Row] = []
        padding = ((None,) * self.width,) if self.left else ()
        for combination in combinations:
            key = tuple([n(combination[c]) for c, n in self.other])
            matches = [] if None in key else [combination + row for row in by_key.get(key, ())]
            if self.on is not None:
                matches = [row for row in matches if self.on(row) == "t"]
            joined.extend(matches or [combination + pad for pad in padding])
        return joined


class CompiledBlock(CompiledRelation):
    """An n-way join, filter and projection."""

    def __init__(self, block: Block) -> None:
        offsets: list[int] = []
        types: list[SqlType] = []
        self.inputs: list[CompiledInput] = []
        for block_input in block.inputs:
            offsets.append(len(types))
            self.inputs.append(CompiledInput(block_input, offsets, types))
            types.extend(column_types(block_input.relation))
        self.tables = frozenset().union(*(i.relation.tables for i in self.inputs))
        self.keep = None if block.predicate is None else compile_scalar(block.predicate)
        self.columns = [compile_scalar(c) for c in block.columns]

    def evaluate(self, rows_of: Callable[[str], Sequence[Row]]) -> list[Row]:
        combinations = self.inputs[0].relation.evaluate(rows_of)
        for block_input in self.inputs[1:]:
            combinations = block_input.join(combinations, block_input.relation.evaluate(rows_of))
        return self.project(combinations)

    def project(self, combinations: Iterable[Row]) -> list[Row]:
        """Filter and projection of joined rows."""
        return [tuple([c(r) for c in self.columns]) for r in combinations if self.keep is None or self.keep(r) == "t"]


class CompiledUnion(CompiledRelation):
    """UNION ALL."""

    def __init__(self, union: Union) -> None:
        self.inputs = [compiled(item) for item in union.inputs]
        self.tables = frozenset().union(*(item.tables for item in self.inputs))

    def evaluate(self, rows_of: Callable[[str], Sequence[Row]]) -> list[Row]:
        return [row for item in self.inputs for row in item.evaluate(rows_of)]


class CompiledAggregate(CompiledRelation):
    """GROUP BY, every group computed anew from all its rows."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.input = compiled(aggregate.input)
        self.tables = self.input.tables
        self.group = aggregate.group
        self.normals = normals_of(aggregate.input, aggregate.group)
        self.calls = [CompiledCall(call) for call in aggregate.calls]
        self.always = _groups_without_rows(aggregate, self.input)

    def evaluate(self, rows_of: Callable[[str], Sequence[Row]]) -> list[Row]:
        groups: dict[Key, list[Row]] = {}
        for row in self.input.evaluate(rows_of):
            key = tuple([n(row[c]) for c, n in zip(self.group, self.normals, strict=True)])
            groups.setdefault(key, []).append(row)
        found = [
            tuple([rows[0][c] for c in self.group]) + tuple([call.evaluate(rows) for call in self.calls])
            for rows in groups.values()
        ]
        empty = [values for key, values in self.always.items() if key not in groups]
        return found + [values + tuple([call.evaluate([]) for call in self.calls]) for values in empty]


def _groups_without_rows(aggregate: Aggregate, below: CompiledRelation) -> dict[Key, Row]:
    """The groups of SQL without GROUP BY that can be told without a key: the only one, or those of parameters alone."""
    if not aggregate.scalar or not aggregate.group:
        return {(): ()} if aggregate.scalar else {}
    chain, normals = aggregate.input, normals_of(aggregate.input, aggregate.group)
    if not isinstance(below, CompiledChain) or not all(is_parameter(chain, c) for c in aggregate.group):
        return {}
    assert isinstance(chain, Chain)
    assert chain.parameters is not None
    places = [used - chain.parameters.first for c in aggregate.group for used in used_columns(chain.columns[c])]
    rows = [tuple([values[p] for p in places]) for values in below.tuples]
    return {tuple([n(v) for v, n in zip(row, normals, strict=True)]): row for row in rows}


class CompiledWindow(CompiledRelation):
    """Window functions, partition by partition."""

    def __init__(self, window: Window) -> None:
        self.input = compiled(window.input)
        self.tables = self.input.tables
        self.partition = Partition(window)
        self.calls = [CompiledWindowCall(call, column_types(window.input)) for call in window.calls]

    def evaluate(self, rows_of: Callable[[str], Sequence[Row]]) -> list[Row]:
        found: list[Row] = []
        for rows in self.partition.split(self.input.evaluate(rows_of)):
            values = [call.evaluate(rows) for call in self.calls]
            found += [row + tuple([column[i] for column in values]) for i, row in enumerate(rows)]
        return found


class CompiledTopK(CompiledRelation):
    """The first rows of each partition."""

    def __init__(self, top: TopK) -> None:
        self.input = compiled(top.input)
        self.tables = self.input.tables
        self.partition = Partition(top)
        self.top = top
        self.order = RowOrder(top.order, column_types(top.input))

    def evaluate(self, rows_of: Callable[[str], Sequence[Row]]) -> list[Row]:
        return [row for rows in self.partition.split(self.input.evaluate(rows_of)) for row in self.first(rows)]

    def first(self, rows: list[Row]) -> list[Row]:
        """The rows of one partition that are kept."""
        rows = [rows[place] for place in self.order.places(rows)]
        if self.top.limit_rows is None:
            return rows[self.top.offset_rows :]
        end = self.top.offset_rows + self.top.limit_rows
        if self.top.with_ties and self.top.limit_rows:
            while end < len(rows) and self.order.ties(rows[end - 1], rows[end]):
                end += 1
        return rows[self.top.offset_rows : end]


@lru_cache(maxsize=10_000)
def compiled(relation: Relation) -> CompiledRelation:
    """The relation, ready to be evaluated."""
    if isinstance(relation, Chain):
        return CompiledChain(relation)
    if isinstance(relation, Aggregate):
        return CompiledAggregate(relation)
    if isinstance(relation, Union):
        return CompiledUnion(relation)
    if isinstance(relation, Window):
        return CompiledWindow(relation)
    if isinstance(relation, TopK):
        return CompiledTopK(relation)
    return CompiledBlock(relation)


# --- what a key has beyond its rows ----------------------------------------------------------------------------------


def default_row(relation: Relation, columns: Columns, key: Key) -> Row | None:
    """The row of an empty group of SQL without GROUP BY, seen through the block above it; None if there is none."""
    if isinstance(relation, Aggregate):
        return default_aggregate_row(relation, columns, key)
    if not isinstance(relation, Block):
        return None
    if len(relation.inputs) != 1:
        return None
    own: dict[int, Value] = {}
    for column, value in zip(columns, key, strict=True):
        scalar = relation.columns[column]
        if not isinstance(scalar, ColumnRef) or own.setdefault(scalar.index, value) != value:
            return None
    below = default_row(relation.inputs[0].relation, tuple(own), tuple(own.values()))
    block = compiled(relation)
    assert isinstance(block, CompiledBlock)
    rows = [] if below is None else block.project([below])
    return rows[0] if rows else None


def default_aggregate_row(aggregate: Aggregate, columns: Columns, key: Key) -> Row | None:
    """The group columns as asked for, and each function of no rows."""
    positions = dict(zip(columns, key, strict=True))
    if not aggregate.scalar or not aggregate.group or set(positions) != set(range(len(aggregate.group))):
        return None
    if any(value is None and not is_parameter(aggregate, c) for c, value in positions.items()):
        return None
    group = tuple(positions[i] for i in range(len(aggregate.group)))
    return group + tuple(CompiledCall(call).evaluate([]) for call in aggregate.calls)


def loose_columns(relation: Relation) -> frozenset[int]:
    """Columns whose text is the upstream's free choice among equal ones (of a group's, or as MIN and MAX)."""
    if isinstance(relation, Chain):
        return frozenset()
    if isinstance(relation, Union):
        return frozenset().union(*(loose_columns(item) for item in relation.inputs))
    if isinstance(relation, Window | TopK):
        return loose_columns(relation.input)
    if isinstance(relation, Aggregate):
        types = column_types(relation)
        size = len(relation.group)
        extremes = (AggregateFunction.MIN, AggregateFunction.MAX)
        free = set(range(size)) | {size + i for i, c in enumerate(relation.calls) if c.function in extremes}
        return frozenset(c for c in free if normal_of(types[c]) is not identity)
    below: set[int] = set()
    offset = 0
    for block_input in relation.inputs:
        below |= {offset + c for c in loose_columns(block_input.relation)}
        offset += len(column_types(block_input.relation))
    return frozenset(i for i, c in enumerate(relation.columns) if isinstance(c, ColumnRef) and c.index in below)
