"""Relations over given rows, without state: every chain reads the same rows.

Over no rows, that is what a view answers when a parameter is NULL, since nothing equals NULL: an aggregate without
GROUP BY still has its row. Over the rows of a time window, it is what a read answers (`View.at_read`).
"""

from collections.abc import Callable, Sequence

from dataflow.evaluate import compile_predicate, compile_scalar
from dataflow.ops.aggregate_call import CompiledCall
from dataflow.ops.top_k import PartitionFunction, top_rows
from dataflow.ops.window import window_rows
from dataflow.plan.expressions import conjunction, equality
from dataflow.plan.nodes import Aggregate, Block, BlockInput, Chain, Relation, TopK, Union, Window, column_types
from dataflow.plan.rewriting import input_columns, offsets
from dataflow.scalar import ColumnRef, Scalar
from dataflow.types import Columns, Row, Value

#: The rows of chains to the rows of a relation.
Evaluator = Callable[[Sequence[Row]], list[Row]]


def evaluator(relation: Relation) -> Evaluator:
    """The relation, compiled. Over no rows, the columns of its parameters are NULL. ValueError if it is not exact."""
    match relation:
        case Chain():
            return _filtered(relation)
        case Union():
            branches = [evaluator(branch) for branch in relation.inputs]
            return lambda given: [row for branch in branches for row in branch(given)]
        case Aggregate():
            return _grouped(relation)
        case Window():
            return _partitioned(relation, window_rows(relation))
        case TopK():
            return _partitioned(relation, top_rows(relation))
        case Block():
            return _joined(relation)


def _filtered(chain: Chain) -> Evaluator:
    keeps, project = _predicate(chain.predicate), _projection(chain.columns)
    return lambda given: [project(row) for row in given if keeps(row)]


def _projection(columns: Sequence[Scalar]) -> Callable[[Row], Row]:
    places = [column.index for column in columns if isinstance(column, ColumnRef)]
    if len(places) == len(columns):
        return lambda row: tuple([row[place] for place in places])
    compiled = [compile_scalar(column) for column in columns]
    return lambda row: tuple([column(row) for column in compiled])


def _partition(relation: Relation, columns: Columns) -> Callable[[Sequence[Row]], list[list[Row]]]:
    """The function that puts the rows together that agree in `columns`."""
    if not columns:
        return lambda rows: [list(rows)] if rows else []
    types = column_types(relation)
    forms = [(c, types[c].normal_form or str) for c in columns]

    def parts(rows: Sequence[Row]) -> list[list[Row]]:
        found: dict[Row, list[Row]] = {}
        for row in rows:
            key = tuple([None if (value := row[c]) is None else form(value) for c, form in forms])
            found.setdefault(key, []).append(row)
        return list(found.values())

    return parts


def _grouped(aggregate: Aggregate) -> Evaluator:
    below, parts = evaluator(aggregate.input), _partition(aggregate.input, aggregate.group)
    calls = [CompiledCall(call) for call in aggregate.calls]
    keyed = aggregate.scalar and bool(aggregate.group)

    def groups(given: Sequence[Row]) -> list[Row]:
        rows = below(given)
        # The row that one has for any key is that of a key without rows.
        found = [] if keyed and not given else parts(rows)
        if aggregate.scalar and not found:
            found = [[]]
        return [(*_shown(group, aggregate.group), *[_result(call, group) for call in calls]) for group in found]

    return groups


def _shown(group: Sequence[Row], columns: Columns) -> Row:
    return tuple([group[0][c] if group else None for c in columns])


def _result(call: CompiledCall, rows: Sequence[Row]) -> Value:
    accumulator = call.make()
    add, argument = accumulator.add, call.argument
    if call.simple:
        for row in rows:
            add(None if argument is None else argument(row), 1)
    else:
        for row in rows:
            call.add(accumulator, row, 1)
    return accumulator.result()


def _partitioned(relation: Window | TopK, compute: PartitionFunction) -> Evaluator:
    below, parts = evaluator(relation.input), _partition(relation.input, relation.partition)
    return lambda given: [row for part in parts(below(given)) for row in compute(part)]


def _joined(block: Block) -> Evaluator:
    joining = []
    for position, item in enumerate(block.inputs):
        padding = [(None,) * len(column_types(item.relation))] if item.left else []
        joining.append((evaluator(item.relation), _predicate(_on(block, position, item)), padding))
    # Nothing is asked of the rows of the first.
    (first, _, without), *joining = joining
    keeps, project = _predicate(block.predicate), _projection(block.columns)

    def joined(given: Sequence[Row]) -> list[Row]:
        rows = first(given) or without
        for below, matches, padding in joining:
            others = below(given)
            rows = [(*row, *o) for row in rows for o in ([o for o in others if matches((*row, *o))] or padding)]
        return [project(row) for row in rows if keeps(row)]

    return joined


def _on(block: Block, position: int, item: BlockInput) -> Scalar | None:
    starts, columns = offsets(block.inputs), input_columns(block)
    parts: list[Scalar] = [
        equality(columns[starts[position] + c.own], columns[starts[c.input] + c.column]) for c in item.conditions
    ]
    return conjunction([*parts, *([] if item.on is None else [item.on])])


def _predicate(predicate: Scalar | None) -> Callable[[Row], bool]:
    return (lambda _row: True) if predicate is None else compile_predicate(predicate)
