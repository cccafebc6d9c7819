"""An engine that believes in foreign keys, although not all writers are held to them."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from dataflow.engine.events import TableDelta
from dataflow.engine.nodes import ChainNode, InnerNode, RouteUse
from dataflow.engine.propagation import Propagation
from dataflow.plan.routes import Step, parent_columns
from dataflow.state.index import key_function
from dataflow.types import Columns, Delta, NodeId
from tests.simulation.schema import FOREIGN_KEYS, ForeignKey


def new_rows_without_children() -> AbstractContextManager[Any]:
    """An inserted row is taken to be referenced by nothing from before its transaction."""
    propagate = Propagation._propagate

    def mutant(self: Propagation, tables: dict[str, TableDelta], own: dict[NodeId, Delta]) -> Any:
        for use in [use for node in self._graph.stored() for use in node.uses.values() if not use.route.full]:
            for position, step in enumerate(use.route.steps, start=1):
                if use.covers[position] == step.columns and _references(use, step):
                    _cover_children(use, step, tables)
        return propagate(self, tables, own)

    return patch.object(Propagation, "_propagate", mutant)


def _references(use: RouteUse, step: Step) -> bool:
    """Return whether the step leads from the key of an input's rows to rows that reference it."""
    if len({source.input for source in step.sources}) != 1:
        return False
    parent, child = use.block.inputs[step.sources[0].input], use.block.inputs[step.input]
    own = _base_columns(parent, tuple(source.column for source in step.sources))
    referencing = _base_columns(child, step.columns)
    if own is None or referencing is None:
        return False
    table, referenced = _table(child), _table(parent)
    return any(key == ForeignKey(referencing, referenced, own) for key in FOREIGN_KEYS[table])


def _base_columns(node: InnerNode, columns: Columns) -> Columns | None:
    return parent_columns(node.relation, columns) if isinstance(node.source, ChainNode) else None


def _table(node: InnerNode) -> str:
    assert isinstance(node.source, ChainNode)
    return node.source.table


def _cover_children(use: RouteUse, step: Step, tables: dict[str, TableDelta]) -> None:
    parent, child = use.block.inputs[step.sources[0].input], use.block.inputs[step.input]
    delta = tables.get(_table(parent), TableDelta())
    if delta.removed or delta.truncated or tables.get(_table(child), TableDelta()).overflow:
        return
    assert isinstance(parent.source, ChainNode)
    key_of = key_function(tuple(source.column for source in step.sources), parent.types)
    for row in parent.source.function.rows(delta.added):
        key = key_of(row)
        if None not in key and parent.materialization.is_known(row) and not child.covered(step.columns, key):
            child.cover_known(step.columns, key)
