"""A chain node of a graph: a stateless function, shared by all that hold state over it.

Not here: what holds state (`nodes`).
"""

from typing import TYPE_CHECKING, Protocol

from dataflow.engine.parametric_rows import Keys, ParametricRows
from dataflow.ops.chain import ChainFunction
from dataflow.plan.nodes import Chain, column_types
from dataflow.plan.parametric import without_rows
from dataflow.types import Delta, NodeId, Row

if TYPE_CHECKING:
    from dataflow.engine.nodes import Stored


class HasKeys(Protocol):
    """A node over a chain, or a lookup of one."""

    def source_keys(self) -> list[Keys]:
        """Keys in columns of the chain."""


class ChainNode:
    """A chain's function, shared by all that hold state over it."""

    def __init__(self, id_: NodeId, chain: Chain) -> None:
        self.id = id_
        self.relation = chain
        #: The base table that the chain reads, alone and as a set.
        self.table = chain.table
        self.tables = frozenset([chain.table])
        self.function = ChainFunction(chain)
        #: No change and no lookup of the table brings rows.
        self.empty = without_rows(chain)
        #: Its rows, if they depend on keys.
        self.parametric = None if chain.parameters is None else ParametricRows(self.function)
        self.types = column_types(chain)
        self.children: list[Stored] = []

    def delta(self, removed: list[Row], added: list[Row], of: "HasKeys") -> Delta:
        """The chain's change of a change of the table, at least under the keys `of` a node or a lookup."""
        if self.parametric is None:
            return self.function.delta(removed, added)
        return self.parametric.delta(removed, added, of.source_keys())
