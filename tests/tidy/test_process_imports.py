"""Modules that a process must not load: its start is mostly imports, and each costs time and memory in every
process."""

import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.tidy.sources import ROOT

#: All that `upquery serve` imports until its children run. The admin port's modules are imported beside their start.
SUPERVISOR = (
    "service.command.cli",
    "service.command.serve",
    "service.supervisor.children",
    "service.supervisor.foreground",
    "service.ground.logs",
    "service.settings.stack",
    "service.supervisor.stack",
)

#: Functions of SQL. A worker loads them for views with conditions on the current time.
EVALUATION = ("dataflow.evaluate",)
#: What reads and plans SQL, and the databases' drivers.
PLANNER = ("sqlglot", "dataflow.sql")
DRIVERS = ("psycopg", "pymysql", "kafka", "sqlalchemy")
#: Of extras, and of commands that do something else.
OTHERS = ("opentelemetry.sdk", "pyspark", "pyarrow", "load", "service.demo")
ENGINE = ("dataflow.engine.engine", "dataflow.engine.events", "dataflow.engine.graph", "service.engine")
HTTP = ("fastapi", "starlette", "uvicorn", "websockets")


def modules(*imported: str, before: str = "pass") -> list[str]:
    """Return the modules loaded in a process that imports these, after it has done something else."""
    program = f"import sys; {before}; import {', '.join(imported)}; print(*(n for n, m in sys.modules.items() if m))"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return run.stdout.split()


def found(loaded: Sequence[str], unwanted: Sequence[str]) -> list[str]:
    """The modules that are among the unwanted ones, or below them."""
    return [name for name in loaded if any(f"{name}.".startswith(f"{prefix}.") for prefix in unwanted)]


@pytest.mark.parametrize(
    ("process", "unwanted"),
    [
        pytest.param(
            ("service.command.cli",), ("service.settings", "rich", "pydantic", "httpx", *DRIVERS), id="command"
        ),
        pytest.param(
            SUPERVISOR, ("prometheus_client", "httpx", "dataflow", "cdc", *HTTP, *DRIVERS, *OTHERS), id="supervisor"
        ),
        pytest.param(
            ("service.engine.process",),
            ("prometheus_client", "typer", "httpx", "service.worker", "service.supervisor", *HTTP, *DRIVERS, *OTHERS),
            id="engine",
        ),
        pytest.param(
            ("service.worker.process",),
            (
                "prometheus_client",
                "typer",
                "httpx",
                "pydantic_settings",
                *ENGINE,
                "service.supervisor",
                "fastapi",
                *EVALUATION,
                *PLANNER,
                *DRIVERS,
                *OTHERS,
            ),
            id="worker",
        ),
        pytest.param(
            ("service.engine.stream_process",),
            ("dataflow", "sqlglot", "lmdb", "service.worker", "service.leaf_store", *HTTP, *OTHERS),
            id="stream",
        ),
        pytest.param(
            ("service.supervisor.gateway",),
            ("service.worker", "lmdb", *ENGINE, *EVALUATION, *PLANNER, *DRIVERS, *OTHERS),
            id="gateway-supervisor",
        ),
        pytest.param(
            ("service.gateway.worker",),
            (*ENGINE, *EVALUATION, *PLANNER, *DRIVERS, *OTHERS),
            id="gateway-worker",
        ),
        pytest.param(
            ("service.supervisor.admin.stack",),
            ("httpx", "service.worker", *ENGINE, *EVALUATION, *PLANNER, *DRIVERS, *OTHERS),
            id="admin-port",
        ),
    ],
)
def test_a_process_loads_nothing_that_it_does_not_need(process: Sequence[str], unwanted: Sequence[str]) -> None:
    loaded = modules(*process)
    assert set(process) <= set(loaded)
    assert found(loaded, unwanted) == []


@pytest.mark.parametrize(
    "process", ["service.engine.process", "service.worker.process", "service.engine.stream_process"]
)
def test_no_child_prints_tracebacks_in_colours(process: str) -> None:
    before = "from service.supervisor.child_main import leave_out_rich; leave_out_rich()"
    assert found(modules(process, before=before), ("rich", "pygments")) == []
