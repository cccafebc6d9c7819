"""``upquery doctor``: prints a table of problems that prevent or limit operation, each with its remedy.

Not here: the checks (`service.command.diagnosis`).
"""

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.command.failure import fail
from service.command.options import USAGE, ConfigOption, JsonOption, default_config, print_json

if TYPE_CHECKING:
    from service.command.diagnosis import Examination
    from service.engine.upstream.results import Finding

output = Console(highlight=False)


def doctor(
    config: ConfigOption = None,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix", help="Run the fixes that only change the contents of the log: replica identities, event triggers."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the database, the change stream and the tables that the configured views read; print remedies."""
    # Imported here: the help of the commands does not need them.
    from service.command.diagnosis import examine
    from service.settings.errors import SettingsError
    from service.settings.stack import load_settings

    try:
        found = asyncio.run(examine(load_settings(default_config(config)), fix=fix))
    except SettingsError as error:
        fail(str(error), as_json=as_json, code=USAGE)
    show(found, as_json=as_json)
    raise typer.Exit(0 if found.healthy else 1)


def show(found: "Examination", *, as_json: bool) -> None:
    """Print all findings, fatal ones first."""
    findings = sorted(found.findings, key=lambda finding: not finding.fatal)
    if as_json:
        fixed = [asdict(finding) for finding in found.fixed]
        print_json({"healthy": found.healthy, "findings": [asdict(f) for f in findings], "fixed": fixed})
        return
    for finding in found.fixed:
        output.print(f"[green]fixed[/]  {escape(finding.fix or finding.reason)}", soft_wrap=True)
    if findings:
        output.print(_table(findings))
    if found.healthy:
        output.print("[bold green]No problem prevents operation.[/]")
    else:
        count = sum(finding.fatal for finding in findings)
        output.print(f"[bold red]{count} {'problem prevents' if count == 1 else 'problems prevent'} operation.[/]")


def _table(findings: "list[Finding]") -> Table:
    table = Table("", "code", "table", "finding and remedy")
    for finding in findings:
        text = escape(finding.reason) + (f"\n[bold]{escape(finding.fix)}[/]" if finding.fix else "")
        mark = "[red]fatal[/]" if finding.fatal else "[yellow]warning[/]"
        table.add_row(mark, finding.code, escape(finding.table or "server"), text)
    return table
