"""Profiles: which of our functions a stack's time belongs to."""

from load.experiments.profile import summed

STACKS = """\
main (service/main.py:10);run (asyncio/runners.py:118);step (dataflow/engine/e.py:2);apply (dataflow/ops/join.py:5) 30
main (service/main.py:10);run (asyncio/runners.py:118);step (dataflow/engine/e.py:2);dumps (json/__init__.py:1) 10
main (service/main.py:10);run (asyncio/runners.py:118) 20
run (service/engine/process.py:9);run_engine (service/engine/process.py:20);select (selectors.py:2) 20
_wait_for_parent (service/protocol/child.py:30) 900
run (threading.py:1) 20
"""


def test_time_belongs_to_the_deepest_function_of_ours() -> None:
    found = summed(STACKS.splitlines())
    assert dict(found.by_function) == {
        "dataflow/ops/join.py apply": 0.3,
        "dataflow/engine/e.py step": 0.1,
        "service/main.py main": 0.2,
        "event loop, and what is not ours": 0.4,
    }


def test_parts_are_folders() -> None:
    found = summed(STACKS.splitlines())
    assert found.by_part[0] == ("event loop, and what is not ours", 0.4)
    assert dict(found.by_part)["dataflow/ops"] == 0.3


def test_nothing_sampled_is_nothing() -> None:
    assert summed([]).by_part == ()
