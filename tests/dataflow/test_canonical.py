"""Digests of plans: equal in every process, and different for what is different."""

import subprocess
import sys
from dataclasses import replace

import pytest

from dataflow.canonical import Digests
from tests.simulation.ordered_views import ORDERED_VIEWS
from tests.simulation.views import VIEWS

_OF_ALL = """
from dataflow.canonical import Digests
from tests.simulation.views import VIEWS
print(Digests().of((tuple(VIEWS), frozenset(view.name for view in VIEWS))).hex())
"""


def test_digests_are_those_of_other_processes() -> None:
    names = frozenset(view.name for view in VIEWS)
    here = Digests().of((tuple(VIEWS), names)).hex()
    command = [sys.executable, "-c", _OF_ALL]
    printed = subprocess.run(command, env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == here


def test_different_views_have_different_digests() -> None:
    digests, views = Digests(), {*VIEWS, *ORDERED_VIEWS}
    assert len({digests.of(view) for view in views}) == len(views)


def test_every_part_counts() -> None:
    digests, view = Digests(), VIEWS[0]
    assert digests.of(view) == Digests().of(view)
    for other in (replace(view, name="x"), replace(view, limit_rows=7), replace(view, output=view.output[:-1])):
        assert digests.of(view) != digests.of(other)
    assert len({digests.of(value) for value in (None, 0, False, "", "0", b"", (), ((),), ("",), frozenset())}) == 10


def test_what_is_no_value_has_none() -> None:
    with pytest.raises(TypeError):
        Digests().of(object())


def test_what_is_nested_too_deeply_has_none() -> None:
    value: tuple[object, ...] = ()
    for _ in range(100_000):
        value = (value,)
    assert Digests().found(value) is None
    assert Digests().found(object()) is None
    assert Digests().found(()) == Digests().of(())
