"""The project's own files, parsed once, for the tests of this folder."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("api_schemas", "cdc", "dataflow", "load", "service")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Source:
    """A Python file: its path below the root, with slashes, and its syntax tree."""

    path: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """The top folder."""
        return self.path.split("/", 1)[0]

    def imports(self) -> Iterator[str]:
        """All modules it imports, wherever in the file, by their full dotted names."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.path}:{node.lineno}: imports are absolute here"
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def functions(self) -> Iterator[Function]:
        """All functions, methods and nested ones included."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))


@cache
def tracked_files() -> tuple[str, ...]:
    """All files of the project, those not yet committed included, and nothing that git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(sorted(name for name in listed.stdout.splitlines() if (ROOT / name).is_file()))


@cache
def sources() -> tuple[Source, ...]:
    """All Python files, parsed."""
    names = (name for name in tracked_files() if name.endswith(".py"))
    return tuple(Source(name, ast.parse((ROOT / name).read_text(encoding="utf-8"), name)) for name in names)


def sources_of(*packages: str) -> list[Source]:
    """The Python files of some top folders."""
    return [source for source in sources() if source.package in packages]
