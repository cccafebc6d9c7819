"""A side of a UNION that lacks parameters of the other side: for every key, it has the rows that its own ones leave.

It is joined with a relation that has one row for any key that is asked for, as an aggregate without GROUP BY has: over
no rows of the tables that the parameters' columns are of, so that its lookups cost nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import FALSE, conjunction, shift
from dataflow.plan.nodes import Aggregate, Block, BlockInput, Chain, Relation, Source, TopK, Union, Window, column_types
from dataflow.plan.rewriting import input_columns, input_of, offsets
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.sql.clauses import Lowered
from dataflow.sql.conditions import BoundParameter
from dataflow.sql.expressions import functions


@dataclass(frozen=True, slots=True)
class _Keys:
    """A relation with a column for each parameter."""

    parameters: tuple[BoundParameter, ...]
    relation: Aggregate


def with_same_parameters(left: Lowered, right: Lowered, operation: str) -> tuple[Lowered, Lowered]:
    """Both sides of a UNION (or another `operation`), each with all parameters of both."""
    names = {p.name for side in (left, right) for p in side.parameters}
    lacking = [side for side in (left, right) if {p.name for p in side.parameters} != names]
    if not lacking:
        return left, right
    keys = _keys((left, right), operation)
    return (
        _joined(left, keys) if left in lacking else left,
        _joined(right, keys) if right in lacking else right,
    )


def _joined(side: Lowered, keys: _Keys) -> Lowered:
    """The side's rows for every key."""
    types = column_types(keys.relation)
    width = len(types)
    refs = [ColumnRef(i, sql_type) for i, sql_type in enumerate(types)]
    by_name = {p.name: ref for p, ref in zip(keys.parameters, refs, strict=True)}
    columns = [shift(_column(side, i), width) for i in range(len(column_types(side.relation)))]
    equal = [functions.comparison("=", by_name[p.name], shift(p.expression, width)) for p in side.parameters]
    inputs = (BlockInput(keys.relation), BlockInput(side.relation))
    return Lowered(
        Block(inputs, conjunction(equal), (*refs, *columns)),
        tuple((shown, column + width) for shown, column in side.outputs),
        tuple(replace(p, expression=by_name[p.name]) for p in keys.parameters),
        scalar=True,
        keyless=True,
    )


def _column(side: Lowered, column: int) -> Scalar:
    """A column of the side; a constant as such."""
    relation = side.relation
    if isinstance(relation, Block | Chain) and isinstance(constant := relation.columns[column], Literal):
        return constant
    return ColumnRef(column, column_types(relation)[column])


def _keys(sides: Sequence[Lowered], operation: str) -> _Keys:
    """The relation that has a row for any key of all the sides' parameters."""
    origins: dict[str, tuple[Chain, ColumnRef]] = {}
    parameters: dict[str, BoundParameter] = {}
    for side in sides:
        for p in side.parameters:
            assert isinstance(p.expression, ColumnRef)
            origin = _origin(side.relation, p.expression.index)
            if origin is None or not p.single or p.outer is not None:
                raise p.refused(
                    f"{p.title} must be compared with a column in both sides of {operation}, in the same way."
                )
            origins.setdefault(p.name, origin)
            parameters.setdefault(p.name, p)
    if len(set(origins.values())) < len(origins):
        first = next(iter(parameters.values()))
        raise UnsupportedQuery(f"Two parameters are compared with one column, on one side of {operation}.", first.span)
    source = _nothing(list(origins.values()))
    return _Keys(tuple(parameters.values()), Aggregate(source, tuple(range(len(origins))), (), scalar=True))


def _nothing(origins: Sequence[tuple[Chain, ColumnRef]]) -> Source:
    """An empty relation with these columns of empty chains."""
    tables = list(dict.fromkeys(chain for chain, _ in origins))
    chains = [replace(chain, columns=tuple(ref for of, ref in origins if of == chain)) for chain in tables]
    if len(chains) == 1:
        return chains[0]
    block = Block(tuple(BlockInput(chain) for chain in chains), None, ())
    starts, row = offsets(block.inputs), input_columns(block)
    places = [(tables.index(chain), ref) for chain, ref in origins]
    return replace(block, columns=tuple(row[starts[at] + chains[at].columns.index(ref)] for at, ref in places))


def _origin(relation: Relation, column: int) -> tuple[Chain, ColumnRef] | None:
    """The base table, as an empty chain, and its column that a column shows; None if it is computed."""
    match relation:
        case Aggregate():
            return _origin(relation.input, relation.group[column]) if column < len(relation.group) else None
        case Window() | TopK():
            return _origin(relation.input, column) if column < len(column_types(relation.input)) else None
        case Union():
            return _origin(relation.inputs[0], column)
        case Chain() | Block():
            pass
    expression = relation.columns[column]
    if not isinstance(expression, ColumnRef):
        return None
    if isinstance(relation, Chain):
        return replace(relation, predicate=FALSE, columns=()), expression
    starts = offsets(relation.inputs)
    at = input_of(starts, expression.index)
    return _origin(relation.inputs[at].relation, expression.index - starts[at])
