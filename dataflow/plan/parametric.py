"""Parametric chains: the table that they are over, and the columns of their parameters.

A parameter that is no column of the plan's rows, as in ``d >= :from GROUP BY k`` or ``:p = a OR :p = b``, is one of a
chain (`nodes.Chain.parameters`), whose rows have its value. So it is a column like any other, that a key is of, above.
It is the relation of demands of magic sets (Bancilhon et al., "Magic Sets and Other Strange Ways to Implement Logic
Programs", PODS 1986), joined with the one table.

Not here: which parameters are free (`sql.free_parameters`), routes (`required_keys`), active tuples
(`engine.parametric_rows`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import FALSE
from dataflow.plan.nodes import (
    Aggregate,
    Block,
    Chain,
    ChainParameters,
    Relation,
    TopK,
    Union,
    Window,
    column_types,
    inputs_of,
)
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.types import Columns


def chain_table(chain: Chain, catalog: Catalog) -> Table:
    """Returns the table that a chain's expressions are over: with a column for each of its parameters."""
    table = catalog.tables[chain.table]
    return table if chain.parameters is None else _widened(table, chain.parameters)


@lru_cache(1000)
def _widened(table: Table, parameters: ChainParameters) -> Table:
    own = tuple(Column(f":{i}", sql_type, not_null=False) for i, sql_type in enumerate(parameters.types, start=1))
    places = tuple(range(parameters.first, parameters.first + len(own)))
    # A column that was added since the chain was planned stands behind those that it knows.
    known = table.columns[: parameters.first]
    return replace(table, columns=(*known, *own), keys=tuple((*key, *places) for key in table.keys))


def without_parameters(chain: Chain) -> Chain:
    """Returns a chain over the whole table without the columns of its parameters, which must be its last ones."""
    if chain.parameters is None:
        return chain
    return replace(chain, columns=chain.columns[: chain.parameters.first], parameters=None)


def row_of_parameters(table: Table, types: Sequence[SqlType]) -> Aggregate:
    """Returns a relation that has one row for any values of parameters, which are its columns: an aggregate of no rows
    (`without_rows`), nominally of a table."""
    first = len(table.columns)
    columns = tuple(ColumnRef(first + i, sql_type) for i, sql_type in enumerate(types))
    chain = Chain(table.name, FALSE, columns, ChainParameters(first, tuple(types)))
    return Aggregate(chain, tuple(range(len(columns))), (), scalar=True)


def without_rows(chain: Chain) -> bool:
    """Return whether a chain has no rows, whatever its table has."""
    return chain.predicate == FALSE


def parametric_chains(relation: Relation) -> Iterator[Chain]:
    """Yields the parametric chains below a relation."""
    if isinstance(relation, Chain):
        if relation.parameters is not None:
            yield relation
        return
    for below in inputs_of(relation):
        yield from parametric_chains(below)


def joins_parameters(relation: Relation) -> bool:
    """Return whether parameters are compared with each other in a join, where NULL equals nothing."""
    if isinstance(relation, Block):
        for item in relation.inputs:
            for c in item.conditions:
                if is_parameter(item.relation, c.own) or is_parameter(relation.inputs[c.input].relation, c.column):
                    return True
    return any(map(joins_parameters, inputs_of(relation)))


def is_parameter(relation: Relation, column: int) -> bool:
    """Return whether a column is a parameter of a chain below."""
    match relation:
        case Chain() | Block():
            expression = relation.columns[column]
            if not isinstance(expression, ColumnRef):
                return False
            if isinstance(relation, Chain):
                return relation.parameters is not None and expression.index >= relation.parameters.first
            for item in relation.inputs:
                width = len(column_types(item.relation))
                if expression.index < width:
                    return is_parameter(item.relation, expression.index)
                expression = replace(expression, index=expression.index - width)
            raise IndexError(column)
        case Union():
            return any(is_parameter(branch, column) for branch in relation.inputs)
        case Aggregate():
            return column < len(relation.group) and is_parameter(relation.input, relation.group[column])
        case Window() | TopK():
            return column < len(column_types(relation.input)) and is_parameter(relation.input, column)


def parameter_columns(chain: Chain) -> Columns:
    """Returns the columns of a chain that are its parameters, in their order. UnsupportedQuery if one is not there."""
    if chain.parameters is None:
        return ()
    first, count = chain.parameters.first, len(chain.parameters.types)
    places = {c.index: i for i, c in reversed(list(enumerate(chain.columns))) if isinstance(c, ColumnRef)}
    found = [places.get(base) for base in range(first, first + count)]
    if None in found:
        raise UnsupportedQuery("The rows that a parameter picks do not have its value.")
    return tuple(c for c in found if c is not None)


def required_columns(block: Block) -> dict[int, Columns]:
    """Returns the columns that every key of an input must have: of a parametric chain its parameters, of an aggregate
    without GROUP BY all columns of its group."""
    required: dict[int, Columns] = {}
    for i, item in enumerate(block.inputs):
        match item.relation:
            case Chain(parameters=found) as chain if found is not None:
                required[i] = parameter_columns(chain)
            case Aggregate(scalar=True, group=group):
                required[i] = tuple(range(len(group)))
            case _:
                pass
    return required
