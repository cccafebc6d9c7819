"""Filter and projection over one base table, row by row and without state."""

from dataflow.evaluate import compile_predicate
from dataflow.ops.block import compile_projection
from dataflow.plan.nodes import Chain
from dataflow.state.materialization import consolidate
from dataflow.types import Delta, Row


class ChainFunction:
    """The executable form of a `Chain`."""

    __slots__ = ("_keeps", "chain", "projected")

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self._keeps = compile_predicate(chain.predicate) if chain.predicate is not None else None
        #: The chain's columns of a table row, whether or not the filter keeps it.
        self.projected = compile_projection(chain.columns)

    def rows(self, rows: list[Row]) -> list[Row]:
        """The chain's rows of these table rows."""
        if self._keeps is not None:
            rows = [row for row in rows if self._keeps(row)]
        project = self.projected
        return [project(row) for row in rows]

    def delta(self, removed: list[Row], added: list[Row]) -> Delta:
        """The chain's change of a change of the table."""
        return consolidate((self.rows(removed), self.rows(added)))
