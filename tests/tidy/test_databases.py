"""Databases: their names choose an object from a table, and are compared in the databases' own folders only."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from tests.tidy.sources import ROOT, sources_of

NAMES = {"mariadb", "mysql", "postgres", "postgresql"}
FOLDERS = {"mysql", "postgres"}


def compared(tree: ast.Module) -> Iterator[ast.expr]:
    """Returns the compared or matched expressions: operands, and members of those that are written out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for operand in (node.left, *node.comparators):
                yield operand
                if isinstance(operand, ast.Tuple | ast.List | ast.Set):
                    yield from operand.elts
        elif isinstance(node, ast.MatchValue):
            yield node.value


def test_no_module_compares_with_a_databases_name() -> None:
    found = [
        f"{source.path}:{operand.lineno}"
        for source in sources_of("cdc", "dataflow", "service")
        if not FOLDERS & set(PurePosixPath(source.path).parts)
        for operand in compared(source.tree())
        if isinstance(operand, ast.Constant) and operand.value in NAMES
    ]
    assert found == []


@pytest.mark.parametrize("parent", ["dataflow/sql", "service/engine/databases"])
def test_recipes_list_the_files_that_all_databases_have(parent: str) -> None:
    recipe = (ROOT / parent / "README.md").read_text(encoding="utf-8").split("**To add a d", 1)[1]
    table = [line for line in recipe.splitlines() if line.startswith("|")]
    listed = re.findall(r"`(\w+\.py)`", "\n".join(table))
    folders = [{file.name for file in (ROOT / parent / name).glob("*.py")} for name in sorted(FOLDERS)]
    assert sorted(listed) == sorted(set.intersection(*folders) - {"__init__.py"})
