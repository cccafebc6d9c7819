"""Which checkpoint a process may use."""

from dataclasses import replace
from pathlib import Path

import pytest

from service.engine.checkpoint.files import checkpoints_of
from service.engine.checkpoint.frames import FrameKind, write_frame, write_magic
from service.engine.checkpoint.header import CheckpointHeader
from service.engine.checkpoint.program import program_digest
from service.engine.checkpoint.store import CheckpointStore
from service.sharding.homes import FORMAT

HEADER = CheckpointHeader(program_digest(), "place", 7, 1, {"a": "01", "b": "02"}, {"3": "plain"})


def _stored(directory: Path, body: bytes, engine: int = 0, engines: int = 1) -> CheckpointStore:
    store = CheckpointStore(directory, 1.0, engine, engines)
    with store.path.open("wb") as file:
        write_magic(file)
        write_frame(file, FrameKind.HEADER, body)
    return store


def test_a_checkpoint_of_this_program_is_used(tmp_path: Path) -> None:
    store = _stored(tmp_path, HEADER.body())
    assert store.found() == HEADER
    assert store.path.exists()


def test_it_is_looked_for_once(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 1.0)
    assert store.found() is None
    _stored(tmp_path, HEADER.body())
    assert store.found() is None


@pytest.mark.parametrize("body", [replace(HEADER, program="other").body(), b"{}", b"no JSON"])
def test_others_are_removed(tmp_path: Path, body: bytes) -> None:
    store = _stored(tmp_path, body)
    assert store.found() is None
    assert not store.path.exists()


def test_each_engine_has_its_own(tmp_path: Path) -> None:
    header = replace(HEADER, homes=FORMAT)
    stores = [_stored(tmp_path, replace(header, position=n).body(), n, 3) for n in range(3)]
    assert [store.found() for store in stores] == [replace(header, position=n) for n in range(3)]
    assert len(checkpoints_of(tmp_path, 3)) == 3


@pytest.mark.parametrize(("before", "now"), [(1, 2), (2, 1), (2, 3), (11, 1)])
def test_those_of_another_number_of_engines_are_removed(tmp_path: Path, before: int, now: int) -> None:
    homes = "" if before == 1 else FORMAT
    for number in range(before):
        _stored(tmp_path, replace(HEADER, homes=homes).body(), number, before)
    assert all(CheckpointStore(tmp_path, 1.0, number, now).found() is None for number in range(now))
    assert list(tmp_path.iterdir()) == []


def test_keys_that_were_divided_otherwise_are_not_used(tmp_path: Path) -> None:
    store = _stored(tmp_path, replace(HEADER, homes="another rule").body(), 1, 2)
    assert store.found() is None
    assert not store.path.exists()


def test_an_empty_file_is_removed(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 1.0)
    store.path.touch()
    assert store.found() is None
    assert not store.path.exists()


def test_none_is_used_without_time_to_write_one(tmp_path: Path) -> None:
    store = replace(_stored(tmp_path, HEADER.body()), limit_s=0.0)
    assert store.found() is None


def test_tables_that_differ_have_changed() -> None:
    assert HEADER.changed({"a": "01", "b": "03"}, ["a", "b", "c"]) == {"b", "c"}
    assert HEADER.changed({}, ["a"]) == {"a"}


def test_rows_are_stored_as_before() -> None:
    assert HEADER.stores_as(3, "plain")
    assert not HEADER.stores_as(3, "other")
    assert not HEADER.stores_as(4, "plain")
