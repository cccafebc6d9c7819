"""Fingerprint of a build's input: a build is only ever used for exactly what it was made for.

Not here: the manifest that it stands in (`manifest`).
"""

import hashlib
from collections.abc import Mapping, Sequence

from dataflow.plan.nodes import Aggregate, Chain
from dataflow.plan.table_access import chain_of
from dataflow.schema import Table

#: Changes when files are laid out otherwise, or mean something else.
FORMAT = 1


def fingerprint(relations: Sequence[Chain | Aggregate], tables: Mapping[str, Table]) -> str:
    """Fingerprint of these relations, in this order, over tables with these columns. Plans are frozen values all the
    way down, so that their ``repr`` is complete; statistics of tables are left out, which change while the tables do
    not."""
    digest = hashlib.sha256(f"upquery build {FORMAT}".encode())
    for relation in relations:
        table = tables[chain_of(relation).table]
        digest.update(f"\0{relation!r}\0{table.name}\0{table.columns!r}".encode())
    return digest.hexdigest()


__all__ = ["FORMAT", "fingerprint"]
