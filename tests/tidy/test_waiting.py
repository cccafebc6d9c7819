"""Tests wait for a condition, with a limit; they never hope that a pause was long enough."""

import ast
from collections.abc import Iterator

from tests.tidy.sources import sources_of

Loop = ast.While | ast.For | ast.AsyncFor


def is_pause(node: ast.AST) -> bool:
    """``time.sleep(…)``, ``asyncio.sleep(…)`` and the like; ``asyncio.sleep(0)`` only lets others run."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    yields = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
    return name == "sleep" and not yields


def pauses_outside_loops(tree: ast.AST) -> Iterator[int]:
    """Lines of pauses that are not part of polling a condition."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, Loop):
            continue
        if is_pause(child):
            assert isinstance(child, ast.Call)
            yield child.lineno
        yield from pauses_outside_loops(child)


def test_no_test_sleeps() -> None:
    found = [f"{source.path}:{line}" for source in sources_of("tests") for line in pauses_outside_loops(source.tree())]
    assert found == []
