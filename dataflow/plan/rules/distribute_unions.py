"""Projections and filters over a union apply to each of its branches."""

from dataflow.plan.nodes import Block, BlockInput, Relation, Union
from dataflow.plan.rewriting import as_source
from dataflow.schema import Catalog


def distribute_unions(relation: Relation, catalog: Catalog) -> Relation:
    """Moves a block of one union into its branches; a union among them gives its own branches."""
    if isinstance(relation, Block) and len(relation.inputs) == 1:
        below = relation.inputs[0].relation
        if isinstance(below, Union):
            branches = [Block((BlockInput(b),), relation.predicate, relation.columns) for b in below.inputs]
            return distribute_unions(Union(tuple(branches)), catalog)
    if isinstance(relation, Union):
        distributed = [as_source(distribute_unions(branch, catalog)) for branch in relation.inputs]
        return Union(tuple(inner for b in distributed for inner in (b.inputs if isinstance(b, Union) else (b,))))
    return relation
