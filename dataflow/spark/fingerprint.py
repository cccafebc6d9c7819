"""Fingerprint of a build's input: a build is only ever used for exactly what it was made for.

Not here: the manifest that it stands in (`manifest`).
"""

from collections.abc import Mapping, Sequence

from dataflow.canonical import Digests
from dataflow.plan.nodes import Aggregate, Chain
from dataflow.plan.table_access import chain_of
from dataflow.schema import Table

#: Changes when files are laid out otherwise, or mean something else.
FORMAT = 1


def fingerprint(relations: Sequence[Chain | Aggregate], tables: Mapping[str, Table]) -> str:
    """Fingerprint of these relations, in this order, over tables with these columns, in any process. Statistics of
    tables are left out, which change while the tables do not."""
    read = [(relation, tables[chain_of(relation).table]) for relation in relations]
    values = tuple((relation, table.name, table.columns) for relation, table in read)
    return Digests().of((f"upquery build {FORMAT}", values)).hex()


__all__ = ["FORMAT", "fingerprint"]
