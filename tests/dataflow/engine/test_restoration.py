"""State of an engine in another one: which keys are looked at one by one, and that equal keys are one object.

Not here: any events, any views (`tests.simulation.checkpoints`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from dataflow.engine.chunks import Chunk, NodeBegun
from dataflow.engine.engine import Engine
from dataflow.engine.events import InstallView, Restore, Restored, StreamStarted
from dataflow.engine.nodes import GroupingNode, InnerNode, Store
from dataflow.engine.state_digests import StateDigests
from dataflow.sql import plan_view
from dataflow.types import ViewId
from tests.dataflow.engine.site import CATALOG, Now, Site

SQL = (
    "SELECT id, title FROM stories WHERE author = :author",
    "SELECT s.id, s.title, count(v.user_id) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id "
    "WHERE s.id = :id GROUP BY s.id, s.title",
    "SELECT c.id, c.text, u.name FROM comments c JOIN users u ON u.id = c.author WHERE c.story_id = :id",
)
KEYS = [(str(number),) for number in range(1, 30)]


@pytest.fixture(scope="module")
def written() -> list[Chunk]:
    site = Site()
    for number, sql in enumerate(SQL, start=1):
        view = site.install(number, sql)
        for key in KEYS:
            site.read(view, key)
    return list(site.engine.chunks())


def _restored(chunks: list[Chunk]) -> Engine:
    engine = Engine(CATALOG)
    engine.step(StreamStarted(0, Now(), restoring=True))
    for number, sql in enumerate(SQL, start=1):
        engine.step(InstallView(ViewId(number), plan_view(f"v{number}", sql, CATALOG)))
    for chunk in chunks:
        engine.step(Restore(chunk))
    engine.step(Restored())
    engine.check()
    return engine


def test_no_key_is_looked_at_where_all_is_there(written: list[Chunk]) -> None:
    engine = _restored(written)
    assert sum(len(leaf.coverage) for leaf in engine.graph.leaves.values()) == len(SQL) * len(KEYS)
    assert engine.counters["restored_untested"] == engine.counters["restored_keys"]


@contextmanager
def _other_routes() -> Iterator[None]:
    with patch.object(StateDigests, "of_routes", lambda *_: b"another"):
        yield


def test_keys_with_another_route_are_looked_at(written: list[Chunk]) -> None:
    with _other_routes():
        engine = _restored(written)
    assert sum(len(leaf.coverage) for leaf in engine.graph.leaves.values()) == len(SQL) * len(KEYS)
    assert engine.counters["restored_untested"] == 0


def test_keys_above_a_node_that_is_missing_are_looked_at(written: list[Chunk]) -> None:
    """Each node in turn; `check` says that all that is covered is supported."""
    begun = [number for number, chunk in enumerate(written) if isinstance(chunk, NodeBegun)]
    for first, last in zip(begun, [*begun[1:], len(written)], strict=True):
        engine = _restored(written[:first] + written[last:])
        assert engine.counters["restored_keys"]


def test_equal_keys_are_one_object(written: list[Chunk]) -> None:
    """The sizes of state assume that a view's key and the keys that it leads to are shared."""
    engine = _restored(written)
    by_story = [node for node in engine.graph.stored() if isinstance(node, InnerNode) and len(node.types) > 1]
    assert {Store, GroupingNode} <= set(map(type, by_story))
    known = {key: key for leaf in engine.graph.leaves.values() for key in leaf.coverage}
    keys = [key for node in by_story for coverage in node.coverages().values() for key in coverage.keys]
    keys += [key for node in by_story for index in node.materialization.indexes.values() for key in index.buckets]
    shared = [key for key in keys if key in known]
    assert len(shared) > len(KEYS)
    assert all(known[key] is key for key in shared)
