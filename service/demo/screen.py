"""Output of the demo in the terminal, and nothing else."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from service.demo.check import DemoComparison
from service.demo.client import DemoAnswer, Totals
from service.demo.loading import Progress as LoadingProgress
from service.demo.views import VIEWS, DemoView


@dataclass(frozen=True, slots=True)
class FirstAnswers:
    """The first two answers to a view's example: one asked from the database, one from memory."""

    view: DemoView
    first: DemoAnswer
    second: DemoAnswer


@dataclass(frozen=True, slots=True)
class Activity:
    """Contents of the status line."""

    totals: Totals | None
    failures: int
    writes_per_second: float


def view_url(base: str, view: DemoView, below: str = "") -> str:
    """URL of the view's example, or of `below` it."""
    query = f"?{urlencode(view.example_parameters)}" if view.example else ""
    return f"{base}/v1/views/{view.name}{below}{query}"


def curl_line(base: str, view: DemoView, curl: str) -> str:
    """Command that reads the view's example."""
    return f"{curl} -s {shlex.quote(view_url(base, view))}"


@contextmanager
def loading(console: Console, rows: int) -> Iterator[LoadingProgress]:
    """A progress bar over all rows that are loaded."""
    columns = (
        TextColumn("  {task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("loading", total=rows)

        def advance(table: str, count: int) -> None:
            progress.update(task, description=f"loading {table}", advance=count)

        yield advance
        progress.update(task, description="data loaded", total=progress.tasks[0].completed)


@contextmanager
def step(console: Console, what: str) -> Iterator[None]:
    """A spinner while something starts, then how long it took."""
    columns = (SpinnerColumn(finished_text="[green]✓"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(what, total=1)
        yield
        progress.update(task, completed=1)


def welcome(
    console: Console, base: str, admin: str, database: str, answers: Sequence[FirstAnswers], *, token: str | None
) -> None:
    """The table of views, and what to type."""
    table = Table(title="Views", title_justify="left", title_style="bold", expand=False)
    table.add_column("view", style="bold")
    table.add_column("answers")
    for heading in ("rows", "first, ms", "again, ms"):
        table.add_column(heading, justify="right")
    for each in answers:
        table.add_row(
            each.view.name,
            each.view.purpose,
            str(len(each.second.rows)),
            f"{each.first.elapsed_ms:.1f}",
            f"{each.second.elapsed_ms:.1f}",
        )
    console.print()
    console.print(table)
    console.print(Text("first: computed with the database (front_page is loaded at the start); again: from memory\n"))
    console.print("[bold]Try in another terminal[/bold]")
    curl = "curl"
    if token is not None:
        curl = 'curl -H "Authorization: Bearer $UPQUERY_TOKEN"'
        console.print(f"  export UPQUERY_TOKEN={token}", soft_wrap=True, highlight=False)
    for view in VIEWS:
        console.print(f"  {curl_line(base, view, curl)}", soft_wrap=True, highlight=False)
    console.print()
    console.print("[bold]And[/bold]")
    for what, line in (
        ("headers: hit or miss, version, age", f"{curl} -si {shlex.quote(view_url(base, VIEWS[0]))}"),
        ("plan of a view", f"{curl} -s {admin}/v1/catalog/views/{VIEWS[3].name}/plan"),
        ("all views", f"{curl} -s {admin}/v1/catalog/views"),
        ("changes of a view", f"{curl} -sN {shlex.quote(view_url(base, VIEWS[0], '/subscribe'))}"),
        ("the console, in a browser", f"{admin}/"),
        ("OpenAPI document", f"{curl} -s {base}/openapi.json"),
        ("the database", f"psql {shlex.quote(database)}"),
    ):
        console.print(f"  {what:<36}{line}", soft_wrap=True, highlight=False)
    console.print()


def status_line(activity: Activity) -> Text:
    """Hits, misses, writes and lag, for a live line."""
    totals = activity.totals
    line = Text()
    for what, value, style in (
        ("hits", f"{totals.hits:,}" if totals else "?", "bold green"),
        ("misses", f"{totals.misses:,}" if totals else "?", "bold yellow"),
        ("transactions", f"{activity.writes_per_second:.0f}/s", "bold"),
        ("behind the database", f"≤ {totals.age_ms:.0f} ms" if totals else "?", "bold"),
    ):
        line.append(f"{what} ", "dim").append(f"{value}   ", style)
    if activity.failures:
        line.append(f"failed reads {activity.failures:,}   ", "bold red")
    return line.append("Ctrl-C stops everything", "dim")


def comparisons(console: Console, by_view: dict[str, DemoComparison]) -> None:
    """Print the results of a check."""
    table = Table(title="Answers compared with the database, at the same version", title_justify="left")
    table.add_column("view", style="bold")
    for heading in ("answers", "rows", "from memory", "different"):
        table.add_column(heading, justify="right")
    for name, comparison in by_view.items():
        different = len(comparison.differences)
        table.add_row(
            name,
            f"{comparison.reads:,}",
            f"{comparison.rows:,}",
            f"{comparison.hits:,}",
            f"[bold red]{different}[/]" if different else "[green]0[/]",
        )
    console.print(table)
