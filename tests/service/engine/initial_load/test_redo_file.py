"""Redo logs on disk: as the ones in memory, and never taken for finished once they failed."""

import random
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dataflow.engine.events import TableDelta
from dataflow.types import Row
from service.engine.initial_load.redo_file import BUFFER_BYTES, FRAME_ROWS, PREFIX, RedoFile, remove_left


def rows(n: int, text: str) -> list[Row]:
    return [(str(i), text * (i % 50), None) for i in range(n)]


def taken_rows(deltas: list[TableDelta]) -> tuple[list[Row], list[Row]]:
    return [r for d in deltas for r in d.removed], [r for d in deltas for r in d.added]


def refuse(reason: str) -> None:
    pytest.fail(reason)


@pytest.mark.parametrize("seed", range(5))
def test_what_comes_out_is_what_went_in(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log = RedoFile(tmp_path / "loads", refuse)
    wanted: tuple[list[Row], list[Row]] = ([], [])
    found: tuple[list[Row], list[Row]] = ([], [])
    largest = 0
    for number in range(300):
        delta = TableDelta(rows(chance.choice((0, 1, 2, 40)), f"é\n{number}"), rows(chance.choice((1, 3, 2500)), "x\0"))
        log.append(delta)
        wanted[0].extend(delta.removed)
        wanted[1].extend(delta.added)
        largest = max(largest, log.file_bytes)
        while chance.random() < 0.4 and log.rows:
            took = log.take(chance.choice((1, 100, 10_000)))
            assert took
            assert all(len(delta.removed) + len(delta.added) <= FRAME_ROWS for delta in took)
            for mine, theirs in zip(found, taken_rows(took), strict=True):
                mine.extend(theirs)
    while log.rows:
        for mine, theirs in zip(found, taken_rows(log.take(700)), strict=True):
            mine.extend(theirs)
    assert found == wanted
    # It was on disk, under no name, and began anew when all of it was taken.
    assert largest > BUFFER_BYTES
    assert log.file_bytes == 0
    assert list((tmp_path / "loads").iterdir()) == []
    log.close()


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A limit of this process, which is as a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_log_that_cannot_be_written_says_so_once_and_is_never_empty(tmp_path: Path) -> None:
    said: list[str] = []
    log = RedoFile(tmp_path, said.append)
    with files_of_at_most(3 * BUFFER_BYTES):
        for _ in range(200):
            log.append(TableDelta([], rows(400, "abc")))
    (reason,) = said
    assert str(tmp_path) in reason
    for _ in range(10):
        assert log.rows
        assert taken_rows(log.take(10**9)) == ([], [])
    log.close()


def test_a_directory_that_cannot_be_made_is_a_failure_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "loads").write_text("a file")
    said: list[str] = []
    log = RedoFile(tmp_path / "loads", said.append)
    log.append(TableDelta([], rows(100_000, "abc")))
    assert len(said) == 1
    assert log.rows


def test_what_was_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}abc").write_text("left")
    (tmp_path / "other").write_text("somebody's")
    remove_left(tmp_path)
    remove_left(tmp_path / "nowhere")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
