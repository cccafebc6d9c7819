"""``make bench``, ``upquery bench``: measures Upquery against its peers on this machine, loopback only.

Each benchmark is a file of this folder with a ``run(site, seconds, cores)`` that returns figures. One that cannot run
here says why; one that fails is told and fails the whole.
"""

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import httpx
import psycopg
import typer
from rich.console import Console

from load.figures import backlog, engine_rate, freshness, hits, installs, misses, reads_under_writes
from load.figures.demo_site import Site, SiteError, running_site
from load.programs import MissingProgramError
from load.report.figures import Result, Skipped, show, to_json
from load.wrk import LoadError

Bench = Callable[[Site, int, tuple[int, int] | None], list[Result]]

#: What a benchmark may meet that is not its own mistake.
_FAILURES = (SiteError, LoadError, httpx.HTTPError, psycopg.Error, OSError)

#: In this order: what needs untouched keys first.
BENCHES: dict[str, Bench] = {
    "misses": misses.run,
    "hits": hits.run,
    "freshness": freshness.run,
    "backlog": backlog.run,
    "reads-under-writes": reads_under_writes.run,
    "installs": installs.run,
}


def bench(
    only: Annotated[
        list[str] | None, typer.Argument(help=f"Some of: engine, {', '.join(BENCHES)}. Default: all.")
    ] = None,
    seconds: Annotated[int, typer.Option(min=1, max=20, help="Length of one turn of one side.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    output: Annotated[Path | None, typer.Option(help="Also write the JSON to this file.")] = None,
) -> None:
    """Measure the service against its peers. Without arguments: everything, in some five minutes."""
    unknown = set(only or ()) - {"engine", *BENCHES}
    if unknown:
        raise typer.BadParameter(f"no benchmark named {', '.join(sorted(unknown))}")
    console = Console(stderr=as_json)
    wanted = only or ["engine", *BENCHES]
    cores = _cores()
    results: list[Result] = []
    failed = False
    if "engine" in wanted:
        with console.status("engine: the vote dataflow by itself"):
            results += engine_rate.run(cores)
    if set(wanted) - {"engine"}:
        failed = _run_on_site(console, [name for name in BENCHES if name in wanted], seconds, cores, results)
    conditions = _conditions(cores, seconds)
    document = to_json(results, conditions)
    if output:
        output.write_text(document + "\n", encoding="utf-8")
    if as_json:
        typer.echo(document)
    else:
        show(console, results, conditions)
    raise typer.Exit(1 if failed else 0)


def _run_on_site(
    console: Console, names: list[str], seconds: int, cores: tuple[int, int] | None, results: list[Result]
) -> bool:
    """Run the benchmarks on one site; whether any failed."""
    failed = False
    console.print("starting the demo's site …")
    with running_site() as site:
        for name in names:
            with console.status(f"{name} …"):
                try:
                    results += BENCHES[name](site, seconds, cores)
                except MissingProgramError as missing:
                    results.append(Skipped(name, str(missing)))
                except _FAILURES as error:
                    failed = True
                    results.append(Skipped(name, f"FAILED: {error}"))
            console.print(f"{name}: done")
    return failed


def _cores() -> tuple[int, int] | None:
    """The server's core and the client's; None where there are not two, or they cannot be chosen."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    mine = sorted(os.sched_getaffinity(0))
    return (mine[0], mine[1]) if len(mine) > 1 else None


def _conditions(cores: tuple[int, int] | None, seconds: int) -> str:
    pinned = f"server on core {cores[0]}, client on core {cores[1]}" if cores else "not pinned"
    return (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, {pinned}, turns of {seconds} s, sides in turns,"
        " loopback; medians over the turns"
    )


if __name__ == "__main__":
    typer.run(bench)
