"""A site of which much has been read, with a leaf store: an engine with nodes of every kind."""

import asyncio
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from dataflow.engine.effects import LeafEffect
from dataflow.engine.events import Extent, InstallView
from dataflow.engine.key_sizes import UNLIMITED, KeyLimits
from dataflow.sql import plan_view
from dataflow.types import Key, ViewId
from service.engine.checkpoint.header import CheckpointHeader
from service.engine.checkpoint.writing import write_state
from service.leaf_store.writer import LeafWriter
from tests.dataflow.engine.site import CATALOG, Site

SQL = (
    "SELECT id, title FROM stories WHERE author = :author",
    "SELECT s.id, s.title, v.user_id FROM stories s JOIN votes v ON v.story_id = s.id WHERE s.id = :id",
    "SELECT s.id, s.title, count(v.user_id) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id "
    "WHERE s.id = :id GROUP BY s.id, s.title",
    "SELECT author, max(at) AS last, count(*) AS n FROM stories WHERE author = :author GROUP BY author",
)
KEYS = [(str(number),) for number in range(1, 30)]


def registered(leaf: LeafWriter, first_id: int, statements: tuple[str, ...] = SQL) -> dict[ViewId, str]:
    """Resets a leaf store, and registers the views; returns their SQL."""
    views = {ViewId(first_id + number): sql for number, sql in enumerate(statements)}
    leaf.reset("epoch")
    for view, sql in views.items():
        leaf.register(view, plan_view(f"v{view - first_id}", sql, CATALOG))
    leaf.commit([], 0, 1)
    return views


class Filled:
    """A site and a leaf store; `content` is their checkpoint. `extent` is read of keys that can be covered in part;
    every second view has limits of its own, if `limited`."""

    def __init__(
        self,
        path: Path,
        statements: tuple[str, ...] = SQL,
        keys: Sequence[Key] = KEYS,
        extent: Extent = None,
        *,
        limited: bool = False,
    ) -> None:
        self.leaf = LeafWriter(path)
        self.site = Site()
        self.views = registered(self.leaf, 1, statements)
        for view, sql in self.views.items():
            limits = KeyLimits(rows=100) if limited and view % 2 else UNLIMITED
            self._step(InstallView(view, plan_view(f"v{view - 1}", sql, CATALOG), limits=limits))
            for key in keys:
                ordered = self.site.engine.graph.leaves[view].ordered is not None
                self.leaf.commit(of_leaf(self.site.read(view, key, extent if ordered else None)), 0, 1)
        file = BytesIO()
        encodings = {str(view): self.leaf.encoding(view) for view in self.views}
        self.header = CheckpointHeader("", "", self.site.engine.applied, 1, {}, encodings)
        assert asyncio.run(write_state(file, self.header, self.site.engine, self.leaf, 60))
        self.content = file.getvalue()

    def _step(self, event: object) -> None:
        self.leaf.commit(of_leaf(self.site.step(event)), 0, 1)


def of_leaf(effects: list[object]) -> list[LeafEffect]:
    return [effect for effect in effects if isinstance(effect, LeafEffect)]
