"""The floors of `service/`, by process: a folder imports lower floors only. ARCHITECTURE.md has the table."""

from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath

import pytest

from tests.tidy.sources import Source, sources_of

#: From the bottom up. A folder may import those before it, and none of its own floor.
FLOORS = (
    ("settings", "sharding", "leaf_store"),
    ("ground",),
    ("protocol",),
    ("web",),
    ("engine", "worker"),
    #: Reads requests as workers do.
    ("gateway",),
    ("supervisor",),
    #: `demo` is a command whose parts are many.
    ("command",),
    ("demo",),
)
FLOOR_OF = {folder: number for number, floor in enumerate(FLOORS) for folder in floor}


def modules() -> dict[str, Source]:
    """All modules by their dotted names."""
    return {source.path.removesuffix(".py").replace("/", "."): source for source in sources_of("service")}


def imported_modules(source: Source, known: dict[str, Source]) -> list[str]:
    """The modules of the package that a file imports: a name from a module counts as that module."""
    found = (name if name in known else name.rpartition(".")[0] for name in source.imports)
    return [name for name in found if name in known]


def folder_of(module: str) -> str:
    return module.rpartition(".")[0]


def test_a_folder_imports_lower_floors_only() -> None:
    known = modules()
    wrong = []
    for module, source in known.items():
        floor = module.split(".")[1]
        for other in imported_modules(source, known):
            lower = other.split(".")[1]
            if lower != floor and FLOOR_OF[lower] >= FLOOR_OF[floor]:
                wrong.append(f"{source.path} imports {other}")
    assert wrong == []


def test_every_folder_has_its_floor() -> None:
    folders = {PurePosixPath(source.path).parts[1] for source in sources_of("service")}
    assert {folder for folder in folders if not folder.endswith(".py")} == set(FLOOR_OF)


@pytest.mark.parametrize("package", ["service"])
def test_no_folders_import_each_other(package: str) -> None:
    """Also where a module is imported late, or for types only."""
    known = {source.path.removesuffix(".py").replace("/", "."): source for source in sources_of(package)}
    graph: dict[str, set[str]] = {}
    for module, source in known.items():
        others = {folder_of(other) for other in imported_modules(source, known)}
        graph.setdefault(folder_of(module), set()).update(others - {folder_of(module)})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"folders import each other: {' -> '.join(error.args[1])}")
