"""COUNT of a column that is never NULL is COUNT(*), so that views that write either share a node."""

from dataclasses import replace

from dataflow.plan.nodes import Aggregate, AggregateCall, AggregateFunction, Chain, Relation
from dataflow.plan.parametric import chain_table
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.schema import Catalog


def simplify_counts(relation: Relation, catalog: Catalog) -> Relation:
    """Rewrites such calls of an aggregate over a chain."""
    if not isinstance(relation, Aggregate) or not isinstance(relation.input, Chain):
        return relation
    chain = relation.input
    calls = tuple(_simplified(call, chain, catalog) for call in relation.calls)
    return replace(relation, calls=calls)


def _simplified(call: AggregateCall, chain: Chain, catalog: Catalog) -> AggregateCall:
    if call.function is not AggregateFunction.COUNT or call.argument is None or call.distinct:
        return call
    if not _never_null(call.argument, chain, catalog):
        return call
    return AggregateCall(AggregateFunction.COUNT_ROWS, None, call.type, call.weight)


def _never_null(argument: Scalar, chain: Chain, catalog: Catalog) -> bool:
    if isinstance(argument, ColumnRef):
        source = chain.columns[argument.index]
        return isinstance(source, ColumnRef) and chain_table(chain, catalog).columns[source.index].not_null
    return isinstance(argument, Literal) and argument.value is not None
