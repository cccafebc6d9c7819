"""Floors within the packages: which folders a folder may import. ARCHITECTURE.md has the tables.

Imports within functions and for types only count, too.
"""

from graphlib import CycleError, TopologicalSorter

import pytest

from tests.tidy.sources import Source, sources_of

#: The folders of `service/` by process, from the bottom up. A folder may import lower floors, and none of its own.
SERVICE = (
    ("settings", "sharding", "leaf_store"),
    ("ground",),
    ("protocol",),
    ("web",),
    ("engine", "worker"),
    #: Reads requests as workers do.
    ("gateway",),
    ("supervisor",),
    ("command",),
    ("demo",),
    #: Copies schemas into the demo's embedded server.
    ("migration",),
)
#: Each folder, and those that it may import.
FLOORS: dict[str, dict[str, set[str]]] = {
    "dataflow": {
        "types": set(),
        "functions": {"types"},
        "plan": {"types"},
        "lookups": {"functions", "plan", "types"},
        "state": {"plan", "types"},
        "ops": {"functions", "plan", "state", "types"},
        "eviction": set(),
        "engine": {"eviction", "lookups", "ops", "plan", "state", "types"},
        "sql": {"functions", "lookups", "ops", "plan", "state", "types"},
        "spark": {"engine", "eviction", "lookups", "ops", "plan", "types"},
    },
    "cdc": {
        "postgres": set(),
        "mysql": set(),
        "debezium": {"mysql", "postgres"},
        "fanout": set(),
    },
    "dataflow.sql": {
        "syntax": set(),
        "expressions": {"syntax"},
        "postgres": {"expressions", "syntax"},
        "mysql": {"expressions", "syntax"},
    },
    "service.engine": {
        "upstream": set(),
        "databases": {"upstream"},
        "loop": {"upstream"},
        "views": {"loop", "upstream"},
        "reads": {"loop", "upstream", "views"},
        "initial_load": {"loop", "reads", "upstream", "views"},
        "adhoc": {"loop", "reads", "upstream", "views"},
        "audit": {"databases", "loop", "reads", "upstream", "views"},
        "workload": {"checkpoint", "loop", "reads", "views"},
        "checkpoint": {"databases", "upstream", "views"},
        "builds": {"initial_load", "upstream"},
        "session": {
            "adhoc",
            "audit",
            "builds",
            "checkpoint",
            "databases",
            "initial_load",
            "loop",
            "reads",
            "upstream",
            "views",
            "workload",
        },
        "admin": {"audit", "reads", "session", "views"},
    },
    "service.worker": {
        "reads": set(),
        "adhoc": {"reads"},
        "subscriptions": {"reads"},
        "access_log": {"reads"},
        "routes": {"adhoc", "reads", "subscriptions"},
        "shards": {"adhoc", "reads", "routes", "subscriptions"},
    },
    "load": {
        "peers": set(),
        "sides": {"peers"},
        "driver": {"sides"},
        "report": {"driver"},
        "subscribers": set(),
        "workloads": {"driver", "sides"},
        "traces": {"driver", "sides", "workloads"},
        "micro": {"driver", "sides", "traces", "workloads"},
        "experiments": {"driver", "micro", "report", "sides", "subscribers", "traces", "workloads"},
        "figures": {"report", "sides"},
    },
    "service": {
        folder: {lower for below in SERVICE[:floor] for lower in below}
        for floor, folders in enumerate(SERVICE)
        for folder in folders
    },
}


def files_of(package: str) -> list[Source]:
    path = package.replace(".", "/") + "/"
    return [file for file in sources_of(path.split("/", 1)[0]) if file.path.startswith(path)]


def units(package: str) -> dict[str, set[str]]:
    """The folders and root modules of a package (``dataflow.plan``, ``dataflow.schema``), and their imports."""
    found: dict[str, set[str]] = {}
    for file in files_of(package):
        unit = unit_of(file.path.removesuffix(".py").replace("/", "."), package)
        imported = {unit_of(module, package) for module in file.imports if module.startswith(f"{package}.")}
        found.setdefault(unit, set()).update(imported - {unit})
    return found


def unit_of(module: str, package: str) -> str:
    return ".".join(module.split(".")[: package.count(".") + 2])


def folder_of(module: str) -> str:
    return module.rpartition(".")[0]


@pytest.mark.parametrize("package", FLOORS)
def test_folders_import_lower_floors_only(package: str) -> None:
    floors = {f"{package}.{folder}": {f"{package}.{f}" for f in below} for folder, below in FLOORS[package].items()}
    folders = {unit: below & floors.keys() for unit, below in units(package).items() if unit in floors}
    assert {unit: below - floors[unit] for unit, below in folders.items() if below - floors[unit]} == {}
    depth = package.count(".") + 1
    inner = [file.path.replace("/", ".") for file in files_of(package) if file.path.count("/") > depth]
    assert floors.keys() == {unit_of(module, package) for module in inner}


@pytest.mark.parametrize("package", FLOORS)
def test_folders_and_root_modules_are_in_no_cycle(package: str) -> None:
    assert_no_cycle(units(package))


@pytest.mark.parametrize("package", ["api_schemas", "cdc", "dataflow", "load", "service"])
def test_no_folders_import_each_other(package: str) -> None:
    """Folders at any depth; modules at a package's root count as one folder each."""
    known = {source.path.removesuffix(".py").replace("/", "."): source for source in sources_of(package)}
    graph: dict[str, set[str]] = {}

    def place(module: str) -> str:
        return module if module.count(".") == 1 else folder_of(module)

    for module, source in known.items():
        # A name from a module counts as that module.
        others = {name if name in known else folder_of(name) for name in source.imports}
        graph.setdefault(place(module), set()).update(
            {place(other) for other in others if other in known} - {place(module)}
        )
    assert_no_cycle(graph)


def assert_no_cycle(graph: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"they import each other: {' -> '.join(reversed(error.args[1]))}")
