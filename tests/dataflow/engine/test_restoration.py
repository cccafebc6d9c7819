"""State of an engine in another one: which keys are looked at one by one, and that equal keys are one object.

Not here: any events, any views (`tests.simulation.checkpoints`).
"""

import marshal

import pytest

from dataflow.engine.chunks import CoveredKeys, NodeBegun
from dataflow.engine.engine import Engine
from dataflow.engine.nodes import GroupingNode, InnerNode, Store
from tests.dataflow.engine.restored import Written, installed, restore, written
from tests.dataflow.engine.site import Site

VIEWS = {
    1: "SELECT id, title FROM stories WHERE author = :author",
    2: "SELECT s.id, s.title, count(v.user_id) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id "
    "WHERE s.id = :id GROUP BY s.id, s.title",
    3: "SELECT c.id, c.text, u.name FROM comments c JOIN users u ON u.id = c.author WHERE c.story_id = :id",
}
KEYS = [(str(number),) for number in range(1, 30)]


@pytest.fixture(scope="module")
def state() -> list[Written]:
    site = Site()
    for number, sql in VIEWS.items():
        view = site.install(number, sql)
        for key in KEYS:
            site.read(view, key)
    return written(site.engine)


def _restored(state: list[Written]) -> Engine:
    engine = restore(installed(VIEWS), state)
    engine.check()
    return engine


def test_no_key_is_looked_at_where_all_is_there(state: list[Written]) -> None:
    engine = _restored(state)
    assert sum(len(leaf.coverage) for leaf in engine.graph.leaves.values()) == len(VIEWS) * len(KEYS)
    assert engine.counters["restored_untested"] == engine.counters["restored_keys"]


def _with_other_routes(chunk: bytes) -> bytes:
    return marshal.dumps(tuple(CoveredKeys(*marshal.loads(chunk))._replace(routes=b"others")))


def test_keys_with_another_route_are_looked_at(state: list[Written]) -> None:
    """They stay covered if what it reads is there."""
    other = [(kind, _with_other_routes(chunk) if kind is CoveredKeys else chunk) for kind, chunk in state]
    engine = _restored(other)
    assert sum(len(leaf.coverage) for leaf in engine.graph.leaves.values()) == len(VIEWS) * len(KEYS)
    assert engine.counters["restored_untested"] == 0


def test_keys_above_a_node_that_is_missing_are_looked_at(state: list[Written]) -> None:
    """Each node in turn; `check` says that all that is covered is supported."""
    begun = [number for number, (chunk, _) in enumerate(state) if chunk is NodeBegun]
    for first, last in zip(begun, [*begun[1:], len(state)], strict=True):
        engine = _restored(state[:first] + state[last:])
        assert engine.counters["restored_keys"]


def test_equal_keys_are_one_object(state: list[Written]) -> None:
    """The sizes of state assume that a view's key and the keys that it leads to are shared."""
    engine = _restored(state)
    by_story = [node for node in engine.graph.stored() if isinstance(node, InnerNode) and len(node.types) > 1]
    assert {Store, GroupingNode} <= set(map(type, by_story))
    known = {key: key for leaf in engine.graph.leaves.values() for key in leaf.coverage}
    keys = [key for node in by_story for coverage in node.coverages().values() for key in coverage.keys]
    keys += [key for node in by_story for index in node.materialization.indexes.values() for key in index.buckets]
    shared = [key for key in keys if key in known]
    assert len(shared) > len(KEYS)
    assert all(known[key] is key for key in shared)
