"""Relations over empty base tables, where an aggregate without GROUP BY still has its row.

It is what a view answers when a parameter is NULL, since nothing equals NULL.
"""

from collections.abc import Callable, Sequence

from dataflow.evaluate import compile_predicate, compile_scalar
from dataflow.ops.aggregate_call import CompiledCall
from dataflow.ops.top_k import top_rows
from dataflow.ops.window import window_rows
from dataflow.plan.expressions import conjunction, equality
from dataflow.plan.nodes import Aggregate, Block, BlockInput, Chain, Relation, TopK, Union, Window, column_types
from dataflow.plan.rules.rewriting import input_columns, offsets
from dataflow.scalar import Scalar
from dataflow.types import Row


def rows_of_empty_tables(relation: Relation) -> list[Row]:
    """The relation's rows over empty tables; the columns of its parameters are NULL."""
    match relation:
        case Chain():
            return []
        case Union():
            return [row for branch in relation.inputs for row in rows_of_empty_tables(branch)]
        case Aggregate():
            return _grouped(relation)
        case Window():
            return _partitioned(relation, window_rows(relation))
        case TopK():
            return _partitioned(relation, top_rows(relation))
        case Block():
            return _joined(relation)


def _parts(relation: Relation, columns: Sequence[int]) -> list[list[Row]]:
    """The rows, those that agree in `columns` together."""
    types = column_types(relation)
    forms = [(c, types[c].normal_form or str) for c in columns]
    parts: dict[Row, list[Row]] = {}
    for row in rows_of_empty_tables(relation):
        key = tuple(None if (value := row[c]) is None else form(value) for c, form in forms)
        parts.setdefault(key, []).append(row)
    return list(parts.values())


def _grouped(aggregate: Aggregate) -> list[Row]:
    calls = [CompiledCall(call) for call in aggregate.calls]
    # The row that one has for any key is that of a key without rows.
    keyed = aggregate.scalar and bool(aggregate.group)
    groups = [] if keyed else _parts(aggregate.input, aggregate.group)
    result: list[Row] = []
    for rows in groups or ([[]] if aggregate.scalar else []):
        values = tuple(rows[0][c] if rows else None for c in aggregate.group)
        accumulators = [call.make() for call in calls]
        for call, accumulator in zip(calls, accumulators, strict=True):
            for row in rows:
                call.add(accumulator, row, 1)
        result.append((*values, *(a.result() for a in accumulators)))
    return result


def _partitioned(relation: Window | TopK, compute: Callable[[Sequence[Row]], list[Row]]) -> list[Row]:
    return [row for part in _parts(relation.input, relation.partition) for row in compute(part)]


def _joined(block: Block) -> list[Row]:
    rows: list[Row] = [()]
    for position, item in enumerate(block.inputs):
        others = rows_of_empty_tables(item.relation)
        matches = _predicate(_on(block, position, item))
        padding = ((None,) * len(column_types(item.relation)),) if item.left else ()
        rows = [(*row, *other) for row in rows for other in ([o for o in others if matches((*row, *o))] or padding)]
    keeps = _predicate(block.predicate)
    columns = [compile_scalar(column) for column in block.columns]
    return [tuple(column(row) for column in columns) for row in rows if keeps(row)]


def _on(block: Block, position: int, item: BlockInput) -> Scalar | None:
    starts, columns = offsets(block.inputs), input_columns(block)
    parts: list[Scalar] = [
        equality(columns[starts[position] + c.own], columns[starts[c.input] + c.column]) for c in item.conditions
    ]
    return conjunction([*parts, *([] if item.on is None else [item.on])])


def _predicate(predicate: Scalar | None) -> Callable[[Row], bool]:
    return (lambda _row: True) if predicate is None else compile_predicate(predicate)
