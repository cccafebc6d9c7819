"""The project's own files, parsed once, for the tests of this folder."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("api_schemas", "cdc", "dataflow", "load", "service")


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method: its name, where it begins, how long it is."""

    name: str
    lineno: int
    lines: int


@dataclass(frozen=True, slots=True)
class Source:
    """A Python file: its path below the root, with slashes, and what the tests want to know of it.

    Its syntax tree is not kept: those of all files would be a million objects for the garbage collector to visit.
    """

    path: str
    #: All modules it imports, wherever in the file, by their full dotted names.
    imports: tuple[str, ...]
    #: All functions, methods and nested ones included.
    functions: tuple[Function, ...]
    #: Whether it is empty, or begins with a docstring.
    described: bool
    #: The line and the first line of text of each docstring.
    openings: tuple[tuple[int, str], ...]

    @property
    def package(self) -> str:
        """The top folder."""
        return self.path.split("/", 1)[0]

    def tree(self) -> ast.Module:
        """Parse it again."""
        return parsed(self.path)


def parsed(path: str) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), path)


def read(path: str) -> Source:
    """Parse a file, and keep what is wanted of it."""
    tree = parsed(path)
    nodes = list(ast.walk(tree))
    functions = tuple(
        Function(node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    described = not tree.body or ast.get_docstring(tree, clean=False) is not None
    return Source(path, tuple(imported(path, nodes)), functions, described, tuple(openings(nodes)))


def openings(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the line and the first line of text of each docstring."""
    for node in nodes:
        is_documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_documented and (docstring := ast.get_docstring(node)):
            yield node.body[0].lineno, docstring.partition("\n")[0]


def imported(path: str, nodes: list[ast.AST]) -> Iterator[str]:
    """The modules that statements of a file import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


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
    """All Python files."""
    return tuple(read(name) for name in tracked_files() if name.endswith(".py"))


def sources_of(*packages: str) -> list[Source]:
    """The Python files of some top folders."""
    return [source for source in sources() if source.package in packages]
