"""State of an engine and its leaf store through a file, whole, truncated anywhere and damaged anywhere."""

import asyncio
import marshal
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dataflow.engine.effects import LeafFillAll
from dataflow.engine.engine import Engine
from dataflow.engine.events import InstallView, Restored, StreamStarted
from dataflow.sql import plan_view
from dataflow.types import ViewId
from service.engine.checkpoint import writing
from service.engine.checkpoint.frames import read_frames
from service.engine.checkpoint.restoring import restore_state
from service.engine.checkpoint.writing import write_state
from service.leaf_store.layout import INLINE, PART, PLAIN, SPECIAL, key_part
from service.leaf_store.writer import LeafWriter
from tests.dataflow.engine.site import CATALOG, Now
from tests.service.engine.checkpoint.filled import KEYS, SQL, Filled, registered
from tests.service.leaf_store.sample_views import make_view


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    made = Filled(tmp_path_factory.mktemp("filled"))
    yield made
    made.leaf.close()


def _restored(filled: Filled, content: bytes, path: Path) -> int:
    """Restores what the content has, and compares it; returns the number of covered keys of views."""
    leaf, engine = LeafWriter(path), Engine(CATALOG)
    try:
        engine.step(StreamStarted(0, Now(), restoring=True))
        views = registered(leaf, 11)
        for view, sql in views.items():
            engine.step(InstallView(view, plan_view(f"v{view - 11}", sql, CATALOG)))
        frames = read_frames(BytesIO(content))
        next(frames)
        asyncio.run(restore_state(frames, filled.header, engine, leaf, frozenset(), lambda *_: None))
        assert engine.step(Restored()) == []
        engine.check()
        for view in views:
            _compare(filled, leaf, view, {key_part(key) for key in engine.graph.leaves[view].coverage})
        return sum(len(found.coverage) for found in engine.graph.leaves.values())
    finally:
        leaf.close()


def _compare(filled: Filled, leaf: LeafWriter, view: ViewId, covered: set[bytes]) -> None:
    """The store has the entries of covered keys with their rows, and nothing else."""
    before = dict(filled.leaf.records(ViewId(view - 10)))
    expected = {name: value for name, value in before.items() if any(name.startswith(key) for key in covered)}
    found = dict(leaf.records(view))
    assert found == expected
    assert {name for name, value in found.items() if value[0] in (INLINE, PLAIN, SPECIAL, PART)} == covered


def test_readers_never_see_a_part_of_a_key(filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers read the store while it is restored: each answer is whole, or a hole."""
    monkeypatch.setattr(writing, "_RECORDS", 7)
    file = BytesIO()
    assert asyncio.run(write_state(file, filled.header, filled.site.engine, filled.leaf, 60))
    whole = {view: filled.leaf.reader.read([(view, key, None) for key in KEYS])[0] for view in filled.views}
    commit, seen = LeafWriter.commit, Counter[bool]()

    def looked(leaf: LeafWriter, *arguments: Any, **options: Any) -> dict[ViewId, Exception]:
        failed = commit(leaf, *arguments, **options)
        for view, answers in whole.items():
            found = leaf.reader.read([(ViewId(view + 10), key, None) for key in KEYS])[0]
            assert all(new in (None, old) for new, old in zip(found, answers, strict=True))
            seen.update(new is not None for new in found)
        return failed

    monkeypatch.setattr(LeafWriter, "commit", looked)
    assert _restored(filled, file.getvalue(), tmp_path) == len(SQL) * len(KEYS)
    assert min(seen[True], seen[False]) > 0


def test_a_view_that_is_kept_whole_is_divided_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a view may be one key of very many rows; the event loop has a turn between two frames."""
    monkeypatch.setattr(writing, "_RECORDS", 7)
    leaf, view = LeafWriter(tmp_path), ViewId(1)
    leaf.register(view, make_view("all", {}), status="building")
    leaf.commit([LeafFillAll(view, {(): [(str(n), "title", "ann", "3") for n in range(50)]})], 1, 1)
    frames = [marshal.loads(body) for _, body in writing._records(leaf, view)]
    assert max(len(records) for _, _, records in frames) == 7
    assert [record for _, _, records in frames for record in records] == list(leaf.records(view))
    leaf.close()


def test_everything_comes_back(filled: Filled, tmp_path: Path) -> None:
    assert _restored(filled, filled.content, tmp_path) == len(SQL) * len(KEYS)


@pytest.mark.parametrize("seed", range(40))
def test_a_truncated_file(filled: Filled, tmp_path: Path, seed: int) -> None:
    size = Random(seed).randrange(len(filled.content) // 10, len(filled.content))
    assert _restored(filled, filled.content[:size], tmp_path) <= len(SQL) * len(KEYS)


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file(filled: Filled, tmp_path: Path, seed: int) -> None:
    random, content = Random(seed), bytearray(filled.content)
    for _ in range(random.choice((1, 2, 5))):
        content[random.randrange(len(content) // 20, len(content))] ^= 1 << random.randrange(8)
    assert _restored(filled, bytes(content), tmp_path) <= len(SQL) * len(KEYS)


def test_a_time_limit_leaves_a_file_of_fewer_nodes(filled: Filled, tmp_path: Path) -> None:
    file = BytesIO()
    assert not asyncio.run(write_state(file, filled.header, filled.site.engine, filled.leaf, 0))
    assert _restored(filled, file.getvalue(), tmp_path) == 0
