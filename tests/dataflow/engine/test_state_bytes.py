"""The engine's own account of its memory is about right, for every kind of node."""

import gc
import tracemalloc
from collections.abc import Iterator

import pytest

from dataflow.engine.events import Ahead, EvictSome, Extent
from dataflow.schema import SqlType
from dataflow.state.materialization import Materialization
from dataflow.types import ViewId
from load.micro.lru import Lru
from tests.dataflow.engine.restored import installed, restore, written
from tests.dataflow.engine.site import Site

KEYS = 700
#: What may be said of a byte that is there. Texts that rows share are mostly counted for each.
AT_LEAST, AT_MOST = 0.85, 1.25
SHAPES = {
    "rows by key": "SELECT id, title FROM stories WHERE id = :id",
    "join": "SELECT c.text, c.at, u.name FROM comments c JOIN users u ON u.id = c.author WHERE c.story_id = :story",
    "count": "SELECT s.id, s.title, COUNT(v.user_id) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id"
    " WHERE s.id = :id GROUP BY s.id, s.title",
    "sums": "SELECT s.id, SUM(v.value) AS a, AVG(v.value) AS b, BOOL_OR(v.value > 0) AS c FROM stories s"
    " LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id GROUP BY s.id",
    "extremes": "SELECT s.id, MIN(v.user_id) AS a, MAX(v.user_id) AS b FROM stories s"
    " LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id GROUP BY s.id",
    "distinct": "SELECT s.id, COUNT(DISTINCT v.user_id) AS n FROM stories s LEFT JOIN votes v ON v.story_id = s.id"
    " WHERE s.id = :id GROUP BY s.id",
    "list": "SELECT s.id, STRING_AGG(c.text, ', ' ORDER BY c.at) AS texts FROM stories s"
    " LEFT JOIN comments c ON c.story_id = s.id WHERE s.id = :id GROUP BY s.id",
    "window": "SELECT t.text, t.n, u.name FROM (SELECT story_id, author, text, ROW_NUMBER() OVER (PARTITION BY story_id"
    " ORDER BY at) AS n FROM comments) t JOIN users u ON u.id = t.author WHERE t.story_id = :s",
    "top": "SELECT s.id, c.text FROM stories s LEFT JOIN LATERAL (SELECT text FROM comments WHERE"
    " comments.story_id = s.id ORDER BY at DESC LIMIT 3) c ON TRUE WHERE s.id = :id",
    "union": "SELECT id, title AS t FROM stories WHERE id = :id UNION ALL"
    " SELECT story_id, text FROM comments WHERE story_id = :id",
    "parts of keys": "SELECT c.text, u.name FROM comments c JOIN users u ON u.id = c.author WHERE c.story_id = :story"
    " ORDER BY c.at, c.id LIMIT :n",
}


@pytest.fixture(autouse=True, scope="module")
def _only_new_objects_are_collected() -> Iterator[None]:
    """The garbage collector need not visit all that other modules have made, time and again."""
    gc.freeze()
    yield
    gc.unfreeze()


def _filled(site: Site, view: ViewId, first: int, behind: int, extent: Extent = None) -> None:
    for number in range(first, behind):
        site.read(view, (str(number),), extent)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_said_is_about_what_is_held(shape: str) -> None:
    site = Site(policy=Lru())
    view = site.install(1, SHAPES[shape])
    extent = Ahead(2) if shape == "parts of keys" else None
    _filled(site, view, 0, 50, extent)
    before = site.engine.state_bytes()
    # The site remembers what is covered, too.
    site.covered = set()
    gc.collect()
    tracemalloc.start(1)
    try:
        _filled(site, view, 50, 50 + KEYS, extent)
        site.covered = set()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    said = site.engine.state_bytes() - before
    assert AT_LEAST * held < said < AT_MOST * held, f"{said} bytes are said to be held, {held} are"


@pytest.mark.parametrize("shape", SHAPES)
def test_restored_state_takes_no_more(shape: str) -> None:
    """The account is that of the engine where it was filled, and right: what was one object there is one again."""
    site = Site(policy=Lru())
    _filled(site, site.install(1, SHAPES[shape]), 0, KEYS, Ahead(2) if shape == "parts of keys" else None)
    before, state = site.engine.state_bytes(), written(site.engine)
    engine = installed({1: SHAPES[shape]}, Lru())
    empty = engine.state_bytes()
    gc.collect()
    tracemalloc.start(1)
    try:
        restore(engine, state)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    said = engine.state_bytes()
    assert said == pytest.approx(before, rel=0.01)
    assert AT_LEAST * held < said - empty


@pytest.mark.parametrize("shape", SHAPES)
def test_what_has_gone_is_not_counted(shape: str) -> None:
    site = Site(policy=Lru())
    view = site.install(1, SHAPES[shape])
    empty = site.engine.state_bytes()
    extent = Ahead(2) if shape == "parts of keys" else None
    _filled(site, view, 0, 300, extent)
    full = site.engine.state_bytes()
    for _ in range(100):
        site.step(EvictSome(100))
    assert not site.covered
    assert site.engine.exhausted
    # Tables of dictionaries stay as large as they were.
    assert site.engine.state_bytes() - empty < 0.3 * (full - empty)


def test_a_counted_story_takes_few_bytes() -> None:
    """Its key is one object in all nodes, and its count is a row."""
    site = Site(policy=Lru())
    view = site.install(1, SHAPES["count"])
    _filled(site, view, 0, KEYS)
    stored = list(site.engine.graph.stored())
    keys = [{id(key) for key in coverage} for node in stored for coverage in node.coverages().values()]
    assert keys
    assert all(ids == keys[0] for ids in keys)
    # Tables may be a third full.
    assert sum(node.state_bytes() for node in stored) < 520 * KEYS


def test_deltas_are_counted() -> None:
    site = Site()
    view = site.install(1, "SELECT id, body, name FROM stories JOIN users USING (id) WHERE author = :a")
    site.read(view, ("7",))
    before = site.engine.state_bytes()
    rows = [(str(100_007 + 10_000 * i), "7", "t", "x" * 1000, "2026-01-01 00:00:00+00") for i in range(200)]
    for row in rows:
        site.commit("stories", added=[row])
    grown = site.engine.state_bytes() - before
    assert grown > 200 * 1000
    for row in rows:
        site.commit("stories", removed=[row])
    assert site.engine.state_bytes() - before < 0.2 * grown + 200_000


def test_rows_that_come_and_go_in_other_batches_leave_nothing_behind() -> None:
    text = SqlType("text", "text")
    rows = Materialization((text, text))
    rows.require_coverage((0,))
    rows.fill((0,), ("stays",), {("stays", "x" * 100_000): 1})
    before = rows.state_bytes()
    for _ in range(20):
        rows.fill((0,), ("hot",), {("hot", "first " * 500): 1, ("hot", "second"): 1})
        for number in range(20):
            rows.absorb(([], [("hot", str(number))]))
        rows.evict((0,), ("hot",))
    # Dictionaries keep some room.
    assert abs(rows.state_bytes() - before) < 1000
