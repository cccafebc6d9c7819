"""``upquery bench figures``: parts of the service by themselves, on the demo's site, each against its peer.

Each is a file of this folder with a ``run(site, seconds, cores)`` that returns figures. One that cannot run here says
why; one that fails is reported and fails the whole.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from load.figures import backlog, engine_rate, freshness, hits, installs, misses, reads_under_writes, restart
from load.figures.demo_site import DemoSite, running_site
from load.processes import RunConditions
from load.programs import MissingProgramError
from load.progress import Tell
from load.report.figures import Result, Skipped
from load.report.output import FAILURES, JsonOption, OutputOption, perform
from load.report.report import Report
from load.sides.side import SideError
from load.wrk import LoadError

Bench = Callable[[DemoSite, int, tuple[int, int] | None], list[Result]]

#: In this order: what needs untouched keys first.
BENCHES: dict[str, Bench] = {
    "misses": misses.run,
    "hits": hits.run,
    "freshness": freshness.run,
    "backlog": backlog.run,
    "reads-under-writes": reads_under_writes.run,
    "installs": installs.run,
}
#: Benchmarks that need no site: description and function.
ALONE: dict[str, tuple[str, Callable[[tuple[int, int] | None], list[Result]]]] = {
    "engine": ("the vote dataflow by itself", engine_rate.run),
    "restart": ("a checkpoint, written and restored", restart.run),
}


def command(
    only: Annotated[
        list[str] | None, typer.Argument(help=f"Some of: {', '.join([*ALONE, *BENCHES])}. Default: all.")
    ] = None,
    seconds: Annotated[int, typer.Option(min=1, max=20, help="Length of one turn of one side.")] = 3,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Parts of the service by themselves: hits, misses, freshness, the engine's rate, installs,
    restarts. Some six minutes."""
    if unknown := set(only or ()) - {*ALONE, *BENCHES}:
        raise typer.BadParameter(f"no benchmark named {', '.join(sorted(unknown))}")
    wanted = only or [*ALONE, *BENCHES]
    failed: list[str] = []

    def work(conditions: RunConditions, tell: Tell) -> Report:
        return run(wanted, seconds, conditions=conditions, tell=tell, failed=failed)

    perform("figures", work, as_json=as_json, output=output)
    if failed:
        raise typer.Exit(1)


def run(wanted: Sequence[str], seconds: int, *, conditions: RunConditions, tell: Tell, failed: list[str]) -> Report:
    """The wanted benchmarks; those that fail are added to `failed`."""
    cores = _cores(conditions)
    results: list[Result] = []
    for name, (what, bench) in ALONE.items():
        if name in wanted:
            tell(f"{name}: {what}")
            results += bench(cores)
    if names := [name for name in BENCHES if name in wanted]:
        results += _run_on_site(names, seconds, cores, tell, failed)
    about = (
        f"Each part against its peer on the demo's site: turns of {seconds} s, sides in turns; medians over the turns."
    )
    return Report("Upquery, measured", about, results)


def _run_on_site(
    names: Sequence[str], seconds: int, cores: tuple[int, int] | None, tell: Tell, failed: list[str]
) -> list[Result]:
    results: list[Result] = []
    tell("starting the demo's site …")
    with running_site() as site:
        for name in names:
            tell(f"{name} …")
            try:
                results += BENCHES[name](site, seconds, cores)
            except MissingProgramError as missing:
                results.append(Skipped(name, str(missing)))
            except (*FAILURES, LoadError, SideError) as error:
                failed.append(name)
                results.append(Skipped(name, f"FAILED: {error}"))
    return results


def _cores(conditions: RunConditions) -> tuple[int, int] | None:
    """The server's core and the client's."""
    if conditions.server_cores is None or conditions.client_cores is None:
        return None
    return conditions.server_cores[0], conditions.client_cores[0]
