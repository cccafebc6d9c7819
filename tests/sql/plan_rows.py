"""Rows of a plan, computed from whole tables by the engine's own expressions and accumulators.

Unlike the oracle of the simulation it shares them with the engine, so it says whether *they* are what a server
computes.

Not here: coverage, deltas, lookups (`tests.simulation`).
"""

from collections.abc import Callable, Mapping, Sequence

from dataflow.evaluate import compile_predicate, compile_scalar
from dataflow.ops.aggregate_call import CompiledCall
from dataflow.ops.top_k import top_rows
from dataflow.ops.window import window_rows
from dataflow.plan.expressions import conjunction, equality
from dataflow.plan.nodes import Aggregate, Block, BlockInput, Chain, Relation, TopK, Union, Window, column_types
from dataflow.plan.rewriting import input_columns, offsets
from dataflow.scalar import Scalar
from dataflow.types import Columns, Key, Row

Tables = Mapping[str, Sequence[Row]]


def plan_rows(relation: Relation, tables: Tables) -> list[Row]:
    """The relation's rows, as a bag. A scalar aggregate has no row for keys without rows (see `rows_of_key`)."""
    match relation:
        case Chain():
            keeps = _predicate(relation.predicate)
            columns = [compile_scalar(c) for c in relation.columns]
            return [tuple(c(row) for c in columns) for row in tables[relation.table] if keeps(row)]
        case Union():
            return [row for branch in relation.inputs for row in plan_rows(branch, tables)]
        case Aggregate():
            return _grouped(relation, tables)
        case Window():
            return _partitioned(relation, tables, window_rows(relation))
        case TopK():
            return _partitioned(relation, tables, top_rows(relation))
    return _joined(relation, tables)


def key_of(relation: Relation, columns: Columns, row: Row) -> Key:
    """The normal forms of a row's key columns."""
    types = column_types(relation)
    return tuple(None if (v := row[c]) is None else (types[c].normal_form or str)(v) for c in columns)


def _parts(relation: Relation, tables: Tables, columns: Sequence[int]) -> list[list[Row]]:
    parts: dict[Key, list[Row]] = {}
    for row in plan_rows(relation, tables):
        parts.setdefault(key_of(relation, tuple(columns), row), []).append(row)
    return list(parts.values())


def _grouped(aggregate: Aggregate, tables: Tables) -> list[Row]:
    calls = [CompiledCall(call) for call in aggregate.calls]
    groups = _parts(aggregate.input, tables, aggregate.group)
    result: list[Row] = []
    for rows in groups or ([[]] if aggregate.scalar and not aggregate.group else []):
        accumulators = [call.make() for call in calls]
        for call, accumulator in zip(calls, accumulators, strict=True):
            for row in rows:
                call.add(accumulator, row, 1)
        values = tuple(rows[0][c] for c in aggregate.group) if rows else ()
        result.append((*values, *(a.result() for a in accumulators)))
    return result


def _partitioned(relation: Window | TopK, tables: Tables, compute: Callable[[Sequence[Row]], list[Row]]) -> list[Row]:
    return [row for part in _parts(relation.input, tables, relation.partition) for row in compute(part)]


def _joined(block: Block, tables: Tables) -> list[Row]:
    rows: list[Row] = [()]
    for position, item in enumerate(block.inputs):
        others = plan_rows(item.relation, tables)
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
