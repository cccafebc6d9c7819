"""Eager aggregation: count an input's rows per join key before the join, not joined rows after it.

``stories LEFT JOIN votes … GROUP BY …`` reads one number per story then, and no vote rows. What an aggregate above
counts is weighted by the counts of the inputs that were aggregated: a padded row counts 1 for COUNT(*), 0 for COUNT(x),
NULL for SUM.

(Yan and Larson, "Eager Aggregation and Lazy Aggregation", VLDB 1995.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dataflow.plan.expressions import INT8, inline, null_of_nulls, substitute, used_columns
from dataflow.plan.nodes import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Block,
    BlockInput,
    Relation,
    TopK,
    Window,
    column_types,
)
from dataflow.plan.result_types import sum_type
from dataflow.plan.rewriting import as_source, input_of, inputs_used, offsets, unique_keys, widths
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import Catalog

_COUNT_ROWS = AggregateCall(AggregateFunction.COUNT_ROWS, None, INT8)
_PARTIAL = {
    AggregateFunction.COUNT: (AggregateFunction.COUNT,),
    AggregateFunction.SUM: (AggregateFunction.SUM, AggregateFunction.COUNT),
    AggregateFunction.AVG: (AggregateFunction.SUM, AggregateFunction.COUNT),
    AggregateFunction.MIN: (AggregateFunction.MIN,),
    AggregateFunction.MAX: (AggregateFunction.MAX,),
}
_WEIGHTED = (AggregateFunction.COUNT_ROWS, AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG)


def aggregate_early(relation: Relation, catalog: Catalog) -> Relation:
    """Aggregates every input of a join below a GROUP BY whose rows matter only as numbers per join key."""
    if not isinstance(relation, Aggregate) or not isinstance(relation.input, Block):
        return relation
    if not all(_plain(call) for call in relation.calls):
        return relation
    calls = [_over_join(call, relation.input) for call in relation.calls]
    early = [i for i in range(len(relation.input.inputs)) if _countable(relation, calls, i, catalog)]
    return _Rewrite(relation, relation.input, calls, early).result() if early else relation


def _plain(call: AggregateCall) -> bool:
    """Return whether partial results per join key make up the call's result."""
    known = call.function is AggregateFunction.COUNT_ROWS or call.function in _PARTIAL
    summed = call.function in (AggregateFunction.SUM, AggregateFunction.AVG)
    # A sum of rounded sums is rounded too often; intervals are not multiplied.
    exact = not summed or call.type.name in ("int8", "numeric")
    return known and exact and call == AggregateCall(call.function, call.argument, call.type)


def _over_join(call: AggregateCall, block: Block) -> AggregateCall:
    """The call over the joined row instead of the block's columns."""
    return call if call.argument is None else replace(call, argument=inline(call.argument, block.columns))


def _countable(aggregate: Aggregate, calls: Sequence[AggregateCall], position: int, catalog: Catalog) -> bool:
    block = aggregate.input
    assert isinstance(block, Block)
    relation = block.inputs[position].relation
    if isinstance(relation, Aggregate | Window | TopK):
        return False
    if position in inputs_used(offsets(block.inputs), used_columns(*(item.on for item in block.inputs))):
        return False
    join = set(join_columns(block, position))
    if not join or any(key <= join for key in unique_keys(relation, catalog)):
        return False
    if any(column_types(relation)[c].normal_form is not None for c in join):
        return False
    return _grouped_by_join_columns(aggregate, block, position, join) and _called_alone(block, calls, position)


def join_columns(block: Block, position: int) -> list[int]:
    """The columns of an input that it is joined by, its own conditions and those of others."""
    own = {c.own for c in block.inputs[position].conditions}
    others = {c.column for item in block.inputs for c in item.conditions if c.input == position}
    return sorted(own | others)


def _grouped_by_join_columns(aggregate: Aggregate, block: Block, position: int, join: set[int]) -> bool:
    """Return whether nothing but calls reads other columns of the input."""
    starts = offsets(block.inputs)
    if block.predicate is not None and position in inputs_used(starts, used_columns(block.predicate)):
        return False
    for column in aggregate.group:
        expression = block.columns[column]
        if position not in inputs_used(starts, used_columns(expression)):
            continue
        if not isinstance(expression, ColumnRef) or expression.index - starts[position] not in join:
            return False
    return True


def _called_alone(block: Block, calls: Sequence[AggregateCall], position: int) -> bool:
    """Return whether no call mixes this input's columns with another's, or makes a value of its padding."""
    starts = offsets(block.inputs)
    start = starts[position]
    padding = set(range(start, start + widths(block.inputs)[position]))
    for call in calls:
        used = inputs_used(starts, used_columns(call.argument))
        if call.argument is None or position not in used:
            continue
        if used != {position} or (block.inputs[position].left and not null_of_nulls(call.argument, padding)):
            return False
    return True


@dataclass(slots=True)
class _Early:
    """One input, aggregated."""

    join: list[int]
    left: bool
    calls: dict[AggregateCall, int] = field(default_factory=dict)

    def column(self, call: AggregateCall) -> int:
        """The column of the aggregate that holds `call`."""
        return len(self.join) + self.calls.setdefault(call, len(self.calls))


class _Rewrite:
    """The aggregate over a join as an aggregate over a join of aggregates.

    Columns of new inputs are known only once all calls are, so that references are (input, column) until then.
    """

    def __init__(
        self, aggregate: Aggregate, block: Block, calls: Sequence[AggregateCall], early: Sequence[int]
    ) -> None:
        self._aggregate = aggregate
        self._block = block
        self._calls = calls
        self._starts = offsets(block.inputs)
        self._early = {i: _Early(join_columns(block, i), block.inputs[i].left) for i in early}
        #: Columns of the new block: expressions over virtual columns (see `_virtual`).
        self._columns: dict[Scalar, int] = {}
        self._stride = 1 + max([len(calls) * 2 + 2 + w for w in widths(block.inputs)])

    def result(self) -> Aggregate:
        group = tuple(self._column(self._moved(self._block.columns[c])) for c in self._aggregate.group)
        calls = tuple(self._call(call) for call in self._calls)
        predicate = None if self._block.predicate is None else self._settled(self._moved(self._block.predicate))
        columns = tuple(self._settled(c) for c in self._columns)
        inputs = tuple(self._input(i) for i in range(len(self._block.inputs)))
        return replace(self._aggregate, input=Block(inputs, predicate, columns), group=group, calls=calls)

    # References

    def _virtual(self, position: int, column: int, like: ColumnRef | AggregateCall) -> ColumnRef:
        return ColumnRef(position * self._stride + column, like.type)

    def _moved(self, expression: Scalar) -> Scalar:
        def move(ref: ColumnRef) -> Scalar:
            position = input_of(self._starts, ref.index)
            column = ref.index - self._starts[position]
            early = self._early.get(position)
            return self._virtual(position, early.join.index(column) if early else column, ref)

        return substitute(expression, move)

    def _settled(self, expression: Scalar) -> Scalar:
        """Virtual columns as columns of the new joined row."""
        sizes = widths(self._block.inputs)
        for i, early in self._early.items():
            sizes[i] = len(early.join) + len(early.calls)
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        return substitute(
            expression, lambda r: ColumnRef(starts[r.index // self._stride] + r.index % self._stride, r.type)
        )

    def _column(self, expression: Scalar) -> int:
        return self._columns.setdefault(expression, len(self._columns))

    def _output(self, expression: Scalar) -> Scalar:
        """`expression` over the new block's output: its columns are passed on."""
        return substitute(expression, lambda ref: ColumnRef(self._column(ref), ref.type))

    # Inputs

    def _input(self, position: int) -> BlockInput:
        item = self._block.inputs[position]
        early = self._early.get(position)
        relation = item.relation
        if early is not None:
            relation = Aggregate(as_source(relation), tuple(early.join), tuple(early.calls))
        conditions = []
        for c in item.conditions:
            own = early.join.index(c.own) if early else c.own
            other = self._early.get(c.input)
            conditions.append(replace(c, own=own, column=other.join.index(c.column) if other else c.column))
        on = None if item.on is None else self._settled(self._moved(item.on))
        return replace(item, relation=relation, conditions=tuple(conditions), on=on)

    # Calls

    def _call(self, call: AggregateCall) -> AggregateCall:
        position = self._only_early(call)
        if position is None:
            argument = None if call.argument is None else self._output(self._moved(call.argument))
            weight = self._weight(None) if call.function in _WEIGHTED else None
            return replace(call, argument=argument, weight=weight)
        assert call.argument is not None
        start = self._starts[position]
        local = substitute(call.argument, lambda ref: ColumnRef(ref.index - start, ref.type))
        partial = [self._partial(position, f, local, call) for f in _PARTIAL[call.function]]
        if call.function is AggregateFunction.COUNT:
            weight = _product(self._count(position, partial[0]), self._weight(position))
            return AggregateCall(AggregateFunction.COUNT_ROWS, None, INT8, weight)
        if call.function in (AggregateFunction.MIN, AggregateFunction.MAX):
            return replace(call, argument=partial[0])
        count = self._count(position, partial[1])
        return replace(call, argument=partial[0], weight=self._weight(position), count=count)

    def _count(self, position: int, count: Scalar) -> Scalar:
        """A count of values; padding has none."""
        return _or(count, "0") if self._early[position].left else count

    def _only_early(self, call: AggregateCall) -> int | None:
        used = inputs_used(self._starts, used_columns(call.argument))
        return next((i for i in used if i in self._early), None)

    def _partial(self, position: int, function: AggregateFunction, argument: Scalar, call: AggregateCall) -> Scalar:
        result = call.type
        if function is AggregateFunction.COUNT:
            result = INT8
        elif function is AggregateFunction.SUM:
            result = sum_type(argument.type)
        return self._aggregated(position, AggregateCall(function, argument, result))

    def _aggregated(self, position: int, call: AggregateCall) -> Scalar:
        return self._output(self._virtual(position, self._early[position].column(call), call))

    def _weight(self, but: int | None) -> Scalar | None:
        """How often a row counts because of the aggregated inputs, `but` for one; None is once."""
        weight: Scalar | None = None
        for i, early in self._early.items():
            if i != but:
                count = self._aggregated(i, _COUNT_ROWS)
                weight = _product(_or(count, "1") if early.left else count, weight)
        return weight


def _or(count: Scalar, otherwise: str) -> Scalar:
    return Call("coalesce", (count, Literal(otherwise, INT8)), INT8)


def _product(a: Scalar, b: Scalar | None) -> Scalar:
    return a if b is None else Call("*", (a, b), INT8)
