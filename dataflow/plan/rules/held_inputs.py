"""Without GROUP BY there is a row for every key, also for one without rows to aggregate, but only keys that were asked
for are known. So such groups are had by their own key: where their input cannot be had by it, a block beneath holds all
of the input and gives what is under the key."""

from dataclasses import replace

from dataflow.plan.nodes import Aggregate, Block, BlockInput, Chain, Relation, Source
from dataflow.plan.rewriting import input_columns
from dataflow.plan.routes import coverable
from dataflow.schema import Catalog
from dataflow.types import Columns


def keep_default_rows(relation: Relation, _catalog: Catalog) -> Relation:
    """Aggregates without GROUP BY whose group columns have no provenance are over a block that holds its input."""
    if not isinstance(relation, Aggregate) or not relation.scalar:
        return relation
    if coverable(relation.input, relation.group) == relation.group:
        return relation
    return replace(relation, input=held(relation.input))


def held(source: Source) -> Block:
    """The rows of a source, materialized beneath a block: they can be had by any columns, all being known."""
    block = Block((BlockInput(source),), None, ())
    return replace(block, columns=tuple(input_columns(block)))


def by_parts(source: Source, key: Columns) -> Source:
    """A view's relation. Of a table that can be looked up by some columns of the key only, a block holds the rows that
    they bring, and gives those of the whole key; else all of the table would be materialized."""
    part = coverable(source, key)
    return held(source) if isinstance(source, Chain) and part and part != key else source
