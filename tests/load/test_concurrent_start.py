"""Several things, started and ended at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Barrier

import pytest

from load.sides.concurrent_start import together

LIMIT_S = 30


@contextmanager
def meeting(name: str, barrier: Barrier, log: list[str]) -> Iterator[str]:
    """Begins and ends only beside others."""
    barrier.wait(LIMIT_S)
    try:
        yield name
    finally:
        barrier.wait(LIMIT_S)
        log.append(name)


@contextmanager
def refused(barrier: Barrier) -> Iterator[str]:
    barrier.wait(LIMIT_S)
    raise ValueError("no port is free")
    yield


def test_all_begin_and_end_at_once() -> None:
    barrier, log = Barrier(3), list[str]()
    with together(*(meeting(name, barrier, log) for name in "abc")) as names:
        assert names == ["a", "b", "c"]
        assert log == []
    assert sorted(log) == ["a", "b", "c"]


def test_all_end_when_the_block_fails() -> None:
    log: list[str] = []
    with pytest.raises(KeyError), together(meeting("a", Barrier(1), log)):
        raise KeyError
    assert log == ["a"]


def test_what_has_begun_ends_when_another_cannot() -> None:
    barrier, log = Barrier(2), list[str]()

    @contextmanager
    def begun() -> Iterator[str]:
        barrier.wait(LIMIT_S)
        yield "a"
        log.append("a")

    with pytest.raises(ValueError, match="no port"), together(begun(), refused(barrier)):
        raise AssertionError
    assert log == ["a"]
