"""Output of reports: a table on the console, JSON, a page of HTML with plots."""

import os
import platform
import signal
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import httpx
import orjson
import psycopg
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as ConsoleTable

from load.driver.audit import AuditError
from load.driver.connection import Broken
from load.driver.outcome import RunOutcome
from load.driver.run import GeneratorError
from load.processes import RunConditions, here
from load.programs import MissingProgramError
from load.progress import Narrator, Tell
from load.report.figures import show, to_json
from load.report.html import page
from load.report.plots import ReportTable
from load.report.report import Report
from load.report.runs import narrow_table_of_runs

#: Options that every experiment has.
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", help="Also write NAME.html and NAME.json into this folder.")
]

_FILE_WIDTH = 160
#: What an experiment may meet that is not its own mistake.
FAILURES = (
    AuditError,
    Broken,
    GeneratorError,
    MissingProgramError,
    OSError,
    RuntimeError,
    httpx.HTTPError,
    psycopg.Error,
)


def perform(
    name: str, work: Callable[[RunConditions, Tell], Report], *, as_json: bool = False, output: Path | None = None
) -> None:
    """Run an experiment as a command does: tell what is being done, write its report, exit with 1 if it failed."""
    console = Console(stderr=True)
    conditions = here()
    # SIGTERM is an interruption: the database and the sides of the experiment are stopped then, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Narrator(console) as tell:
            report = work(conditions, tell)
    except FAILURES as error:
        console.print(f"[bold red]{name} failed:[/]", escape(f"{type(error).__name__}: {error}"), soft_wrap=True)
        raise typer.Exit(1) from error
    finish(name, report, conditions, as_json=as_json, output=output)


def finish(name: str, report: Report, conditions: RunConditions, *, as_json: bool, output: Path | None) -> None:
    """Print a report, and write it into a folder."""
    text = conditions_text(conditions)
    document = report_json(report, text)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / f"{name}.json").write_bytes(document + b"\n")
        (output / f"{name}.html").write_text(page(report, text), encoding="utf-8")
        Console(stderr=True).print(f"wrote {output / name}.html and .json", highlight=False, soft_wrap=True)
    if as_json:
        typer.echo(document)
    else:
        _print(_console(), report, text)


def _console() -> Console:
    """Standard output; where that is a file, wide enough for tables."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _FILE_WIDTH
    return console


def conditions_text(conditions: RunConditions) -> str:
    """Describes the machine for readers of a report."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {conditions.text}, loopback"


def report_json(report: Report, conditions: str) -> bytes:
    """A report, one object: `figures` and `skipped` as the other benchmarks have them, and all runs."""
    document: dict[str, Any] = {
        "title": report.title,
        "about": report.about,
        **orjson.loads(to_json(report.results, conditions)),
        "tables": [asdict(table) for table in report.tables],
        "plots": [asdict(plot) for plot in report.plots],
        "runs": [_run(run) for run in report.outcomes],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY, default=list)


def _run(run: RunOutcome) -> dict[str, Any]:
    told = {"hit_rate": run.hit_rate, "server_cpu_us": run.server_cpu_us, "client_cpu_us": run.client_cpu_us}
    return {**asdict(replace(run, moments=list(run.moments), failures=list(run.failures))), **told}


def _print(console: Console, report: Report, conditions: str) -> None:
    console.print(f"\n[bold]{report.title}[/]\n{report.about}\n", highlight=False)
    if report.outcomes:
        _print_table(console, narrow_table_of_runs(report.outcomes))
    for table in report.tables:
        _print_table(console, table)
    if report.results:
        show(console, report.results, conditions)


def _print_table(console: Console, table: ReportTable) -> None:
    drawn = ConsoleTable(title=table.title, title_justify="left")
    for number, column in enumerate(table.columns):
        is_text = number == 0 or column == table.columns[-1] == "remarks"
        drawn.add_column(column, justify="left" if is_text else "right", no_wrap=number == 0)
    for row in table.rows:
        drawn.add_row(*row)
    console.print(drawn)
