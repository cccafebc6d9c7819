"""Which checkpoint a process may use."""

from dataclasses import replace
from pathlib import Path

import pytest

from service.engine.checkpoint.frames import MAGIC, FrameKind, write_frame
from service.engine.checkpoint.header import CheckpointHeader
from service.engine.checkpoint.program import program_digest
from service.engine.checkpoint.store import CheckpointStore

HEADER = CheckpointHeader(program_digest(), "place", 7, 1, {"a": "01", "b": "02"}, {"3": "plain"})


def _stored(path: Path, body: bytes) -> CheckpointStore:
    with path.open("wb") as file:
        file.write(MAGIC)
        write_frame(file, FrameKind.HEADER, body)
    return CheckpointStore(path, 1.0)


def test_a_checkpoint_of_this_program_is_used(tmp_path: Path) -> None:
    store = _stored(tmp_path / "checkpoint", HEADER.body())
    assert store.found() == HEADER
    assert store.path.exists()


def test_it_is_looked_for_once(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoint", 1.0)
    assert store.found() is None
    _stored(store.path, HEADER.body())
    assert store.found() is None


@pytest.mark.parametrize("body", [replace(HEADER, program="other").body(), b"{}", b"no JSON"])
def test_others_are_removed(tmp_path: Path, body: bytes) -> None:
    store = _stored(tmp_path / "checkpoint", body)
    assert store.found() is None
    assert not store.path.exists()


def test_an_empty_file_is_removed(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoint", 1.0)
    store.path.touch()
    assert store.found() is None
    assert not store.path.exists()


def test_none_is_used_without_time_to_write_one(tmp_path: Path) -> None:
    store = replace(_stored(tmp_path / "checkpoint", HEADER.body()), limit_s=0.0)
    assert store.found() is None


def test_tables_that_differ_have_changed() -> None:
    assert HEADER.changed({"a": "01", "b": "03"}, ["a", "b", "c"]) == {"b", "c"}
    assert HEADER.changed({}, ["a"]) == {"a"}


def test_rows_are_stored_as_before() -> None:
    assert HEADER.stores_as(3, "plain")
    assert not HEADER.stores_as(3, "other")
    assert not HEADER.stores_as(4, "plain")
